"""The engine on the embedded cluster: what users apply, and what they get."""

from __future__ import annotations

import pytest

from tests.engine.stage import (
    Stage,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)

ONE_NODE = (node("n1"), gpus("n1", 4), device_class())
TWO_NODES = (node("n1"), gpus("n1", 2), node("n2"), gpus("n2", 2), device_class())


def test_a_deployment_gets_a_device_for_each_replica_and_gives_all_back() -> None:
    stage = Stage(*TWO_NODES, template(), workload("Deployment", "train", 4)).run()
    assert stage.taken() == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1"]
    assert sorted(stage.bound().values()) == ["n1", "n1", "n2", "n2"]
    assert set(stage.phases().values()) == {"Reserved"}
    stage.patch("Deployment", "train", {"spec": {"replicas": 0}})
    stage.run()
    assert (stage.taken(), stage.objects("ResourceClaim"), stage.objects("ClaimReport")) == ([], [], [])


def test_two_requests_a_pod() -> None:
    """The API server is the limit: an allocation is one status update and one patch."""
    stage = Stage(*ONE_NODE, template(), workload("Deployment", "train", 3)).run(1)
    kinds = [type(each.decision).__name__ for each in stage.runner.executed]
    assert kinds.count("WriteClaimStatus") == 3
    assert kinds.count("PatchPod") == 3
    assert len([kind for kind in kinds if kind not in ("WriteReport",)]) == 6


def test_pods_are_pinned_only_where_a_controller_can_replace_them() -> None:
    stage = Stage(
        *ONE_NODE, template(), claim("c"), pod("bare", "c"), workload("Deployment", "train"), workload("Job", "job")
    )
    stage.run()
    affinity = {item["metadata"]["name"].split("-")[0]: item["spec"].get("affinity") for item in stage.objects("Pod")}
    assert affinity["train"]
    assert not affinity["bare"]
    assert not affinity["job"]


def test_pinning_can_be_switched_off() -> None:
    stage = Stage(*ONE_NODE, template(), policy(placement={"pin": "Never"}), workload("Deployment", "train")).run()
    assert [item["spec"].get("affinity") for item in stage.objects("Pod")] == [None]


def test_a_pod_with_two_claims_gets_both_on_one_node() -> None:
    stage = Stage(*TWO_NODES, claim("a"), claim("b"), pod("p", "a", "b")).run()
    where = stage.bound()["p"]
    assert [device.split("/")[0] for device in stage.devices("a") + stage.devices("b")] == [where, where]


def test_a_unit_is_all_or_nothing() -> None:
    stage = Stage(*TWO_NODES, claim("a", 2), claim("b", 2), pod("p", "a", "b")).run()
    assert stage.taken() == []
    assert stage.phases() == {"a": "Unsatisfiable", "b": "Unsatisfiable"}


def test_a_shared_claim_puts_its_pods_on_one_node() -> None:
    stage = Stage(*TWO_NODES, claim("a"), pod("p", "a"), pod("q", "a")).run()
    assert set(stage.bound()) == {"p", "q"}
    assert len(set(stage.bound().values())) == 1
    reserved = stage.get("ResourceClaim", "a")["status"]["reservedFor"]
    assert sorted(consumer["name"] for consumer in reserved) == ["p", "q"]


def test_a_bare_claim_is_allocated_after_two_seconds_and_kept() -> None:
    stage = Stage(*ONE_NODE, claim("a"))
    stage.run(1.5)
    assert stage.devices("a") == []
    stage.run(60)
    assert len(stage.devices("a")) == 1
    assert "reservedFor" not in stage.get("ResourceClaim", "a")["status"]
    assert stage.phases() == {"a": "Allocated"}


def test_a_bare_claim_is_moved_when_its_pod_can_only_run_elsewhere() -> None:
    stage = Stage(
        node("n1"), gpus("n1", 1), node("n2", cpu="64"), gpus("n2", 1), device_class(), claim("a"), claim("b")
    ).run()
    on_n1 = "a" if stage.devices("a") == ["n1/gpu-0"] else "b"
    other = "b" if on_n1 == "a" else "a"
    stage.delete("ResourceClaim", other)
    stage.apply(pod("p", on_n1, cpu="48"))
    stage.run()
    assert stage.devices(on_n1) == ["n2/gpu-0"]
    assert stage.bound() == {"p": "n2"}


