"""When ClaimReports are written: late enough not to slow allocation, soon enough to help. What they say is `reportcontent`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from dra_operator.api.meta import Key
from dra_operator.api.reports import ClaimReport, claim_report_body
from dra_operator.api.sharing import packed
from dra_operator.engine.decisions import Decision, DeleteReport, Outcome, WriteReport
from dra_operator.engine.detailing import Details, NotYet
from dra_operator.engine.drifting import Drifting
from dra_operator.engine.membership import owner_key
from dra_operator.engine.phases import (
    URGENT,
    PhaseChange,
    Standpoint,
    devices_of,
    node_of,
    standpoint,
)
from dra_operator.engine.reportcontent import Content
from dra_operator.engine.reportschedule import WHEN_ANSWERED, Due, Schedule
from dra_operator.engine.state import HeldBefore, State
from dra_operator.engine.view import SeenClaim, resource_version
from dra_operator.inventory import DeviceId

#: Seconds between two bursts of reports.
_NEXT_BURST = 0.05


@dataclass(slots=True)
class _Report:
    """One ClaimReport as the API server has it (None: not there), and the write under way. `text` is its status as JSON: there is
    one for every claim, and most are never looked at again. `ended`: our watch has shown a report's end since the write was sent."""

    version: str | None = None
    number: int = 0
    uid: str = ""
    owner: str = ""
    text: bytes = b"{}"
    sent: int | None = None
    ended: bool = False
    sent_status: dict[str, Any] = field(default_factory=dict)
    written_at: float = float("-inf")
    phase: str = ""
    since: float = 0.0
    stale_since: float | None = None
    starved_at: float | None = None

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.text)
        return found

    def now_is(self, version: str | None, number: int, status: Mapping[str, Any]) -> None:
        """What the API server has now."""
        self.version, self.number, self.text = version, number, packed(status)


