"""The phase of a claim: the first that applies, in the order of `api.reports.Phase`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dra_operator.api.claims import Allocation
from dra_operator.api.meta import Key
from dra_operator.engine.membership import Standing, membership
from dra_operator.engine.names import GATE
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId
from dra_operator.queue.units import Unit, UnitKey

#: Phases a person waits in, or has to act on: reported soon.
URGENT = frozenset({"Lost", "Drifted", "Preempting", "QuotaExceeded", "Unsatisfiable", "Starved", "Queued"})


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """For metrics and for the reader of a simulation. `at` in seconds since the epoch; `starved_for`: seconds, where a starved claim
    is served at last."""

    at: float
    claim: Key
    phase: str
    reason: str
    message: str
    node: str | None
    devices: tuple[tuple[str, DeviceId], ...]
    starved_for: float | None = None


@dataclass(frozen=True, slots=True)
class Standpoint:
    """A claim's phase and why."""

    phase: str
    reason: str
    message: str
    unit: Unit | None = None


def unit_of(seen: SeenClaim, state: State) -> Unit | None:
    """The unit the claim belongs to: of the first of its pods that has one, or is in a group that is one; or its own."""
    for pod in state.view.pods_of_claim(seen.key):
        unit = state.units.get(UnitKey("pod", pod.key))
        if unit is not None:
            return unit
        group = state.groups.of("pod", pod.key)
        unit = None if group is None else state.units.get(UnitKey("group", group))
        if unit is not None:
            return unit
    group = state.groups.of("claim", seen.key)
    gang = None if group is None else state.units.get(UnitKey("group", group))
    return state.units.get(UnitKey("claim", seen.key)) or gang


def standpoint(seen: SeenClaim, state: State) -> Standpoint:
    unit = unit_of(seen, state)
    allocation = seen.claim.allocation
    if allocation is not None:
        found = state.drifts.get(seen.uid)
        if found is not None:
            message = "; ".join(text for text in (found.message, state.drift_notes.get(seen.uid)) if text)
            return Standpoint(found.phase, found.reason, message, unit)
        if any(_is_bound(consumer.uid, state) for consumer in seen.claim.reserved_for):
            # Who shares it may wait for room on its node.
            message = unit.message if unit is not None and unit.reason == "NodeUnsuitable" else ""
            return Standpoint("Reserved", "PodBound", message, unit)
        if unit is not None and unit.reason:
            return Standpoint("Allocated", unit.reason, unit.message, unit)
        return Standpoint("Allocated", "Allocated", "", unit)
    if seen.error is not None:
        return Standpoint("Unsatisfiable", "Unreadable", seen.error, unit)
    if unit is None:
        return Standpoint("Queued", *_not_a_unit(seen, state))
    if unit.victims:
        text = f"waits for {', '.join(unit.victims[:4])} to make room; until then: {unit.message}"
        return Standpoint("Preempting", "WaitingForVictims", text, unit)
    if unit.reason == "QuotaExceeded":
        return Standpoint("QuotaExceeded", unit.reason, unit.message, unit)
    if unit.impossible:
        return Standpoint("Unsatisfiable", unit.reason, unit.message, unit)
    message = "; ".join(text for text in (unit.message, unit.preemption_note) if text)
    phase = "Queued" if unit.starved_since is None else "Starved"
    return Standpoint(phase, unit.reason or "Waiting", message, unit)


def _is_bound(uid: str, state: State) -> bool:
    pod = state.view.pod_by_uid(uid)
    return pod is not None and pod.node_name is not None


def _not_a_unit(seen: SeenClaim, state: State) -> tuple[str, str]:
    """Why nothing is allocated although nothing is wrong."""
    for pod in state.view.pods_of_claim(seen.key):
        found = membership(pod, state.view)
        if found.standing is Standing.GATED_BY_OTHERS:
            others = [gate for gate in pod.gates if gate != GATE]
            named = ", ".join(others[:6]) + (f" and {len(others) - 6} more" if len(others) > 6 else "")
            return "PodGated", f"pod {pod.key} is held by another scheduling gate ({named})"
        if found.standing is Standing.INCOMPLETE:
            return "PodIncomplete", f"pod {pod.key}: {found.missing}"
    return (
        "NotInUse",
        "no pod that waits or runs refers to it; a claim that a pod has used is allocated again when the next pod comes",
    )


def devices_of(allocation: Allocation) -> tuple[tuple[str, DeviceId], ...]:
    """Request name and device of every result."""
    return tuple((result.request, DeviceId(result.driver, result.pool, result.device)) for result in allocation.results)


def node_of(seen: SeenClaim, state: State) -> str | None:
    """The node the claim's devices are on, or that its pod runs on."""
    allocation = seen.claim.allocation
    if allocation is None:
        return None
    name = state.only_node(allocation)
    if name is not None:
        return name
    for consumer in seen.claim.reserved_for:
        pod = state.view.pod_by_uid(consumer.uid)
        if pod is not None:
            return pod.node_name or state.ledger.place_of(consumer.uid)
    return None


def device_entries(allocation: Allocation) -> list[dict[str, Any]]:
    return [
        {"request": request, "driver": device.driver, "pool": device.pool, "device": device.device}
        for request, device in devices_of(allocation)
    ]
