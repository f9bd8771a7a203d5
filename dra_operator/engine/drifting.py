"""Follows which allocated claims are Lost or Drifted, remembers the classes as they were at the allocation, and says what changed.

Looks at a claim when something about it, its devices or its classes changed, and never at all of them. Nothing is moved here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dra_operator.api.claims import Allocation, DeviceClass
from dra_operator.api.meta import Key
from dra_operator.api.reports import ClaimReport, SeenClass
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.drift import ClassMark, Finding, classes_asked, examine, mark_of, presence
from dra_operator.engine.state import State, claim_reference
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId


class Remembered(NamedTuple):
    """Of a report from before a restart, what is needed here. `devices`: request, driver, pool, device of each."""

    phase: str
    reason: str
    devices: tuple[tuple[str, ...], ...]
    classes: tuple[SeenClass, ...]


class Drifting:
    """`look` once a pass, before anything else is decided on the claims."""

    def __init__(self, state: State, alarms: Alarms) -> None:
        self._state, self._alarms = state, alarms
        self._looked: dict[str, tuple[Allocation, int, int]] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._class_version = -1
        self._missing: dict[DeviceId, float] = {}
        #: Claims with a device that may be gone.
        self._pending: dict[str, None] = {}
        self._restored: dict[str, Remembered] = {}

    # -- what a report says from before a restart

    def restore(self, report: ClaimReport) -> None:
        """Classes as they were, and what was found already; only good for the allocation that the report describes."""
        if report.phase is None:
            return
        devices = tuple(tuple(str(item.get(name)) for name in _PLACE) for item in report.status.get("devices") or ())
        reason = str(report.status.get("reason"))
        self._restored[report.claim_uid] = Remembered(report.phase.value, reason, devices, report.classes)

    def gone(self, uid: str) -> None:
        """The claim, or the report about it, is gone."""
        self._forget(uid)

    # -- looking

    def look(self, changed: Iterable[Key], now: float) -> None:
        """Judge the claims that changed, and those whose class did."""
        state = self._state
        state.inventory.refresh()
        uids: dict[str, None] = dict.fromkeys(self._pending)
        for key in changed:
            seen = state.view.claims.get(key)
            if seen is not None:
                uids[seen.uid] = None
        for name in self._changed_classes():
            for uid in self._users.get(name, {}):
                uids[uid] = None
                seen = state.view.claim_by_uid(uid)
                if seen is not None:
                    state.stale_reports[seen.key] = None
        for uid in uids:
            seen = state.view.claim_by_uid(uid)
            if seen is None or not seen.managed or seen.claim.allocation is None or seen.error is not None:
                self._forget(uid)
            else:
                self._judge(seen, seen.claim.allocation, now)
        for uid in [uid for uid in state.drifts if state.view.claim_by_uid(uid) is None]:
            self._forget(uid)

    def _changed_classes(self) -> list[str]:
        inventory = self._state.inventory
        if self._class_version == inventory.class_version:
            return []
        self._class_version = inventory.class_version
        old, self._classes = self._classes, dict(inventory.classes)
        return [name for name in old.keys() | self._classes if old.get(name) is not self._classes.get(name)]

    def _judge(self, seen: SeenClaim, allocation: Allocation, now: float) -> None:
        state, uid = self._state, seen.uid
        inventory = state.inventory
        known = self._looked.get(uid)
        if known is not None and known[0].results != allocation.results:
            self._forget(uid)  # it was moved: other devices, chosen by the classes of now
            known = None
        settled = uid not in self._pending
        if known is not None and settled and known[1:] == (inventory.published, inventory.class_version):
            return
        self._looked[uid] = (allocation, inventory.published, inventory.class_version)
        marks = state.class_marks.get(uid)
        if marks is None:
            marks = state.class_marks[uid] = self._marks(seen, allocation)
            for name in classes_asked(seen.claim.spec, allocation):
                self._users.setdefault(name, {})[uid] = None
        waiting: dict[DeviceId, None] = {}

        def missing(device: DeviceId) -> bool:
            return self._is_gone(device, waiting, now)

        found = examine(seen.claim.spec, allocation, inventory, marks, missing)
        self._pending.pop(uid, None)
        if waiting:
            self._pending[uid] = None
            for device in waiting:
                self._alarms.set(self._missing[device] + state.settings.lost_after, "claim", seen.key)
        self._note(seen, found)

    def _is_gone(self, device: DeviceId, waiting: dict[DeviceId, None], now: float) -> bool:
        """A driver that starts anew may withdraw what it publishes for a moment."""
        if presence(device, self._state.inventory) is not False:
            self._missing.pop(device, None)
            return False
        if len(self._missing) > _MISSING_KEPT:
            self._missing = {
                each: since for each, since in self._missing.items() if self._state.inventory.device(each) is None
            }
        since = self._missing.setdefault(device, now)
        if now >= since + self._state.settings.lost_after:
            return True
        waiting[device] = None
        return False

    def _marks(self, seen: SeenClaim, allocation: Allocation) -> dict[str, ClassMark]:
        """Of the report from before a restart where that is about this allocation, else of the classes of now."""
        classes = self._state.inventory.classes
        names = classes_asked(seen.claim.spec, allocation)
        now = {name: mark_of(classes[name]) for name in names if name in classes}
        report = self._restored.pop(seen.uid, None)
        if report is None:
            return now
        if not _describes(report, allocation):
            # Allocated anew since: whoever took what it had before is not to be told any more.
            self._state.preempted.pop(seen.uid, None)
            return now
        if report.phase == "Lost":
            for result in allocation.results:
                self._missing[DeviceId(result.driver, result.pool, result.device)] = float("-inf")
        if report.phase in ("Lost", "Drifted"):
            self._state.drifts_told[seen.uid] = report.reason
        known = {item.name: ClassMark(item.name, item.hash, item.generation) for item in report.classes}
        return {**now, **{name: mark for name, mark in known.items() if name in names}}

    def _note(self, seen: SeenClaim, found: Finding | None) -> None:
        state = self._state
        before = state.drifts.get(seen.uid)
        if found is None:
            state.drifts.pop(seen.uid, None)
            if state.drifts_told.pop(seen.uid, None) is not None:
                note = "the allocated devices are as they should be again"
                state.event(claim_reference(seen), "Normal", "DevicesMatch", "Look", note)
        else:
            state.drifts[seen.uid] = found
            if state.drifts_told.get(seen.uid) != found.reason:
                state.drifts_told[seen.uid] = found.reason
                word = "DeviceLost" if found.phase == "Lost" else "Drifted"
                state.event(claim_reference(seen), "Warning", word, "Look", found.message)
        if before != found:
            state.drift_version += 1
            state.drift_notes.pop(seen.uid, None)
            state.stale_reports[seen.key] = None
            state.touch(state.view.pods_of_claim(seen.key))

    def _forget(self, uid: str) -> None:
        """No allocation, or another one."""
        state = self._state
        self._looked.pop(uid, None)
        self._pending.pop(uid, None)
        self._restored.pop(uid, None)
        for name in state.class_marks.pop(uid, {}):
            users = self._users.get(name, {})
            users.pop(uid, None)
            if not users:
                self._users.pop(name, None)
        if state.drifts.pop(uid, None) is not None:
            state.drift_version += 1
        state.drifts_told.pop(uid, None)
        state.drift_notes.pop(uid, None)


_MISSING_KEPT = 10_000


def _describes(report: Remembered, allocation: Allocation) -> bool:
    """Is the report about these devices?"""
    results = [(result.request, result.driver, result.pool, result.device) for result in allocation.results]
    return list(report.devices) == results


_PLACE = ("request", "driver", "pool", "device")


def class_entries(seen: SeenClaim, state: State) -> list[dict[str, Any]]:
    """For the report: each class as it was when the devices were chosen, as it is if that is another, and what does not match it."""
    found = state.drifts.get(seen.uid)
    entries = []
    for name, mark in sorted(state.class_marks.get(seen.uid, {}).items()):
        entry: dict[str, Any] = {"name": name, "hash": mark.hash, "generation": mark.generation}
        device_class = state.inventory.classes.get(name)
        if device_class is None:
            entry["drift"] = "deleted"
        else:
            current = mark_of(device_class)
            if current.hash != mark.hash:
                entry["now"] = {"hash": current.hash, "generation": current.generation}
        if found is not None and name in found.by_class:
            entry["drift"] = found.by_class[name]
        entries.append(entry)
    return entries
