"""What a ClaimReport says of a claim, made from the state.

When it is written is for `reporting`, which also adds the details of why the claim waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_operator.api.meta import format_time
from dra_operator.api.reports import condition
from dra_operator.engine.drifting import class_entries
from dra_operator.engine.membership import owner_key
from dra_operator.engine.phases import Standpoint, device_entries, node_of
from dra_operator.engine.pods import priority_of_users
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.queue.units import Unit


class Content:
    """Reads the state, changes nothing."""

    def __init__(self, state: State) -> None:
        self._state = state

    def status(self, seen: SeenClaim, found: Standpoint, before: Mapping[str, Any], now: float) -> dict[str, Any]:
        """`before`: what the report says so far; some of it is carried on."""
        allocation, unit = seen.claim.allocation, found.unit
        policy, _ = self._state.terms_of(seen)
        status: dict[str, Any] = {"phase": found.phase, "reason": found.reason, "policy": policy}
        node = node_of(seen, self._state)
        if node is not None:
            status["node"] = node
        if allocation is not None:
            status["devices"] = device_entries(allocation)
            status["classes"] = class_entries(seen, self._state)
        if unit is not None:
            status["queue"] = _queue(unit)
        else:
            priority = priority_of_users(seen, self._state)
            status["queue"] = {"priority": priority, "effectivePriority": priority}
        if found.message:
            status["explanation"] = {"summary": found.message}
        elif unit is not None and unit.warnings:
            status["explanation"] = {"summary": "; ".join(unit.warnings)}
        avoid = self._avoid(seen, now)
        if avoid:
            status["avoid"] = avoid
        hold = self._hold(seen, unit)
        if hold is not None:
            status["hold"] = hold
        preemption = self._preemption(seen, unit)
        if preemption:
            status["preemption"] = preemption
        used_by = self._used_by(seen) or before.get("usedBy")
        if used_by:
            status["usedBy"] = used_by
        previous = before.get("conditions") or ()
        met = allocation is not None
        status["conditions"] = [
            condition("Allocated", met, found.reason or found.phase, found.message, now=now, previous=previous)
        ]
        drifted = found.phase in ("Drifted", "Lost")
        if drifted or any(item.get("type") == "Drifted" for item in previous):
            reason, text = (found.reason, found.message) if drifted else ("AsAllocated" if met else "NotAllocated", "")
            status["conditions"].append(condition("Drifted", drifted, reason, text, now=now, previous=previous))
        starved = unit is not None and unit.starved_since is not None and not met
        if starved or any(item.get("type") == "Starved" for item in previous):
            reason = "WaitedTooLong" if starved else "Served"
            text = found.message if starved else ""
            status["conditions"].append(condition("Starved", starved, reason, text, now=now, previous=previous))
        return status

    def _avoid(self, seen: SeenClaim, now: float) -> list[dict[str, str]]:
        entries = {}
        for pod in self._state.view.pods_of_claim(seen.key):
            owner = owner_key(pod)
            for entry in self._state.avoided.active(owner, now).values():
                entries[owner, entry.node] = {
                    "for": owner,
                    "node": entry.node,
                    "until": format_time(entry.until),
                    "why": entry.why[:256],
                }
        return [entries[key] for key in sorted(entries)]

    def _hold(self, seen: SeenClaim, unit: Unit | None) -> dict[str, Any] | None:
        """A unit's hold stands in the report of its first claim."""
        if unit is None or unit.claims[0] != seen.key:
            return None
        hold = self._state.holds.get(unit.key)
        if hold is None:
            return None
        devices = [
            {"driver": device.driver, "pool": device.pool, "device": device.device}
            for device in sorted(hold.devices | hold.wanted)
        ]
        return {"nodes": list(hold.nodes), "devices": devices, "since": format_time(hold.since)}

    def _preemption(self, seen: SeenClaim, unit: Unit | None) -> dict[str, Any]:
        """Whom it makes go, or for whom it went."""
        told: dict[str, Any] = {}
        if unit is not None and unit.victims and not seen.allocated:
            told["victims"] = [{"name": name} for name in unit.victims]
        by = self._state.preempted.get(seen.uid)
        if by is not None:
            told["preemptedBy"] = by
        return told

    def _used_by(self, seen: SeenClaim) -> dict[str, str] | None:
        for consumer in seen.claim.reserved_for:
            if consumer.resource == "pods":
                return {"name": consumer.name, "uid": consumer.uid}
        return None


def _queue(unit: Unit) -> dict[str, Any]:
    queue: dict[str, Any] = {"priority": unit.priority, "effectivePriority": unit.priority, "attempts": unit.attempts}
    if unit.waiting_since is not None:
        queue["effectivePriority"] = unit.effective
        queue["waitingSince"] = format_time(unit.waiting_since)
        if unit.position is not None:
            queue["position"] = unit.position
        if unit.not_before > unit.waiting_since:
            queue["nextAttempt"] = format_time(unit.not_before)
    return queue
