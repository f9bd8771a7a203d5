"""The writes on claims: protect, allocate with reservation, deallocate, hand back. Each notes itself as under way."""

from __future__ import annotations

from typing import Any

from dra_operator.api.claims import DELETE_PROTECTION, Allocation
from dra_operator.api.core import Pod
from dra_operator.api.meta import format_time
from dra_operator.engine.decisions import Decision, PatchClaim, WriteClaimStatus
from dra_operator.engine.names import MANAGED_LABEL, USED_BY
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writes import status_body
from dra_operator.queue.units import UnitKey


def allocate(
    state: State, seen: SeenClaim, allocation: Allocation, pod: Pod | None, unit: UnitKey, node: str | None, now: float
) -> Decision:
    """The write that allocates the claim, reserved for `pod`; where the finalizer is missing, the write that restores it first.

    The devices are taken from now on in both cases.
    """
    state.take(seen, allocation)
    decision: PatchClaim | WriteClaimStatus
    if DELETE_PROTECTION not in seen.claim.meta.finalizers:
        decision = protect(state, seen, pod)
        state.writes.begin(decision, unit, version=seen.version, now=now, allocation=allocation, node=node)
        return decision
    status: dict[str, Any] = {
        # Without the timestamp the scheduler's PreBind stamps one, which the API server refuses.
        "allocation": {**allocation.to_dict(), "allocationTimestamp": format_time(now)},
    }
    if pod is not None:
        status["reservedFor"] = [{"resource": "pods", "name": pod.meta.name, "uid": pod.meta.uid}]
    decision = WriteClaimStatus(state.writes.next_id(), seen.key, seen.uid, status_body(seen.raw, status), "allocate")
    state.writes.begin(decision, unit, version=seen.version, now=now, allocation=allocation, node=node)
    return decision


def protect(state: State, seen: SeenClaim, pod: Pod | None) -> PatchClaim:
    """Without the finalizer kube-controller-manager would never free the allocation."""
    metadata: dict[str, Any] = {
        "uid": seen.uid,
        "resourceVersion": seen.claim.meta.resource_version,
        "finalizers": [*seen.claim.meta.finalizers, DELETE_PROTECTION],
    }
    if pod is not None:
        metadata["annotations"] = {USED_BY: pod.meta.name}
    return PatchClaim(state.writes.next_id(), seen.key, seen.uid, {"metadata": metadata}, "protect")


def deallocate(state: State, seen: SeenClaim, unit: UnitKey | None, now: float) -> Decision:
    """Allocation and reservation are cleared together. The devices stay taken until our watch shows it."""
    decision = WriteClaimStatus(state.writes.next_id(), seen.key, seen.uid, status_body(seen.raw, {}), "deallocate")
    state.writes.begin(decision, unit, version=seen.version, now=now)
    return decision


def unmanage(state: State, seen: SeenClaim, now: float) -> Decision:
    """Hand the claim to kube-scheduler: without the label the guard lets it allocate."""
    metadata = {
        "uid": seen.uid,
        "resourceVersion": seen.claim.meta.resource_version,
        "labels": {MANAGED_LABEL: None},
    }
    decision = PatchClaim(state.writes.next_id(), seen.key, seen.uid, {"metadata": metadata}, "unmanage")
    state.writes.begin(decision, None, version=seen.version, now=now)
    return decision
