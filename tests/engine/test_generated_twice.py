"""kube-controller-manager generates a claim a second time and then names the first one: nothing stays allocated to nobody.

Seen on a real control plane whose API server was killed: the claim was made and its name not yet written into the pod's status.
"""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import format_time
from dra_operator.engine.decisions import Decision, WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import UNGATED_AT
from tests.engine.stage import device_class, gpus, node, pod

NOW = 1_800_000_000.0
BORN = "2027-01-01T00:00:00Z"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}


def generated(name: str, version: int, *, allocated: bool, reserved: bool = True) -> dict[str, Any]:
    here = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    allocation = {
        "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        "allocationTimestamp": BORN,
    }
    users = [{"resource": "pods", "name": "p", "uid": "uid-p"}] if reserved else []
    return {
        "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version),
            "creationTimestamp": BORN, "labels": {"dra-operator.dev/managed": "true"}, "ownerReferences": [OWNER],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": allocation, "reservedFor": users} if allocated else {},
    }  # fmt: skip


def user(version: int, names: str | None, **spec: Any) -> dict[str, Any]:
    """Let go and not bound; its status names a claim."""
    item = pod("p", templates=["gpu"], **spec)
    item["metadata"] |= {
        "namespace": "default", "uid": "uid-p", "resourceVersion": str(version), "creationTimestamp": BORN,
        "annotations": {UNGATED_AT: format_time(NOW)},
    }  # fmt: skip
    statuses = [{"name": "t0", "resourceClaimName": names}] if names else []
    item["status"] = {"phase": "Pending", "resourceClaimStatuses": statuses}
    return item


def begun(*items: dict[str, Any]) -> tuple[Engine, list[Decision]]:
    engine = Engine()
    for item in (node("n1"), gpus("n1", 1), device_class(), *items):
        engine.observe(item["kind"], "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    return engine, engine.decide(NOW)


def claim_writes(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(each.action, each.claim.name) for each in decisions if isinstance(each, WriteClaimStatus)]


def test_the_claim_that_is_not_named_any_more_gives_its_devices_back() -> None:
    second, first = generated("second", 5, allocated=True), generated("first", 4, allocated=False)
    engine, decisions = begun(second, first, user(6, "second"))
    assert claim_writes(decisions) == []
    engine.observe("Pod", "MODIFIED", user(7, "first"), NOW + 1)
    assert claim_writes(engine.decide(NOW + 1)) == [("deallocate", "second")]
    engine.observe("ResourceClaim", "MODIFIED", generated("second", 8, allocated=False), NOW + 2)
    assert claim_writes(engine.decide(NOW + 2)) == [("allocate", "first")]


def test_so_it_does_after_a_restart() -> None:
    second, first = generated("second", 5, allocated=True), generated("first", 4, allocated=False)
    _, decisions = begun(second, first, user(7, "first"))
    assert claim_writes(decisions) == [("deallocate", "second")]


@pytest.mark.parametrize(
    ("names", "spec", "other"),
    [
        (None, {}, {}),
        ("second", {}, {}),
        ("first", {"nodeName": "n1"}, {}),
        ("first", {}, {"reservedFor": [{"resource": "pods", "name": "q", "uid": "uid-q"}]}),
        ("first", {}, {"labels": {}}),
    ],
    ids=["the pod names none yet", "the pod names it", "the pod is bound", "another uses it", "it is not managed"],
)
def test_what_may_be_used_stays(names: str | None, spec: dict[str, Any], other: dict[str, Any]) -> None:
    second, first = generated("second", 5, allocated=True), generated("first", 4, allocated=False)
    second["status"].update({name: value for name, value in other.items() if name == "reservedFor"})
    second["metadata"].update({name: value for name, value in other.items() if name == "labels"})
    engine, decisions = begun(second, first, user(7, names, **spec))
    later = [*decisions, *engine.decide(NOW + 60)]
    assert ("deallocate", "second") not in claim_writes(later)
