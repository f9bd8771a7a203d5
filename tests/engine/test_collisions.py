"""Another allocator gives a device away that is ours: our side gives way."""

from __future__ import annotations

import pytest

from dra_operator.engine.decisions import EvictPod
from tests.engine.stage import GPU, Object, Stage, claim, device_class, gpus, namespace, node, pod, template, workload

WORLD = (
    *(node("n1"), gpus("n1", 2), device_class(), template()),
    namespace("exempt", **{"dra-operator.dev/managed": "false"}),
)
FOREIGN = "foreign"


def give_away(stage: Stage, device: str) -> None:
    """A claim that is not ours gets the device, whoever has it."""
    stage.apply(claim(FOREIGN, namespace="exempt"))
    stored = stage.get("ResourceClaim", FOREIGN, "exempt")
    assert stored is not None
    pool, name = device.split("/")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": name}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2027-01-01T00:00:00Z"}
    stage.send(
        "PUT",
        "ResourceClaim",
        FOREIGN,
        {**stored, "status": {"allocation": allocation}},
        namespace="exempt",
        sub="status",
    )


def evictions(stage: Stage) -> int:
    return sum(isinstance(each.decision, EvictPod) for each in stage.runner.executed)


def test_a_claim_whose_pod_is_not_bound_moves() -> None:
    stage = Stage(*WORLD, claim("a"), pod("p", "a", schedulingGates=[]))
    stage.until(lambda: stage.gates("p") == [])
    [mine] = stage.devices("a")
    give_away(stage, mine)
    stage.run(60)
    assert stage.bound() == {"p": "n1"}
    assert len(stage.taken()) == len(set(stage.taken())) == 2
    assert len(stage.events("DeviceCollision")) >= 1


def test_a_pod_that_runs_is_replaced() -> None:
    stage = Stage(*WORLD, workload("Deployment", "d")).run()
    [before] = stage.bound()
    give_away(stage, stage.taken()[0])
    stage.run(90)
    assert before not in stage.bound()
    assert len(stage.bound()) == 1
    assert len(stage.taken()) == len(set(stage.taken())) == 2


def test_a_disruption_budget_is_asked_now_and_then_until_it_agrees() -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "d"}}},
    }  # fmt: skip
    stage = Stage(*WORLD, workload("Deployment", "d"), budget).run()
    [before] = stage.bound()
    give_away(stage, stage.taken()[0])
    stage.run(100)
    assert before in stage.bound()
    assert 2 <= evictions(stage) <= 11
    stage.delete("PodDisruptionBudget", "b")
    stage.run(100)
    assert before not in stage.bound()
    assert len(stage.taken()) == len(set(stage.taken())) == 2


RESULT = {"request": "gpu", "driver": GPU, "pool": "n1", "device": "gpu-0"}


@pytest.mark.parametrize(
    ("allocation", "left"),
    [
        (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["a"]}]}]
                }
            },
            [],
        ),
        ({"devices": {"results": [{**RESULT, "consumedCapacity": {"memory": "a"}}]}}, []),
        ({"devices": {"results": [{**RESULT, "device": "gpu-7"}, "?"]}}, ["n1/gpu-0"]),
    ],
)
def test_devices_of_a_claim_that_cannot_be_read_are_taken(allocation: Object, left: list[str]) -> None:
    """The API server takes what another allocator writes there without looking closely."""
    foreign = claim("foreign", namespace="exempt")
    foreign["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    foreign["status"] = {"allocation": {"devices": {"results": [RESULT]}, **allocation}}
    stage = Stage(node("n1"), gpus("n1", 1), device_class())
    stage.engines[0].observe("ResourceClaim", "ADDED", foreign, stage.world.now)
    stage.apply(claim("ours"))
    stage.run(10)
    assert stage.devices("ours") == left
