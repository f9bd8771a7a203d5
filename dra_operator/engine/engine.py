"""The engine: watch events in, decisions out. One pass of `decide` reads as the cycle of design §2."""

from __future__ import annotations

from typing import Any, Literal

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.classreports import ClassReporter
from dra_operator.engine.decisions import Decision, EvictPod, Outcome, PatchClaim, PatchPod, WriteClaimStatus
from dra_operator.engine.intake import Intake
from dra_operator.engine.lifecycle import Lifecycle
from dra_operator.engine.names import GATE
from dra_operator.engine.ownership import Ownership
from dra_operator.engine.phases import PhaseChange, Standpoint, standpoint
from dra_operator.engine.placing import Blocked, Placed, Placer
from dra_operator.engine.pods import ungate
from dra_operator.engine.reporting import Reporter
from dra_operator.engine.settings import EngineSettings
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.writes import Effect
from dra_operator.engine.writing import allocate
from dra_operator.queue.units import Unit, order

#: The kinds that must have been listed before anything is decided.
WATCHED = (
    "Namespace",
    "PriorityClass",
    "Node",
    "DeviceTaintRule",
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "Pod",
    "AllocationPolicy",
    "ClaimReport",
    "ClaimGroup",
    "DeviceClassReport",
)


class Engine:
    """Deterministic and without I/O. Every method takes the time, in seconds since the epoch."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self._state = State(settings or EngineSettings())
        self._alarms = Alarms()
        self._placer = Placer(self._state)
        self._reporter = Reporter(self._state)
        self._class_reporter = ClassReporter(self._state)
        self._intake = Intake(self._state, self._reporter, self._class_reporter)
        self._lifecycle = Lifecycle(self._state, self._placer, self._alarms)
        self._ownership = Ownership(self._state)
        self._unsynced = set(WATCHED)
        self._last_placement = float("-inf")
        self._numbered_at = float("-inf")
        self._recheck: float | None = None

    # -- inputs

    def observe(
        self, kind: str, type: Literal["ADDED", "MODIFIED", "DELETED"], object: dict[str, Any], now: float
    ) -> None:
        """One watch event. Never raises: an object that cannot be read is reported and ignored."""
        self._intake.observe(kind, type, object)

    def synced(self, kind: str) -> None:
        """The first list of this kind is complete."""
        self._unsynced.discard(kind)

    def replaced(self, kind: str, keys: set[Key], now: float) -> None:
        """After a re-list: everything of this kind that is not among `keys` is gone."""
        self._intake.replaced(kind, keys)

    def settle(self, outcome: Outcome, now: float) -> None:
        """What became of a decision."""
        if self._reporter.settle(outcome, now) or self._class_reporter.settle(outcome, now):
            return
        effect, write = self._state.writes.settle(outcome, now)
        if write is None or effect in (Effect.WAIT, Effect.REPEAT):
            return
        self._refused(outcome, write.unit and self._state.units.get(write.unit), now)
        if write.allocation is not None:
            self._state.drop_assumption(write.decision.uid)
        self._look_again(write.decision)

    def _look_again(self, decision: WriteClaimStatus | PatchClaim | PatchPod | EvictPod) -> None:
        if isinstance(decision, PatchPod | EvictPod):
            self._state.dirty_pods[decision.pod] = None
            return
        self._state.dirty_claims[decision.claim] = None
        self._state.touch(self._state.view.pods_of_claim(decision.claim))

    def _refused(self, outcome: Outcome, unit: Unit | None, now: float) -> None:
        """The API server said no for good: wait, and say what it said."""
        if unit is None or outcome.status == 404:
            return
        _, terms = self._state.terms(unit)
        unit.back_off(now, terms.backoff.initial, terms.backoff.max)
        unit.block("WriteRefused", f"the API server refused: {outcome.message or outcome.reason}")
        self._alarms.set(unit.not_before, *self._subject(unit))

    def _subject(self, unit: Unit) -> tuple[str, Key]:
        return unit.key.kind, unit.key.subject

    # -- the cycle

    @property
    def ready(self) -> bool:
        """Whether every kind has been listed once."""
        return not self._unsynced

    def decide(self, now: float) -> list[Decision]:
        """One pass: take in what changed, carry on what is under way, place what waits, best first, and report."""
        if self._unsynced:
            return []
        writing = self._state.settings.mode == "allocate"
        self._give_up_late_writes(now)
        looked_at = list(self._state.dirty_claims)
        decisions: list[Decision] = list(self._state.writes.repeats(now))
        decisions += self._lifecycle.take_in(now)
        if writing:
            decisions += self._ownership.strays(looked_at, now)
            decisions += self._ownership.collisions(looked_at, now)
        decisions += self._place_waiting(now, writing)
        quiet = now - self._last_placement >= self._state.settings.report_settle
        decisions += self._reporter.write(now, quiet=quiet)
        decisions += self._class_reporter.write(now)
        events, self._state.events = self._state.events, []
        if writing:
            decisions += events
        return decisions

    def _give_up_late_writes(self, now: float) -> None:
        for write in self._state.writes.expired(now):
            if write.allocation is not None:
                self._state.drop_assumption(write.decision.uid)
            self._look_again(write.decision)

    def _place_waiting(self, now: float, writing: bool) -> list[Decision]:
        """The queue, in order: every waiting unit for which something may have changed is tried."""
        self._recheck = None
        waiting = sorted(self._state.waiting.values(), key=order)
        self._number(waiting, now)
        decisions: list[Decision] = []
        for unit in waiting:
            if unit.not_before > now or unit.tried == self._state.changes:
                continue
            decisions += self._try(unit, now, writing)
        for unit in waiting:
            decisions += self._show_to_autoscalers(unit, now, writing)
        return decisions

    def _number(self, waiting: list[Unit], now: float) -> None:
        """Positions for the reports. They shift with every unit that leaves, so reports are not rewritten for that alone at once."""
        refresh = now - self._numbered_at >= self._state.settings.report_lazy
        if refresh:
            self._numbered_at = now
        for index, unit in enumerate(waiting):
            if refresh and unit.position != index + 1:
                self._mark_reports(unit)
            unit.position = index + 1

    def _try(self, unit: Unit, now: float, writing: bool) -> list[Decision]:
        pod = self._pod(unit)
        unit.tried = self._state.changes
        unit.attempts += 1
        match self._placer.place(unit, pod, now):
            case Placed() as placed:
                if not writing:
                    where = placed.node or "any node"
                    unit.block("WouldBeAllocated", f"would be allocated on {where}")
                    self._mark_reports(unit)
                    return []
                return self._carry_out(unit, pod, placed, now)
            case Blocked() as blocked:
                return self._blocked(unit, pod, blocked, now, writing)

    def _carry_out(self, unit: Unit, pod: Pod | None, placed: Placed, now: float) -> list[Decision]:
        """The unit's writes: all of its allocations at once; where a finalizer is missing, that first."""
        state = self._state
        unit.warnings, unit.impossible = placed.warnings, False
        self._last_placement = now
        if pod is not None and placed.node is not None:
            state.ledger.occupy(pod, placed.node)
        managed = [(seen, allocation) for seen, allocation in placed.allocations if seen.managed]
        writes = [allocate(state, seen, allocation, pod, unit.key, placed.node, now) for seen, allocation in managed]
        waited = now - (unit.waiting_since or now)
        state.pause(unit)
        if waited >= state.settings.report_soon:
            for seen, allocation in managed:
                names = ", ".join(f"{result.driver}/{result.pool}/{result.device}" for result in allocation.results)
                state.event(
                    claim_reference(seen), "Normal", "Allocated", "Allocate", f"allocated {names} after {waited:.0f} s"
                )
        return writes

    def _blocked(self, unit: Unit, pod: Pod | None, blocked: Blocked, now: float, writing: bool) -> list[Decision]:
        news = unit.block(blocked.blocker.reason, blocked.blocker.message)
        if unit.impossible != blocked.impossible or news:
            unit.impossible = blocked.impossible
            self._mark_reports(unit)
            self._announce(unit, pod, now)
        if not writing or pod is None:
            return []
        seen = [self._state.view.claims[key] for key in unit.claims]
        if any(claim.allocated for claim in seen):
            return self._lifecycle.take_back(unit, pod, seen, now)
        return []

    def _announce(self, unit: Unit, pod: Pod | None, now: float) -> None:
        """An Event for what a person must mend; mere waiting is in the report."""
        if not unit.impossible:
            return
        for key in unit.claims:
            seen = self._state.view.claims.get(key)
            if seen is not None and not seen.allocated and seen.managed:
                self._state.event(claim_reference(seen), "Warning", "Unsatisfiable", "Allocate", unit.message)
        if pod is not None:
            self._state.event(pod_reference(pod), "Warning", "Unsatisfiable", "Allocate", unit.message)

    def _show_to_autoscalers(self, unit: Unit, now: float, writing: bool) -> list[Decision]:
        """Provisioning mode Ungate: a pod that waits for devices becomes visible to node autoscalers (design §3.1.5)."""
        if not writing or unit.waiting_since is None or unit.key.kind != "pod" or not unit.reason:
            return []
        _, terms = self._state.terms(unit)
        pod = self._pod(unit)
        if terms.provisioning.mode != "Ungate" or pod is None or GATE not in pod.gates:
            return []
        if unit.reason == "WriteRefused" or self._state.writes.get(pod.meta.uid) is not None:
            return []
        at = now if unit.impossible else unit.waiting_since + terms.provisioning.after
        if at > now:
            self._recheck = min(at, self._recheck or at)
            return []
        note = f"shown to node autoscalers, still waiting for devices since {format_time(unit.waiting_since)}"
        self._state.event(pod_reference(pod), "Normal", "WaitingForNodes", "Ungate", note)
        return [ungate(self._state, pod, None, None, now)]

    def _mark_reports(self, unit: Unit) -> None:
        for key in unit.claims:
            self._state.stale_reports[key] = None

    def _pod(self, unit: Unit) -> Pod | None:
        return self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None

    # -- outputs beside decisions

    def next_wake(self, now: float) -> float | None:
        """When `decide` is worth calling although nothing has happened; None: not before the next event."""
        if self._unsynced:
            return None
        state = self._state
        if state.dirty_pods or state.dirty_claims or state.events or state.lost:
            return now
        times = [
            self._alarms.next(),
            state.writes.next_wake(),
            self._reporter.next_wake(),
            self._class_reporter.next_wake(),
            self._recheck,
            min((unit.not_before for unit in state.waiting.values() if unit.not_before > now), default=None),
        ]
        return min((time for time in times if time is not None), default=None)

    def journal(self) -> list[PhaseChange]:
        """The phase changes since the last call, in order."""
        return self._reporter.journal()

    def phases(self) -> dict[str, int]:
        """How many managed claims are in each phase."""
        return self._reporter.phases()

    def phase_of(self, claim: Key) -> Standpoint | None:
        """The claim's phase and why, as of the last `decide`; None where no such claim was seen."""
        seen = self._state.view.claims.get(claim)
        return None if seen is None else standpoint(seen, self._state)

    @property
    def waiting(self) -> int:
        """How many units wait for devices."""
        return len(self._state.waiting)
