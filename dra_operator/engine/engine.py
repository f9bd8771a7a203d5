"""The engine: watch events in, decisions out. One pass of `decide` reads as the order of events."""

from __future__ import annotations

from typing import Any, Literal

from dra_operator.api.meta import Key
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.classreports import ClassReporter
from dra_operator.engine.decisions import Decision, EvictPod, Outcome, PatchClaim, PatchPod, WriteClaimStatus
from dra_operator.engine.detailing import Details
from dra_operator.engine.drifting import Drifting
from dra_operator.engine.evicting import not_evicted
from dra_operator.engine.explaining import Explainer
from dra_operator.engine.groupstatus import GroupReporter
from dra_operator.engine.holding import Holding
from dra_operator.engine.intake import Intake
from dra_operator.engine.lifecycle import Lifecycle
from dra_operator.engine.line import Line
from dra_operator.engine.networkclasses import NetworkClasses
from dra_operator.engine.ownership import Ownership
from dra_operator.engine.phases import PhaseChange, Standpoint, standpoint
from dra_operator.engine.placing import Placer
from dra_operator.engine.pluginnodes import PluginNodes
from dra_operator.engine.policystatus import PolicyReporter
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.queueing import Queue
from dra_operator.engine.reallocating import Reallocating
from dra_operator.engine.rearranging import Rearranging
from dra_operator.engine.reporting import Reporter
from dra_operator.engine.settings import EngineSettings
from dra_operator.engine.starvation import Starvation
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.writes import Effect, ObjectWrite
from dra_operator.explain.account import Account
from dra_operator.explain.bench import THOROUGH
from dra_operator.queue.units import Unit

#: The kinds that must have been listed before anything is decided.
WATCHED = (
    "Namespace",
    "PriorityClass",
    "Node",
    "DeviceTaintRule",
    "DeviceClass",
    "ResourceSlice",
    "PodDisruptionBudget",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "Pod",
    "AllocationPolicy",
    "ClaimReport",
    "ClaimGroup",
    "DeviceClassReport",
    "NetworkDeviceClass",
)

#: What a write was for, in the Event that tells of its refusal.
_WISHES: dict[type, str] = {
    WriteClaimStatus: "free its devices",
    PatchClaim: "hand it to kube-scheduler",
    PatchPod: "take the scheduling gate off",
    EvictPod: "evict it",
}


