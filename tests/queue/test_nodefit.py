"""Which nodes a pod can run on: one row a rule of kube-scheduler's filters that is modelled."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.core import Node, Pod
from dra_operator.queue.nodefit import Misfit, NodeLedger, describe_misfits


def node(name: str = "n1", *, cpu: str = "8", spec: dict[str, Any] | None = None, **labels: str) -> Node:
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return Node.from_dict({"metadata": metadata, "spec": spec or {}, "status": {"allocatable": allocatable}})


def pod(name: str = "p", *, cpu: str = "1", priority: int = 0, port: int = 0, **spec: Any) -> Pod:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"hostPort": port, "containerPort": port}]
    return Pod.from_dict(
        {
            "metadata": {"namespace": "d", "name": name, "uid": f"uid-{name}"},
            "spec": {"containers": [container], "priority": priority, **spec},
        }
    )


def on_label(key: str, value: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TAINTED = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
TOLERATING = [{"key": "gpu", "operator": "Exists"}]
CORDON_TOLERATION = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("the_node", "the_pod", "reason"),
    [
        (node(), pod(), None),
        (node(spec={"unschedulable": True}), pod(), "node is cordoned"),
        (node(spec={"unschedulable": True}), pod(tolerations=CORDON_TOLERATION), None),
        (node(spec=TAINTED), pod(), "node has taint gpu=yes:NoSchedule that the pod does not tolerate"),
        (node(spec=TAINTED), pod(tolerations=TOLERATING), None),
        (node(zone="a"), pod(nodeSelector={"zone": "b"}), "node does not match the pod's node selector or affinity"),
        (node(zone="a"), pod(affinity=on_label("zone", "a")), None),
        (
            node(zone="a"),
            pod(affinity=on_label("zone", "b")),
            "node does not match the pod's node selector or affinity",
        ),
        (node(cpu="8"), pod(cpu="9"), "not enough cpu"),
        (node(), pod(overhead={"cpu": "8"}), "not enough cpu"),
        (node(), pod(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "20"}}}]), "not enough cpu"),
    ],
)
def test_misfit(the_node: Node, the_pod: Pod, reason: str | None) -> None:
    ledger = NodeLedger()
    ledger.apply_node(the_node)
    found = ledger.misfit(the_pod, "n1")
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("running", "candidate", "fits"),
    [
        ([pod("a", cpu="4"), pod("b", cpu="4")], pod(cpu="1"), False),
        ([pod("a", cpu="4")], pod(cpu="4"), True),
        # kube-scheduler pushes pods of lower priority aside once ours is on its way …
        ([pod("a", cpu="8")], pod(cpu="4", priority=10), True),
        ([pod("a", cpu="8", priority=10)], pod(cpu="4", priority=10), False),
        # … but not for a pod that does not preempt.
        ([pod("a", cpu="8")], pod(cpu="4", priority=10, preemptionPolicy="Never"), False),
        ([pod("a", port=80)], pod(port=80), False),
        ([pod("a", port=80)], pod(port=81), True),
    ],
)
def test_what_runs_there_counts(running: list[Pod], candidate: Pod, fits: bool) -> None:
    ledger = NodeLedger()
    ledger.apply_node(node())
    for each in running:
        ledger.occupy(each, "n1")
    assert (ledger.misfit(candidate, "n1") is None) == fits
    assert ledger.misfit(candidate, "n1", empty=True) is None


def test_a_pod_does_not_compete_with_itself() -> None:
    ledger = NodeLedger()
    ledger.apply_node(node())
    ours = pod(cpu="6")
    ledger.occupy(ours, "n1")
    assert ledger.misfit(ours, "n1") is None


def test_pushing_others_aside_costs() -> None:
    ledger = NodeLedger()
    ledger.apply_node(node())
    ledger.occupy(pod("a", cpu="6"), "n1")
    assert ledger.cost(pod(cpu="2", priority=10), "n1") == 0
    assert ledger.cost(pod(cpu="6", priority=10), "n1") == pytest.approx(0.5)
    assert ledger.cost(pod(cpu="6", priority=10), "n1", without=frozenset({"uid-a"})) == 0


def test_leaving_makes_room() -> None:
    ledger = NodeLedger()
    ledger.apply_node(node())
    ledger.occupy(pod("a", cpu="8"), "n1")
    assert ledger.vacate("uid-a")
    assert not ledger.vacate("uid-a")
    assert ledger.misfit(pod(cpu="8"), "n1") is None


def test_resources_that_classes_serve_are_not_counted() -> None:
    ledger = NodeLedger(lambda name: name == "example.com/gpu")
    ledger.apply_node(node())
    container = {"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}
    assert ledger.misfit(pod(containers=[container]), "n1") is None


def test_misfits_are_told_by_reason() -> None:
    misfits = [
        Misfit("not enough cpu", "cpu", 64000, 8000),
        Misfit("node is cordoned"),
        Misfit("not enough cpu", "cpu", 64000, 500),
    ]
    assert describe_misfits(misfits) == "2 nodes: not enough cpu (needs 64, most free 8); 1 node: node is cordoned"
