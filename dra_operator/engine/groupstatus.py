"""The status of ClaimGroups: how many members there are and how many have their devices, and what the group waits for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.errors import InvalidField
from dra_operator.api.meta import Key, format_time, parse_time
from dra_operator.engine.decisions import Decision, Outcome, WriteGroupStatus
from dra_operator.engine.groups import call_roll
from dra_operator.engine.state import State
from dra_operator.engine.view import resource_version
from dra_operator.queue.units import UnitKey

#: Seconds until a failed write is tried again; doubled each time, up to the second.
_RETRY, _RETRY_MAX = 5.0, 300.0
_LONGEST = 1024


@dataclass(slots=True)
class _Group:
    """A group as the API server has it, and the write under way. `due`: when a write is, None while nothing is to be said."""

    raw: dict[str, Any] = field(default_factory=dict)
    number: int = -1
    sent: int | None = None
    due: float | None = None
    failures: int = 0
    written_at: float = float("-inf")


class GroupReporter:
    """Writes a status some seconds after it changed, at most one a group in `report_spacing`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._groups: dict[Key, _Group] = {}
        self._by_id: dict[int, Key] = {}
        self._stale: dict[Key, None] = {}

    def apply(self, raw: dict[str, Any]) -> None:
        """The group as the watch shows it."""
        metadata = raw.get("metadata") or {}
        key = Key(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        known = self._groups.setdefault(key, _Group())
        number = resource_version(raw)
        if known.number < 0:
            # What must outlive a restart: when it timed out last.
            timed_out = _time((raw.get("status") or {}).get("lastTimeout"))
            if timed_out is not None:
                self._state.timed_out.setdefault(key, timed_out)
        if known.number <= number:
            known.raw, known.number = raw, number
        self._stale[key] = None

    def write(self, now: float) -> list[Decision]:
        """The statuses that are due."""
        stale, self._state.stale_groups = self._state.stale_groups, {}
        self._stale.update(stale)
        decisions: list[Decision] = []
        for key in list(self._stale):
            group = self._groups.get(key)
            if group is None or self._state.groups.get(key) is None:
                self._groups.pop(key, None)
                del self._stale[key]
                continue
            if group.sent is not None:
                continue
            status = self._status(key, now)
            if status == (group.raw.get("status") or {}):
                group.due = None
                del self._stale[key]
                continue
            settings = self._state.settings
            if group.due is None:
                group.due = max(now + settings.report_soon, group.written_at + settings.report_spacing)
            if group.due <= now:
                decisions.append(self._send(key, group, status, now))
        return decisions

    def next_wake(self) -> float | None:
        waiting = [self._groups[key] for key in self._stale if key in self._groups]
        return min((each.due for each in waiting if each.due is not None and each.sent is None), default=None)

    def settle(self, outcome: Outcome, now: float) -> bool:
        """Take an answer in; False if the decision was no group's status."""
        key = self._by_id.pop(outcome.decision.id, None)
        if key is None:
            return False
        group = self._groups.get(key)
        if group is None or group.sent != outcome.decision.id:
            return True
        group.sent, group.due = None, None
        self._stale[key] = None
        if outcome.ok:
            group.failures = 0
            if outcome.object is not None:
                self.apply(outcome.object)
        else:
            group.due = now + min(_RETRY_MAX, _RETRY * 2.0 ** min(group.failures, 10))
            group.failures += 1
        return True

    def _send(self, key: Key, group: _Group, status: dict[str, Any], now: float) -> Decision:
        group.sent, group.written_at, group.due = self._state.writes.next_id(), now, None
        self._by_id[group.sent] = key
        body = {**group.raw, "apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimGroup", "status": status}
        return WriteGroupStatus(group.sent, key, body)

    def _status(self, key: Key, now: float) -> dict[str, Any]:
        """Members that are there; of them those with devices. Pods that finished beside others of their controller count to both."""
        roll = call_roll(self._state, key, now)
        unit = self._state.units.get(UnitKey("group", key))
        status: dict[str, Any] = {"members": roll.present, "placed": len(roll.placed) + roll.done}
        message = ""
        if roll.established:
            status["phase"] = "Placed"
        elif unit is None:
            status["phase"] = "Incomplete"
        else:
            status["phase"] = "Incomplete" if not roll.complete else "Placing" if roll.writing else "Waiting"
            message = "" if status["phase"] == "Placing" else unit.message
            if unit.reason == "GroupTimeout":
                status["phase"] = "TimedOut"
        if message:
            status["message"] = message[:_LONGEST]
        timed_out = self._state.timed_out.get(key)
        if timed_out is not None:
            status["lastTimeout"] = format_time(timed_out)
        return status


def _time(text: Any) -> float | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except InvalidField:
        return None