def test_a_claim_that_a_pod_has_used_waits_for_the_next_pod() -> None:
    """It would otherwise take its devices back for nobody."""
    stage = Stage(*ONE_NODE, claim("a"), pod("p", "a")).run()
    stage.delete("Pod", "p")
    stage.run()
    assert stage.devices("a") == []
    assert stage.report("a")["reason"] == "NotInUse"
    stage.apply(pod("q", "a"))
    stage.run()
    assert stage.bound() == {"q": "n1"}
    assert len(stage.devices("a")) == 1


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([claim("a", of="missing"), pod("p", "a")], ["device class missing not found", "create it"]),
        ([device_class("bad", "device.driver =="), claim("a", of="bad"), pod("p", "a")], ["class bad", "selector"]),
        ([claim("a", selector="device.nonsense"), pod("p", "a")], ["a", "selector"]),
        ([claim("a", selector=f'device.attributes["{"gpu.example.com"}"].memory > 3'), pod("p", "a")], ["memory"]),
        ([claim("a", 5), pod("p", "a")], ["5", "4"]),
    ],
    ids=[
        "class missing",
        "class broken",
        "selector broken",
        "selector fails on every device",
        "more than any node has",
    ],
)
def test_bad_claims_say_why_and_hinder_nobody(objects: list[dict], words: list[str]) -> None:
    stage = Stage(*ONE_NODE, *objects, claim("good"), pod("fine", "good")).run()
    assert stage.bound() == {"fine": "n1"}
    report = stage.report("a")
    assert report["phase"] == "Unsatisfiable"
    for word in words:
        assert word in report["explanation"]["summary"]
    assert stage.events("Unsatisfiable")


def test_a_claim_is_allocated_once_its_class_appears() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), claim("a"), pod("p", "a")).run()
    assert stage.phases() == {"a": "Unsatisfiable"}
    stage.apply(device_class())
    stage.run()
    assert stage.bound() == {"p": "n1"}


def test_a_pod_that_fits_no_node_by_cpu_waits_and_says_so() -> None:
    stage = Stage(*ONE_NODE, claim("a"), pod("p", "a", cpu="64"), claim("b"), pod("q", "b")).run()
    assert stage.bound() == {"q": "n1"}
    report = stage.report("a")
    assert report["reason"] == "NoFittingNode"
    assert "not enough cpu (needs 64" in report["explanation"]["summary"]


def test_priority_goes_first_then_age() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), priority_class("high", 1000))
    stage.apply(
        claim("a"),
        pod("first", "a"),
        claim("b"),
        pod("second", "b"),
        claim("c"),
        pod("urgent", "c", priorityClassName="high"),
    )
    stage.run()
    assert stage.bound() == {"urgent": "n1"}
    assert [stage.report(name)["queue"]["position"] for name in ("a", "b")] == [1, 2]
    stage.delete("Pod", "urgent")
    stage.run()
    assert stage.bound() == {"first": "n1"}


def test_another_gate_keeps_the_pod_from_being_allocated_for() -> None:
    gate = [{"name": "kueue.x-k8s.io/admission"}]
    stage = Stage(*ONE_NODE, claim("a"), pod("p", "a", schedulingGates=gate)).run()
    assert stage.taken() == []
    assert "kueue.x-k8s.io/admission" in stage.report("a")["explanation"]["summary"]
    stage.patch("Pod", "p", {"spec": {"schedulingGates": [{"name": "dra-operator.dev/allocation"}]}})
    stage.run()
    assert stage.bound() == {"p": "n1"}


@pytest.mark.parametrize(
    ("foreign", "is_gated"),
    [
        (pod("p", templates=["gpu"], schedulerName="volcano"), False),
        (pod("p", templates=["gpu"], nodeName="n1"), False),
    ],
    ids=["of another scheduler", "with a node"],
)
def test_pods_that_are_not_ours_keep_their_claims_to_themselves(foreign: dict, is_gated: bool) -> None:
    stage = Stage(*ONE_NODE, template(), foreign).run()
    assert bool(stage.gates("p")) == is_gated
    assert stage.taken() == []
    [generated] = stage.objects("ResourceClaim")
    assert "dra-operator.dev/managed" not in generated["metadata"].get("labels", {})
    assert stage.objects("ClaimReport") == []


def test_an_exempt_namespace_is_left_alone() -> None:
    stage = Stage(*ONE_NODE, namespace("exempt", **{"dra-operator.dev/managed": "false"}), template(namespace="exempt"))
    stage.apply(workload("Deployment", "train", 2, namespace="exempt"))
    stage.run()
    assert len(stage.taken()) == 2  # by kube-scheduler, as ever
    assert stage.objects("ClaimReport") == []
    assert not any(item["spec"].get("schedulingGates") for item in stage.objects("Pod"))


