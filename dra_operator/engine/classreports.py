"""DeviceClassReports: what there is of each class, how it is used, who waits. Counted at intervals, not on every change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from dra_operator.api.claims import DeviceClass
from dra_operator.api.meta import Key, format_time
from dra_operator.api.reports import class_report_body
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision, DeleteReport, Outcome, WriteReport
from dra_operator.engine.state import State
from dra_operator.engine.view import resource_version
from dra_operator.explain.classes import ClassCount


@dataclass(frozen=True, slots=True)
class _Known:
    """A report as the API server has it."""

    version: str
    number: int
    uid: str
    status: dict[str, Any]


class ClassReporter:
    """Counts the classes when something changed, and writes the reports whose numbers moved."""

    def __init__(self, state: State, budgeting: Budgeting) -> None:
        self._state, self._budgeting = state, budgeting
        self._classes: dict[str, DeviceClass] = {}
        self._known: dict[str, _Known] = {}
        self._sent: dict[int, str] = {}
        self._counted_at = float("-inf")
        self._counted: tuple[int, ...] | None = None
        self._next: float | None = None

    def apply_class(self, device_class: DeviceClass) -> None:
        self._classes[device_class.name] = device_class
        self._counted = None

    def remove_class(self, name: str) -> None:
        """Its report is deleted, unless claims still wait for the class."""
        self._classes.pop(name, None)
        self._state.class_counts.forget(name)
        self._counted = None

    def apply_report(self, raw: dict[str, Any]) -> None:
        metadata = raw["metadata"]
        name, number = metadata["name"], resource_version(raw)
        known = self._known.get(name)
        if known is None or known.number <= number:
            version, uid = metadata.get("resourceVersion") or "", metadata.get("uid") or ""
            self._known[name] = _Known(version, number, uid, raw.get("status") or {})

    def remove_report(self, key: Key) -> None:
        self._known.pop(key.name, None)
        self._counted = None

    def write(self, now: float) -> list[Decision]:
        state = self._state
        fingerprint = (
            state.inventory.version, state.queue_changes, len(self._classes), state.holds.version, state.layout,
        )  # fmt: skip
        if fingerprint == self._counted or self._sent:
            self._next = None
            return []
        due = self._counted_at + state.settings.class_report_interval
        if due > now:
            self._next = due
            return []
        self._counted_at, self._counted, self._next = now, fingerprint, None
        waiting = state.waiting_by_class()
        decisions: list[Decision] = []
        for name in sorted(self._classes):
            count = state.class_counts.of(name)
            state.class_totals[name] = count.total
            aside = self._budgeting.set_aside(partial(state.class_counts.free, name))
            status = class_status(count, waiting.get(name, []), *aside)
            known = self._known.get(name)
            if known is None or status != known.status:
                body = class_report_body(name, status, known.version if known is not None else None)
                decisions.append(WriteReport(self._send(name), "DeviceClassReport", Key("", name), body))
        for name in sorted(self._known.keys() - self._classes.keys()):
            if not waiting.get(name):
                decisions.append(
                    DeleteReport(self._send(name), "DeviceClassReport", Key("", name), self._known[name].uid)
                )
        return decisions

    def _send(self, name: str) -> int:
        decision_id = self._state.writes.next_id()
        self._sent[decision_id] = name
        return decision_id

    def next_wake(self) -> float | None:
        return self._next

    def settle(self, outcome: Outcome, now: float) -> bool:
        """Take an answer in; False if the decision was no report of a class."""
        name = self._sent.pop(outcome.decision.id, None)
        if name is None:
            return False
        if outcome.ok and isinstance(outcome.decision, DeleteReport):
            self._known.pop(name, None)
        elif outcome.ok and outcome.object is not None:
            self.apply_report(outcome.object)
        elif not outcome.ok:
            self._counted = None
            if outcome.status == 404:
                self._known.pop(name, None)
        return True


def class_status(count: ClassCount, waiting_since: list[float], held: int, reserved: int) -> dict[str, Any]:
    """The report's status. `held` and `reserved` are among the free devices of the count, and not among those of the report."""
    status: dict[str, Any] = {
        "total": count.total,
        "allocated": count.allocated,
        "free": count.free - held - reserved,
        "held": held,
        "reserved": reserved,
        "unusable": count.tainted + count.incomplete,
        "tainted": count.tainted,
        "incomplete": count.incomplete,
        "waitingClaims": len(waiting_since),
        "largestFreeGroup": count.largest_free_group,
        "fragmentation": count.fragmentation,
    }
    if waiting_since:
        status["oldestWait"] = format_time(min(waiting_since))
    if count.message:
        status["message"] = count.message
    return status
