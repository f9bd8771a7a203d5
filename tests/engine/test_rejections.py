"""kube-scheduler gives a placement back: what is told of it, and when."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import format_time
from dra_operator.engine.decisions import Decision, RecordEvent, WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import UNGATED_AT
from tests.engine.stage import device_class, gpus, node, pod

NOW = 1_800_000_000.0
SAYS = "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
REFUSED = (
    'running PreBind plugin "DynamicResources": add allocation and reservation to claim default/a: resourceclaims.resource.k8s.io "a" '
    "is forbidden: ValidatingAdmissionPolicy 'dra-operator-guard' with binding 'dra-operator-guard' denied request"
)
PLAIN = "kube-scheduler could not bind the pod there"


def stored_claim(version: int, *, allocated: bool) -> dict[str, Any]:
    here = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    allocation = {
        "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        "allocationTimestamp": "2027-01-01T00:00:00Z",
    }
    consumer = {"resource": "pods", "name": "p", "uid": "uid-p"}
    return {
        "kind": "ResourceClaim",
        "metadata": {
            "name": "a", "namespace": "default", "uid": "uid-a", "resourceVersion": str(version),
            "creationTimestamp": "2027-01-01T00:00:00Z", "labels": {"dra-operator.dev/managed": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": allocation, "reservedFor": [consumer]} if allocated else {},
    }  # fmt: skip


def ungated_pod(version: int, message: str | None, at: float = NOW) -> dict[str, Any]:
    item = pod("p", "a")
    item["metadata"] |= {
        "namespace": "default", "uid": "uid-p", "resourceVersion": str(version),
        "creationTimestamp": "2027-01-01T00:00:00Z", "annotations": {UNGATED_AT: format_time(at)},
    }  # fmt: skip
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    item["status"] = {"phase": "Pending", "conditions": [told] if message else []}
    return item


@pytest.mark.parametrize(
    ("before", "after", "told_at", "told"),
    [
        (None, SAYS, 0.1, f"{PLAIN}: {SAYS}"),
        ("what it said before", SAYS, 0.1, f"{PLAIN}: {SAYS}"),
        ("the same", "the same", 2.0, f"{PLAIN}: the same"),
        (None, None, 2.0, PLAIN),
        (None, REFUSED, 2.0, PLAIN),
        (SAYS, REFUSED, 2.0, PLAIN),
        (REFUSED, SAYS, 0.1, f"{PLAIN}: {SAYS}"),
    ],
    ids=[
        "its message follows",
        "a newer message follows",
        "its message is the same",
        "no message comes",
        "it was refused to allocate by itself",
        "the refusal replaced its message",
        "the refusal came before",
    ],
)
def test_an_event_waits_for_what_kube_scheduler_says(
    before: str | None, after: str | None, told_at: float, told: str
) -> None:
    """It clears the claim first and writes the pod's condition then, in two requests."""
    engine = Engine()
    for item in (
        *(node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class()),
        *(stored_claim(5, allocated=True), ungated_pod(4, before)),
    ):
        engine.observe(item["kind"], "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    engine.decide(NOW)
    engine.observe("ResourceClaim", "MODIFIED", stored_claim(6, allocated=False), NOW)
    notes = {0.0: rejections(engine, NOW)}
    engine.observe("Pod", "MODIFIED", ungated_pod(7, after), NOW + 0.1)
    notes |= {later: rejections(engine, NOW + later) for later in (0.1, 1.0, 2.0, 3.0)}
    assert {
        later: [note.partition("; node n1 is avoided")[0] for note in found] for later, found in notes.items() if found
    } == {told_at: [told]}


def rejections(engine: Engine, now: float) -> list[str]:
    return [
        item.note for item in engine.decide(now) if isinstance(item, RecordEvent) and item.reason == "PlacementRejected"
    ]


def neighbour(priority: int, *, leaving: bool) -> dict[str, Any]:
    item = pod("neighbour", nodeName="n1", priority=priority)
    item["metadata"] |= {"uid": "uid-neighbour", "resourceVersion": "3", "creationTimestamp": "2027-01-01T00:00:00Z"}
    item["status"] = {"phase": "Running"}
    if leaving:
        item["metadata"] |= {"deletionTimestamp": format_time(NOW), "deletionGracePeriodSeconds": 300}
    return item


@pytest.mark.parametrize(
    ("nominated", "neighbours", "moved"),
    [
        (None, [neighbour(-5, leaving=True)], True),
        ("n1", [], True),
        ("n1", [neighbour(-5, leaving=False)], True),
        ("n1", [neighbour(0, leaving=True)], True),
        ("n2", [neighbour(-5, leaving=True)], True),
        ("n1", [neighbour(-5, leaving=True)], False),
    ],
    ids=[
        "not nominated", "nobody else is there", "the other stays", "the other goes for another reason",
        "nominated elsewhere", "kube-scheduler preempts",
    ],
)  # fmt: skip
def test_a_nominated_pod_is_waited_for_while_kube_scheduler_makes_room(
    nominated: str | None, neighbours: list[dict[str, Any]], moved: bool
) -> None:
    """A nomination alone says nothing: the operator writes them, and kube-scheduler leaves those of pods that never preempt."""
    waiting = ungated_pod(7, SAYS)
    waiting["status"]["nominatedNodeName"] = nominated
    engine = Engine()
    for item in (
        *(node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class(), *neighbours),
        *(stored_claim(5, allocated=True), waiting),
    ):
        engine.observe(item["kind"], "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    early = [engine.decide(NOW + seconds) for seconds in (0.0, 5.0, 9.0)]
    assert not any(writes_claims(decided) for decided in early)
    late = [engine.decide(NOW + seconds) for seconds in (61.0, 62.0, 122.0)]
    assert any(writes_claims(decided) for decided in late) == moved
    if not moved:
        engine.observe("Pod", "DELETED", neighbours[0], NOW + 123)
        assert not writes_claims(engine.decide(NOW + 123)), "kube-scheduler has not had the time to bind it"
        assert any(writes_claims(engine.decide(NOW + seconds)) for seconds in (134.0, 144.0, 194.0))


def writes_claims(decided: list[Decision]) -> bool:
    return any(isinstance(item, WriteClaimStatus) for item in decided)
