"""The checks of every run find what they are for: each row breaks one rule on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api.selectors import node_by_name
from dra_operator.cluster.memory.identity import ADMIN, OPERATOR, User
from dra_operator.cluster.memory.invariants import Invariants
from dra_operator.cluster.rest import MERGE_PATCH
from tests.cluster.memory.stand_in import Cluster, claim, device_class, node, pod, slice_of, template

CONSUMED = {"shareID": "11111111-1111-4111-8111-111111111111", "consumedCapacity": {"memory": "6Gi"}}


def result(device: str = "gpu-0", **more: Any) -> dict[str, Any]:
    return {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": device, **more}


def allocate(
    cluster: Cluster, name: str, *results: dict[str, Any], user: User = OPERATOR, reserved: list[Any] | None = None
) -> None:
    found = cluster.get("ResourceClaim", name) or {}
    allocation = {"devices": {"results": list(results)}, "nodeSelector": node_by_name("n1")}
    found["status"] = {"allocation": {**allocation, "allocationTimestamp": "2027-01-01T00:00:00Z"}}
    if reserved:
        found["status"]["reservedFor"] = reserved
    response = cluster.send("PUT", "ResourceClaim", name, found, sub="status", user=user)
    assert response.ok, response.message


def advanced() -> list[dict[str, Any]]:
    """One shareable device, and two that take their pool's only counter."""
    devices, counters = slice_of("n1", 1), slice_of("n1", 1)
    for item in (devices, counters):
        item["spec"]["pool"]["resourceSliceCount"] = 2
    counters["metadata"]["name"] = "counters"
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "set", "counters": {"units": {"value": "10"}}}]
    takes = [{"counterSet": "set", "counters": {"units": {"value": "6"}}}]
    devices["spec"]["devices"] = [
        {
            "name": "gpu-0",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10Gi", "requestPolicy": {"default": "6Gi"}}},
        },
        {"name": "gpu-1", "consumesCounters": takes},
        {"name": "gpu-2", "consumesCounters": takes},
        {"name": "gpu-3"},
    ]
    return [devices, counters]


def twice(cluster: Cluster) -> None:
    allocate(cluster, "a", result("gpu-3"))
    allocate(cluster, "b", result("gpu-3"))


def made_up(cluster: Cluster) -> None:
    allocate(cluster, "a", result("gpu-9"))


def twice_in_one(cluster: Cluster) -> None:
    allocate(cluster, "a", result(), result())


def too_much(cluster: Cluster) -> None:
    allocate(cluster, "a", result(**CONSUMED))
    allocate(cluster, "b", result(**{**CONSUMED, "shareID": "22222222-2222-4222-8222-222222222222"}))


def shared_and_whole(cluster: Cluster) -> None:
    allocate(cluster, "a", result())
    allocate(cluster, "b", result(**CONSUMED))


def counters(cluster: Cluster) -> None:
    allocate(cluster, "a", result("gpu-1"))
    allocate(cluster, "b", result("gpu-2"))


def unmanaged(cluster: Cluster) -> None:
    cluster.send(
        "POST", "Namespace", body={"metadata": {"name": "exempt", "labels": {"dra-operator.dev/managed": "false"}}}
    )
    cluster.send("POST", "ResourceClaim", body=claim("x"), namespace="exempt")
    body = {"metadata": {"annotations": {"a": "b"}}}
    assert (
        cluster.send(
            "PATCH", "ResourceClaim", "x", body, namespace="exempt", user=OPERATOR, content_type=MERGE_PATCH
        ).status
        == 403
    )


def invalid(cluster: Cluster) -> None:
    body = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    assert (
        cluster.send("PATCH", "ResourceClaim", "a", body, sub="status", user=OPERATOR, content_type=MERGE_PATCH).status
        == 422
    )


def bound_without(cluster: Cluster) -> None:
    cluster.apply(pod("p", claim="a", schedulerName="nobody"))
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    assert cluster.send("POST", "Pod", "p", body, sub="binding").ok


def half_done(cluster: Cluster) -> None:
    cluster.apply(pod("p", claim="a"))
    uid = (cluster.get("Pod", "p") or {})["metadata"]["uid"]
    allocate(cluster, "a", result("gpu-3"), reserved=[{"resource": "pods", "name": "p", "uid": uid}])


def fine(cluster: Cluster) -> None:
    allocate(cluster, "a", result("gpu-1"))
    allocate(cluster, "b", result(**CONSUMED))


@pytest.mark.parametrize(
    ("breaks", "rule"),
    [
        (made_up, "every allocation is valid"),
        (twice, "no device in two allocations"),
        (twice_in_one, "no device in two allocations"),
        (shared_and_whole, "no device in two allocations"),
        (too_much, "no capacity above its value"),
        (counters, "no counter below zero"),
        (unmanaged, "no write on a claim that is not managed"),
        (invalid, "requests are valid"),
        (bound_without, "a bound pod has its claims"),
        (half_done, "nothing is left half done"),
        (fine, None),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rules(cluster: Cluster, breaks: Callable[[Cluster], None], rule: str | None) -> None:
    cluster.apply(node("n1"), *advanced(), device_class(), template(), claim("a"), claim("b"))
    invariants = Invariants(cluster.world)
    cluster.run(20)  # an allocation soon after a change of the offer may rest on an older one
    breaks(cluster)
    found = {violation.rule for violation in invariants.at_rest()}
    assert rule in found if rule else not found, found


def test_observing_writes_nothing(cluster: Cluster) -> None:
    cluster.apply(claim("a"))
    invariants = Invariants(cluster.world, observing=True)
    report = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimReport", "metadata": {"name": "a"}, "status": {}}
    cluster.send("POST", "ClaimReport", body=report, user=OPERATOR)
    assert invariants.violations == []
    allocate(cluster, "a", result())
    assert "observe mode writes only reports" in [violation.rule for violation in invariants.violations]


def test_a_collision_with_others_is_given_time(cluster: Cluster) -> None:
    cluster.apply(node("n1"), slice_of("n1"), device_class(), claim("a"))
    cluster.send(
        "POST", "Namespace", body={"metadata": {"name": "exempt", "labels": {"dra-operator.dev/managed": "false"}}}
    )
    cluster.send("POST", "ResourceClaim", body=claim("x"), namespace="exempt")
    invariants = Invariants(cluster.world)
    allocate(cluster, "a", result())
    found = cluster.get("ResourceClaim", "x", "exempt") or {}
    found["status"] = {"allocation": {"devices": {"results": [result()]}}}
    assert cluster.send("PUT", "ResourceClaim", "x", found, namespace="exempt", sub="status", user=ADMIN).ok
    assert invariants.violations == []
    assert [violation.rule for violation in invariants.at_rest()] == ["collisions are resolved"]
    assert invariants.violations == []
