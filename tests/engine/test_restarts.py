"""Killed between any two writes and started again, the operator gets to the same end."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import KillOnce, SeededFaults
from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from tests.engine.stage import Stage, claim, device_class, gpus, node, pod, template, workload

WORLD = (
    *(node("n1"), gpus("n1", 4), node("n2"), gpus("n2", 2), device_class(), template()),
    *(claim("a"), claim("b"), pod("two", "a", "b"), workload("Deployment", "train", 2), claim("bare")),
)


def check_end(stage: Stage) -> None:
    assert len(stage.taken()) == len(set(stage.taken())) == 5
    assert sorted(name.split("-")[0] for name in stage.bound()) == ["train", "train", "two"]
    assert not any(item["metadata"].get("deletionTimestamp") for item in stage.objects("Pod"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_once(moment: str) -> None:
    """Before or after each single request in turn."""
    number = 0
    while True:
        faults = KillOnce(number, moment)  # type: ignore[arg-type]
        stage = Stage(*WORLD, faults=faults).run(90)
        if not faults.happened:
            break
        check_end(stage)
        number += 1
    assert number >= 8  # five allocations, three ungatings


@pytest.mark.parametrize("seed", range(0, 120, 4))
def test_faults_of_all_kinds(seed: int) -> None:
    """Conflicts, errors, lost requests and answers, broken watches, deaths, everything slow."""
    for number in range(seed, seed + 4):
        check_end(Stage(*WORLD, faults=SeededFaults(number)).run(400))


def raw_claim(name: str, version: int) -> dict:
    item = claim(name)
    item["metadata"] |= {
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2027-01-01T00:00:00Z",
        "labels": {"dra-operator.dev/managed": "true"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    return item


def test_a_version_delivered_twice_does_not_free_what_is_being_written() -> None:
    engine = Engine()
    now = 1_800_000_000.0
    for item in (node("n1"), gpus("n1", 1), device_class(), raw_claim("a", 5)):
        engine.observe(item["kind"], "ADDED", item, now)
    for kind in WATCHED:
        engine.synced(kind)
    [first] = [item for item in engine.decide(now) if isinstance(item, WriteClaimStatus)]
    assert first.claim.name == "a"
    engine.observe("ResourceClaim", "MODIFIED", raw_claim("a", 5), now)
    engine.observe("ResourceClaim", "ADDED", raw_claim("b", 6), now)
    assert [item for item in engine.decide(now + 10) if isinstance(item, WriteClaimStatus)] == []


@pytest.mark.parametrize("used", [False, True])
def test_started_between_the_two_requests_that_free_a_claim(used: bool) -> None:
    """kube-controller-manager takes the allocation away, then the finalizer: in between, the report tells it from a bare claim."""
    engine = Engine()
    now = 1_800_000_000.0
    status = {"phase": "Allocated", **({"usedBy": {"name": "p", "uid": "uid-p"}} if used else {})}
    owner = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "a", "uid": "uid-a"}
    told = {"name": "a", "namespace": "default", "uid": "uid-r", "resourceVersion": "4", "ownerReferences": [owner]}
    for item in (
        *(node("n1"), gpus("n1", 1), device_class(), raw_claim("a", 5)),
        {"kind": "ClaimReport", "metadata": told, "status": status},
    ):
        engine.observe(item["kind"], "ADDED", item, now)
    for kind in WATCHED:
        engine.synced(kind)
    written = [item for item in engine.decide(now) if isinstance(item, WriteClaimStatus)]
    assert len(written) == (0 if used else 1)