class Engine:
    """Deterministic and without I/O. Every method takes the time, in seconds since the epoch."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self._state = State(settings or EngineSettings())
        self._alarms = Alarms()
        self._placer = Placer(self._state)
        self._budgeting = Budgeting(self._state, self._placer)
        line = Line(self._state, self._placer, self._budgeting)
        self._explainer = Explainer(self._state, self._placer, self._budgeting, line)
        self._drifting = Drifting(self._state, self._alarms)
        self._reporter = Reporter(self._state, Details(self._state, self._explainer), self._drifting)
        self._class_reporter = ClassReporter(self._state, self._budgeting)
        self._policy_reporter = PolicyReporter(self._state, self._budgeting.accounts)
        self._group_reporter = GroupReporter(self._state)
        self._networks = NetworkClasses(self._state)
        self._intake = Intake(
            self._state,
            self._reporter,
            self._class_reporter,
            self._policy_reporter,
            self._group_reporter,
            self._networks,
        )
        self._lifecycle = Lifecycle(self._state, self._placer, self._alarms)
        self._ownership = Ownership(self._state)
        self._plugin_nodes = PluginNodes(self._state)
        self._holding = Holding(self._state)
        self._preempting = Preempting(self._state, self._placer, self._budgeting, self._holding)
        #: What moves would do for those that wait.
        self.rearranging = Rearranging(self._state, self._placer, self._holding)
        self._starvation = Starvation(self._state, self._placer, self._budgeting, line, self._preempting)
        self._queue = Queue(self._state, self._placer, self._budgeting, self._lifecycle, self._starvation, line)
        self._reallocating = Reallocating(self._state, self._placer, self._budgeting)
        self._unsynced = set(WATCHED)
        self._placing_at = float("-inf")

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
        if self._policy_reporter.settle(outcome, now) or self._group_reporter.settle(outcome, now):
            return
        if self._networks.settle(outcome, now):
            return
        self._preempting.settle(outcome, now)
        self._reallocating.settle(outcome, now)
        effect, write = self._state.writes.settle(outcome, now)
        if write is None or effect in (Effect.WAIT, Effect.REPEAT):
            return
        self._refused(outcome, write.unit and self._state.units.get(write.unit), now)
        if isinstance(write.decision, WriteClaimStatus | PatchClaim):
            self._state.drop_assumption(write)
        if isinstance(write.decision, EvictPod):
            not_evicted(self._state, write.decision)
        if effect is Effect.DENIED:
            self._tell(write.decision, outcome)
        else:
            self._look_again(write.decision)

    def _tell(self, decision: ObjectWrite, outcome: Outcome) -> None:
        """An Event about what an admission policy of somebody else, or a right that is missing, keeps us from."""
        if outcome.status == 404:
            return
        state = self._state
        if isinstance(decision, PatchPod | EvictPod):
            pod = state.view.pod_by_uid(decision.uid)
            about = None if pod is None else pod_reference(pod)
        else:
            seen = state.view.claim_by_uid(decision.uid)
            about = None if seen is None else claim_reference(seen)
        if about is not None:
            note = f"the API server refuses to {_WISHES[type(decision)]}: {outcome.message or outcome.reason}"
            state.event(about, "Warning", "WriteRefused", "Write", note)

    def _look_again(self, decision: ObjectWrite) -> None:
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
        decisions = self.carry_on(now)
        decisions += self._queue.run(now, writing=writing)
        decisions += self._reporter.write(now, quiet=self._quiet(now))
        decisions += self._class_reporter.write(now)
        if writing:
            decisions += self._policy_reporter.write(now)
            decisions += self._group_reporter.write(now)
            decisions += self._networks.write(now)
        events, self._state.events = self._state.events, []
        if writing:
            decisions += events
        return decisions

    def carry_on(self, now: float) -> list[Decision]:
        """The part of a pass that places nothing: pods whose devices are written are let go, and what cannot stay is taken back.

        `decide` begins with it; by itself it is for a time at which much waits to be written: what is placed then would be
        written late, but pods that have their devices need not wait with it.
        """
        if self._unsynced:
            return []
        self._give_up_late_writes(now)
        self._plugin_nodes.refresh()
        looked_at = list(self._state.dirty_claims)
        self._holding.refresh(looked_at)
        self._holding.refresh_groups(list(self._state.dirty_groups))
        self._drifting.look(looked_at, now)
        decisions: list[Decision] = list(self._state.writes.repeats(now))
        if self._state.settings.mode == "allocate":
            # Before anything is ungated: a pod must not be bound to devices that are about to be given up.
            decisions += self._ownership.collisions(looked_at, now)
            decisions += self._ownership.strays(looked_at, now)
            decisions += self._reallocating.act(now)
        decisions += self._lifecycle.take_in(now)
        return decisions

    def _quiet(self, now: float) -> bool:
        """Whether no unit has been placed lately, and no placement is still being written."""
        if self._state.writes.placing():
            self._placing_at = now
        last = max(self._queue.last_placement, self._placing_at)
        return now - last >= self._state.settings.report_settle

    def _give_up_late_writes(self, now: float) -> None:
        for write in self._state.writes.expired(now):
            if write.allocation is not None:
                self._state.drop_assumption(write)
            self._look_again(write.decision)

    # -- outputs beside decisions

    def next_wake(self, now: float) -> float | None:
        """When `decide` is worth calling although nothing has happened; None: not before the next event."""
        if self._unsynced:
            return None
        state = self._state
        if state.dirty_pods or state.dirty_claims or state.dirty_groups or state.events or state.lost:
            return now
        times = [
            self._alarms.next(),
            state.writes.next_wake(),
            self._reporter.next_wake(),
            self._class_reporter.next_wake(),
            self._policy_reporter.next_wake(),
            self._group_reporter.next_wake(),
            self._networks.next_wake(),
            self._queue.recheck,
            self._ownership.recheck,
            self._preempting.recheck,
            self._reallocating.recheck,
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

    def explain(self, kind: Literal["claim", "pod"], key: Key, now: float) -> Account | None:
        """Why it waits and what would fix it, or what it has; None where no such object was seen. To be asked after `decide`."""
        about = self._explainer.claim if kind == "claim" else self._explainer.pod
        return about(key, now, THOROUGH)

    @property
    def waiting(self) -> int:
        """How many units wait for devices."""
        return len(self._state.waiting)
