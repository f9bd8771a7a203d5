"""kube-scheduler gives a placement back: what is told of it, and when."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import format_time
from dra_operator.engine.decisions import RecordEvent
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import UNGATED_AT
from tests.engine.stage import device_class, gpus, node, pod

NOW = 1_800_000_000.0
SAYS = "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
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
    ],
    ids=["its message follows", "a newer message follows", "its message is the same", "no message comes"],
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