@pytest.mark.parametrize(("kind", "pods"), [("DaemonSet", 2), ("StatefulSet", 2), ("Job", 2), ("Deployment", 2)])
def test_workloads(kind: str, pods: int) -> None:
    stage = Stage(*TWO_NODES, template(), workload(kind, "work", 2)).run()
    assert len(stage.bound()) == pods
    assert len(stage.taken()) == pods
    if kind == "DaemonSet":
        assert sorted(stage.bound().values()) == ["n1", "n2"]


def test_a_node_cordoned_before_binding_is_left_for_another() -> None:
    """The allocation was written, then the node went away: the claim moves."""
    stage = Stage(*TWO_NODES, claim("a"), pod("p", "a"))
    stage.until(lambda: stage.devices("a"))
    first = stage.devices("a")[0].split("/")[0]
    stage.patch("Node", first, {"spec": {"unschedulable": True}})
    stage.run(120)
    assert set(stage.bound().values()) == {"n1", "n2"} - {first}


def test_a_report_says_why_kube_scheduler_gave_a_placement_back() -> None:
    """It clears the claim first, and writes into the pod's condition then."""
    stage = Stage(*TWO_NODES, claim("a"), pod("p", "a"))
    stage.until(lambda: stage.gates("p") == [])
    [taken] = stage.devices("a")
    first = taken.partition("/")[0]
    stage.patch("Node", first, {"spec": {"unschedulable": True}})
    stage.until(lambda: stage.bound())
    stage.run(60)
    assert list(stage.bound().values()) != [first]
    [entry] = stage.report("a")["avoid"]
    assert entry["node"] == first
    assert entry["why"].startswith("kube-scheduler could not bind the pod there: 0/2 nodes are available: ")
    assert "1 node(s) were unschedulable" in entry["why"]
    [note] = stage.events("PlacementRejected")
    assert "1 node(s) were unschedulable" in note


def test_what_is_allocated_already_stays_when_a_node_is_cordoned() -> None:
    stage = Stage(*ONE_NODE, claim("a"), pod("p", "a")).run()
    devices = stage.devices("a")
    stage.patch("Node", "n1", {"spec": {"unschedulable": True}})
    stage.apply(claim("b"), pod("q", "b"))
    stage.run()
    assert stage.devices("a") == devices
    assert "cordoned" in stage.report("b")["explanation"]["summary"]


def test_provisioning_ungates_a_pod_that_fits_nowhere() -> None:
    """Autoscalers see only ungated pods."""
    stage = Stage(
        *ONE_NODE, policy(provisioning={"mode": "Ungate", "after": "60s"}), claim("big", 8), pod("p", "big")
    ).run(5)
    assert stage.gates("p") == []
    assert stage.devices("big") == []
    stage.apply(node("n2"), gpus("n2", 8))
    stage.run(60)
    assert stage.bound() == {"p": "n2"}


def test_provisioning_waits_before_it_ungates_a_pod_that_would_fit_when_others_end() -> None:
    objects = (
        policy(provisioning={"mode": "Ungate", "after": "60s"}),
        claim("a", 4),
        pod("p", "a"),
        claim("b"),
        pod("q", "b"),
    )
    stage = Stage(*ONE_NODE, *objects).run(50)
    assert stage.gates("q") == ["dra-operator.dev/allocation"]
    stage.run(20)
    assert stage.gates("q") == []


def test_observe_mode_writes_nothing_but_reports() -> None:
    from dra_operator.engine.settings import EngineSettings

    stage = Stage(*ONE_NODE, claim("a"), pod("p", "a"), settings=EngineSettings(mode="observe")).run()
    assert stage.taken() == []
    assert {type(each.decision).__name__ for each in stage.runner.executed} == {"WriteReport"}
    assert stage.report("a")["reason"] == "WouldBeAllocated"


def test_a_class_report_counts() -> None:
    stage = Stage(*TWO_NODES, claim("a"), pod("p", "a"), claim("big", 3), pod("q", "big")).run(120)
    status = stage.get("DeviceClassReport", "gpu")["status"]
    numbers = {name: status[name] for name in ("total", "allocated", "free", "waitingClaims", "largestFreeGroup")}
    assert numbers == {"total": 4, "allocated": 1, "free": 3, "waitingClaims": 1, "largestFreeGroup": 2}
