"""Pods that were bound just as their devices were given up: they get others on their node, or are made anew where there are some."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.actors.kubelets import KUBELET_LABEL
from dra_operator.engine.decisions import EvictPod
from tests.engine.gangs import LABEL, group
from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
    policy,
    template,
    workload,
)

WORLD = (
    *(node("n1", **{KUBELET_LABEL: "off"}), gpus("n1", 1), device_class(), template()),
    namespace("exempt", **{"dra-operator.dev/managed": "false"}),
)
SPARE = (node("n2"), gpus("n2", 1))


def stranded(*objects: Object) -> Stage:
    """The one pod is bound to n1 and has not started when its claim is cleared, and somebody else has the device."""
    stage = Stage(*WORLD, *objects)
    stage.until(stage.bound)
    [held] = [item for item in stage.objects("ResourceClaim") if (item.get("status") or {}).get("allocation")]
    allocation = {key: value for key, value in held["status"]["allocation"].items() if key != "nodeSelector"}
    stage.send("PUT", "ResourceClaim", held["metadata"]["name"], {**held, "status": {}}, sub="status")
    stage.apply(claim("foreign", namespace="exempt"))
    stored = stage.get("ResourceClaim", "foreign", "exempt")
    assert stored is not None
    status = {"allocation": allocation}
    stage.send("PUT", "ResourceClaim", "foreign", {**stored, "status": status}, namespace="exempt", sub="status")
    stage.patch("Node", "n1", {"metadata": {"labels": {KUBELET_LABEL: None}}})
    return stage


def evictions(stage: Stage) -> int:
    return sum(isinstance(each.decision, EvictPod) for each in stage.runner.executed)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_its_successor_runs_where_there_are_devices(kind: str) -> None:
    stage = stranded(workload(kind, "w"))
    stage.apply(*SPARE)
    stage.run(60)
    assert list(stage.bound().values()) == ["n2"]
    assert evictions(stage) == 1
    [note] = stage.events("BoundWithoutDevices")
    assert note == "evicted: bound to node n1, which has no devices for it, and not started; another one fits node n2"


def test_it_gets_devices_on_its_node_where_there_are_some() -> None:
    stage = stranded(workload("Deployment", "w"))
    [before] = stage.bound()
    stage.apply(gpus("n1", 2), *SPARE)
    stage.run(60)
    assert stage.bound() == {before: "n1"}
    assert evictions(stage) == 0


@pytest.mark.parametrize(
    "objects",
    [
        [workload("Deployment", "w"), *SPARE, policy(preemption={"mode": "Never"})],
        [workload("Deployment", "w"), *SPARE, policy(preemptible=False)],
        [workload("Deployment", "w"), node("n2"), gpus("n2", 1), claim("first"), policy()],
        [pod("p", templates=["gpu"]), *SPARE],
        [workload("DaemonSet", "w"), node("n2"), gpus("n2", 2), policy()],
    ],
    ids=[
        "no preemption",
        "not preemptible",
        "no devices elsewhere",
        "nobody makes it anew",
        "made anew on the same node",
    ],
)
def test_else_it_waits_and_the_report_says_where(objects: list[Object]) -> None:
    later = [item for item in objects if item["kind"] not in ("Deployment", "DaemonSet", "Pod")]
    stage = stranded(*(item for item in objects if item not in later))
    [name] = [name for name, where in stage.bound().items() if where == "n1"]
    stage.apply(*later)
    stage.run(60)
    assert stage.bound()[name] == "n1"
    assert evictions(stage) == 0
    [report] = [item["status"] for item in stage.objects("ClaimReport") if name in item["metadata"]["name"]]
    assert report["reason"] == "NoDevices"
    assert "the pod is bound to node n1" in str(report["explanation"])


def test_a_member_of_a_group_waits_with_it() -> None:
    stage = stranded(group("g", 1), pod_of_a_group())
    stage.apply(*SPARE, policy())
    stage.run(60)
    assert evictions(stage) == 0
    assert "n1" in stage.bound().values()


def pod_of_a_group() -> Object:
    item = workload("Deployment", "w")
    item["spec"]["template"]["metadata"]["labels"][LABEL] = "g"
    return item


def test_a_pod_that_nobody_makes_anew_is_told_what_helps() -> None:
    stage = stranded(pod("p", templates=["gpu"]))
    stage.apply(*SPARE)
    stage.run(60)
    [report] = [item["status"] for item in stage.objects("ClaimReport") if item["metadata"]["name"].startswith("p-")]
    [fix] = [fix for fix in report["explanation"]["fixes"] if "delete pod" in fix["text"]]
    assert fix["text"] == "delete pod default/p, which is bound to node n1 and has not started, and create it again"
    assert fix["node"] == "n2"