class Reporter:
    """Follows claims' phases and writes the reports that are due."""

    def __init__(self, state: State, details: Details, drifting: Drifting) -> None:
        self._state, self._details, self._drifting = state, details, drifting
        self._content = Content(state)
        self._reports: dict[Key, _Report] = {}
        self._stale = Schedule()
        self._journal: list[PhaseChange] = []
        self._next: float | None = None
        self._by_id: dict[int, Key] = {}

    # -- what the API server has

    def apply_report(self, raw: dict[str, Any], *, own: bool = False) -> None:
        """`own`: as this process wrote it just now, so it says nothing that must be remembered. Raises InvalidObject."""
        known = ClaimReport.from_dict(raw)
        report = self._reports.setdefault(known.meta.key, _Report())
        number = resource_version(raw)
        if number < report.number:
            return
        first = report.version is None and report.sent is None and not own
        report.now_is(known.meta.resource_version, number, known.status)
        report.uid, report.owner = known.meta.uid, known.claim_uid
        if first:
            # What must outlive a restart: whether it was used, since when it waits, which nodes to avoid, who made it go.
            if known.used_by is not None:
                self._state.view.used.add(known.claim_uid)
            if known.waiting_since is not None and not known.status.get("devices"):
                self._state.waited_before[known.meta.key] = known.waiting_since
            if known.hold is not None and known.hold.nodes:
                devices = frozenset(DeviceId(*device) for device in known.hold.devices)
                by_name = bool((known.status.get("preemption") or {}).get("victims"))
                self._state.held_before[known.meta.key] = HeldBefore(
                    known.hold.nodes[0], known.hold.since, devices, by_name, tuple(known.hold.nodes[1:])
                )
            for entry in known.avoid:
                if entry.owner:
                    self._state.avoided.restore(entry.owner, entry.node, entry.until, entry.why)
            self._restore_preemptor(known)
            self._drifting.restore(known)
        self._stale.look_at(known.meta.key)

    def _restore_preemptor(self, known: ClaimReport) -> None:
        by = _preempted_by(known.status)
        if by:
            self._state.preempted[known.claim_uid] = str(by)

    def held(self) -> set[Key]:
        """The reports that there are, by our watch or by the API server's answers."""
        return {key for key, report in self._reports.items() if report.version is not None}

    def remove_report(self, key: Key) -> None:
        report = self._reports.get(key)
        if report is not None:
            report.now_is(None, 0, {})
            report.ended = True
            self._stale.look_at(key)
            if self._state.view.claim_by_uid(report.owner) is None:
                self._forget_claim(report.owner)

    def claim_gone(self, seen: SeenClaim) -> None:
        """The report goes with its claim, by owner reference."""
        self._stale.look_at(seen.key)
        self._forget_claim(seen.uid)

    def _forget_claim(self, uid: str) -> None:
        """What its report told of it is of no use any more."""
        self._drifting.gone(uid)
        self._state.view.used.discard(uid)
        self._state.preempted.pop(uid, None)

    # -- phases

    def journal(self) -> list[PhaseChange]:
        """The phase changes since the last call."""
        entries, self._journal = self._journal, []
        return entries

    def phases(self) -> dict[str, int]:
        """How many claims are in each phase."""
        counts: dict[str, int] = {}
        for report in self._reports.values():
            if report.phase:
                counts[report.phase] = counts.get(report.phase, 0) + 1
        return counts

    def _follow(self, key: Key, report: _Report, seen: SeenClaim, now: float) -> Standpoint:
        found = standpoint(seen, self._state)
        waiting = found.unit.waiting_since if found.unit is not None else None
        if found.phase != report.phase:
            report.phase, report.since = found.phase, now if waiting is None else waiting
            allocation = seen.claim.allocation
            devices = () if allocation is None else devices_of(allocation)
            node = node_of(seen, self._state)
            starved = self._starved_for(report, found, allocated=allocation is not None, now=now)
            change = PhaseChange(now, key, found.phase, found.reason, found.message, node, devices, starved)
            self._journal.append(change)
        return found

    @staticmethod
    def _starved_for(report: _Report, found: Standpoint, *, allocated: bool, now: float) -> float | None:
        if found.unit is not None and found.unit.starved_since is not None:
            report.starved_at = found.unit.starved_since
        if not allocated or report.starved_at is None:
            return None
        since, report.starved_at = report.starved_at, None
        return now - since

    # -- writing

    def write(self, now: float, *, quiet: bool) -> list[Decision]:
        """The reports that are due. `quiet`: no placement is under way, so the lazy ones do not slow any."""
        fresh, self._state.stale_reports = self._state.stale_reports, {}
        for key in fresh:
            self._stale.look_at(key)
        decisions: list[Decision] = []
        for key in self._stale.in_turn(now, quiet=quiet):
            due = self._stale.due(key)
            if due is not None and len(decisions) >= self._state.settings.report_burst:
                self._stale.put_off(key, due)
                continue
            seen = self._state.view.claims.get(key)
            report = self._reports.setdefault(key, _Report())
            if seen is None or not seen.managed:
                decisions += self._without_claim(key, report, seen)
                continue
            found = self._follow(key, report, seen, now)
            if report.sent is not None:
                self._stale.put_off(key, WHEN_ANSWERED)
                continue
            status = self._content.status(seen, found, report.status, now)
            if _same(status, report.status) and report.version is not None and report.owner == seen.uid:
                report.stale_since = None
                self._stale.drop(key)
                continue
            if report.stale_since is None:
                report.stale_since = now
            due = self._due(seen, report, status)
            self._stale.put_off(key, due)
            if due.at(quiet) > now or len(decisions) >= self._state.settings.report_burst:
                continue
            if (later := self._explain(seen, found, report, status, now, quiet=quiet)) is not None:
                self._stale.put_off(key, Due(later, later))
            else:
                decisions.append(self._send(key, report, seen, status, now))
                self._stale.put_off(key, WHEN_ANSWERED)
        self._next = self._wake(now, quiet=quiet)
        return decisions

    def _wake(self, now: float, *, quiet: bool) -> float | None:
        at = self._stale.next_turn(quiet=quiet)
        if at <= now:  # more is due than one pass writes
            at = now + _NEXT_BURST
        if self._stale and not quiet:
            at = min(at, now + self._state.settings.report_settle)
        return at if at < float("inf") else None

    def _explain(
        self, seen: SeenClaim, found: Standpoint, report: _Report, status: dict[str, Any], now: float, *, quiet: bool
    ) -> float | None:
        """Add the details of the explanation; a time if the report had better wait for them until then."""
        unit = found.unit
        if unit is None or unit.key not in self._state.waiting or seen.allocated or seen.error is not None:
            return None
        try:
            status["explanation"] = self._details.of(seen, unit, found.message, now, quiet=quiet)
        except NotYet as later:
            if not (_new_avoid(status, report.status) or _new_hold(status, report.status)):
                return later.at
        return None

    def next_wake(self) -> float | None:
        return self._next

    def _without_claim(self, key: Key, report: _Report, seen: SeenClaim | None) -> list[Decision]:
        """Claim gone or handed to kube-scheduler: nothing to say; in the second case the report is removed by us."""
        self._stale.drop(key)
        if report.sent is not None:
            self._stale.look_at(key)
            return []
        if report.version is None:
            self._reports.pop(key, None)
            if seen is None:
                self._state.waited_before.pop(key, None)
                self._state.held_before.pop(key, None)
            return []
        report.phase = ""
        if seen is None:
            return []
        report.sent = self._state.writes.next_id()
        self._by_id[report.sent] = key
        return [DeleteReport(report.sent, "ClaimReport", key, report.uid)]

    def _due(self, seen: SeenClaim, report: _Report, status: dict[str, Any]) -> Due:
        settings = self._state.settings
        stale_since = report.stale_since or 0.0
        if _new_avoid(status, report.status) or _new_hold(status, report.status):
            return Due(stale_since, stale_since)
        spaced = report.written_at + settings.report_spacing
        same_phase = status["phase"] == report.status.get("phase") and status.get("reason") == report.status.get(
            "reason"
        )
        told = _preempted_by(status) == _preempted_by(report.status)
        # A claim whose allocation is only waiting to be written has nothing to tell that will not be over in a moment.
        allocating = self._state.writes.allocating(seen.uid)
        if (status["phase"] in URGENT and not same_phase and not allocating) or not told:
            soon = max(report.since + settings.report_soon, spaced)
            return Due(soon, soon)
        return Due(max(stale_since + settings.report_settle, spaced), max(stale_since + settings.report_lazy, spaced))

    def _send(self, key: Key, report: _Report, seen: SeenClaim, status: dict[str, Any], now: float) -> Decision:
        report.sent = self._state.writes.next_id()
        report.sent_status, report.written_at, report.stale_since, report.ended = status, now, None, False
        self._by_id[report.sent] = key
        version = report.version if report.owner in ("", seen.uid) else None
        return WriteReport(report.sent, "ClaimReport", key, claim_report_body(seen.claim.meta, status, version))

    def settle(self, outcome: Outcome, now: float) -> bool:
        """Take an answer in; False if the decision was no report of a claim."""
        key = self._by_id.pop(outcome.decision.id, None)
        if key is None:
            return False
        report = self._reports.get(key)
        if report is None or report.sent != outcome.decision.id:
            return True
        report.sent = None
        self._stale.look_at(key)
        if outcome.ok and isinstance(outcome.decision, WriteReport):
            # Our watch may have shown the end of this report before this answer came: then it tells of the next one, too.
            if outcome.object is not None and key in self._state.view.claims and not report.ended:
                self.apply_report(outcome.object, own=True)
            self._avoid_written(key, report.sent_status, now)
            self._hold_written(key, report.sent_status)
            report.sent_status = {}
        elif outcome.status == 404:
            report.now_is(None, 0, {})
        return True

    def _avoid_written(self, key: Key, status: dict[str, Any], now: float) -> None:
        """A pinned pod may be evicted only after its report names the node to avoid."""
        if not status.get("avoid"):
            return
        for pod in self._state.view.pods_of_claim(key):
            for entry in self._state.avoided.active(owner_key(pod), now).values():
                entry.written = True
            self._state.dirty_pods[pod.key] = None

    def _hold_written(self, key: Key, status: dict[str, Any]) -> None:
        written = status.get("hold")
        for hold in self._state.holds:
            unit = self._state.units.get(hold.unit)
            if written and unit is not None and unit.claims[0] == key and written["nodes"] == list(hold.nodes):
                hold.written = True


def _same(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Equal but for what is derived on writing and the times of transitions."""
    names = (new.keys() | old.keys()) - {"deviceNames", "explanation"}
    return _same_summary(new, old) and all(_plain(new.get(name)) == _plain(old.get(name)) for name in names)


def _same_summary(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """The details of an explanation are renewed with the rest of the report, not for themselves."""
    told, known = ((status.get("explanation") or {}).get("summary", "") for status in (new, old))
    return bool(told == known or (told and known.endswith(f"; {told}")))


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "type" in value[0]:
        return [{name: item for name, item in entry.items() if name != "lastTransitionTime"} for entry in value]
    return value


def _preempted_by(status: Mapping[str, Any]) -> Any:
    """For whom it has to go: its owner should know while it is still there."""
    return (status.get("preemption") or {}).get("preemptedBy")


def _new_hold(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """A hold must be written before anyone is evicted for it."""
    hold, known = new.get("hold"), old.get("hold") or {}
    return hold is not None and (hold["nodes"], hold["since"]) != (known.get("nodes"), known.get("since"))


def _new_avoid(new: dict[str, Any], old: dict[str, Any]) -> bool:
    return bool(new.get("avoid")) and new.get("avoid") != old.get("avoid")
