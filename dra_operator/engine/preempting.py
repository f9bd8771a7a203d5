"""Preemption under way: victims chosen, noted in the report, asked of the Eviction API, waited for; called off when not needed.

The order protects against a death in between: the hold and the victims stand in the preemptor's report before anyone is evicted, every
eviction is asked for as a dry run before the first is carried out, and what comes free is held for the preemptor by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dra_operator.api.core import Pod
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.choosing import Choosing, Chosen
from dra_operator.engine.decisions import Decision, EvictPod, Outcome
from dra_operator.engine.evicting import evict
from dra_operator.engine.holding import Holding
from dra_operator.engine.placing import Placer
from dra_operator.engine.state import State, claim_reference, pod_reference, pods_of
from dra_operator.engine.ties import names_of
from dra_operator.engine.writes import Stage as WriteStage
from dra_operator.engine.writing import deallocate
from dra_operator.preemption.holders import Holder
from dra_operator.preemption.holds import Hold
from dra_operator.preemption.victims import NoVictims
from dra_operator.queue.units import Unit, UnitKey, order

#: Units that may look for victims in one pass, seconds until others may, and until one looks again: on a full cluster a look costs.
_LOOKS = 4
_SOON = 0.05
_AGAIN = 1.0
#: Of how many more units than wait the last look is remembered, before those that wait no longer are sorted out.
_SPARE = 16


class Stage(Enum):
    NOTING = "the report is to name the victims first"
    ASKING = "dry runs of the evictions are under way"
    EVICTING = "evictions are under way"
    WAITING = "waiting for the devices"


@dataclass(slots=True)
class Run:
    """One preemption, begun at `began` (seconds since the epoch). `asked` and `evicted` are pod UIDs."""

    unit: UnitKey
    uid: str
    victims: tuple[Holder, ...]
    began: float
    stage: Stage = Stage.NOTING
    asked: set[str] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)


class Preempting:
    """At most one run a unit; no victim is in two of them."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting, holding: Holding) -> None:
        self._state, self._holding = state, holding
        self._choosing = Choosing(state, placer, budgeting, holding)
        self._runs: dict[UnitKey, Run] = {}
        self._again: dict[UnitKey, tuple[float, tuple[int, ...]]] = {}
        self._looks = 0
        #: Who has looked since all those began to who wanted to, and whether somebody could not since all were asked last.
        self._looked: set[UnitKey] = set()
        self._passed_over = False
        self.recheck: float | None = None

    # -- choosing

    def begin_pass(self) -> None:
        self._looks = 0
        self.recheck = None

    def begin_round(self) -> None:
        """All that contend are asked anew. Until none is passed over nobody looks a second time: so everybody comes to it, however much
        changes meanwhile."""
        if not self._passed_over:
            self._looked.clear()
        self._passed_over = False

    def consider(self, unit: Unit, pod: Pod | None, now: float) -> bool:
        """Look for victims for a blocked unit; returns whether a preemption is under way for it."""
        if unit.key in self._runs:
            return True
        if not self._wants(unit):
            self._let_go(unit)
            return False
        at, moment = self._again.get(unit.key, (0.0, ()))
        if moment == self._moment():
            return False
        waits = now < at or unit.key in self._looked
        if waits or self._looks >= _LOOKS:
            self._passed_over = self._passed_over or not waits
            self._look_at(max(at, now + _SOON))
            return False
        if self._shares(unit):
            return True
        self._looks += 1
        self._looked.add(unit.key)
        self._holding.settle(now)
        found = self._choosing.choose(unit, pod, now)
        # As long as writes on holders are under way the answer may change without an event.
        unsure = self._holding.unsettled and isinstance(found, NoVictims)
        self._again[unit.key] = (now + _AGAIN, () if unsure else self._moment())
        if len(self._again) > 2 * len(self._state.waiting) + _SPARE:
            self._again = {key: entry for key, entry in self._again.items() if key in self._state.waiting}
        if unsure:
            self._look_at(now + _AGAIN)
        if isinstance(found, NoVictims):
            self._explain(unit, f"no preemption: {'; '.join(found.reasons)}")
            self._let_go(unit)
            return False
        self._begin(unit, found, now)
        return True

    def _shares(self, unit: Unit) -> bool:
        """Is one under way for another unit that needs a claim of this one? What that gets is for both, and says where this one can be."""
        claims, units = self._state.view.claims, self._state.units
        needed = {key for key in unit.claims if (seen := claims.get(key)) is not None and not seen.allocated}
        others = (units.get(key) for key in self._runs)
        return any(other is not None and not needed.isdisjoint(other.claims) for other in others)

    def look_soon(self, now: float) -> None:
        """There are more that contend than a pass looks at."""
        self._look_at(now + _SOON)

    def _look_at(self, at: float) -> None:
        self.recheck = at if self.recheck is None else min(at, self.recheck)

    def _moment(self) -> tuple[int, ...]:
        return (*self._state.moment, self._state.budget_changes)

    def _let_go(self, unit: Unit) -> None:
        """Devices held by name from before a restart, for which nothing is under way any more."""
        hold = self._state.holds.get(unit.key)
        if hold is not None and hold.wanted:
            self._state.drop_hold(unit.key)

    def _wants(self, unit: Unit) -> bool:
        _, terms = self._state.terms(unit)
        mode = terms.preemption.mode
        if mode != "Always" and unit.starved_since is None:
            return False
        if mode == "Never":
            if unit.starved_since is not None:
                self._explain(unit, "preemption is off in its policy")
            return False
        if any(each.preemption_policy == "Never" for each in pods_of(self._state, unit)):
            if unit.starved_since is not None:
                self._explain(unit, "its PriorityClass has preemptionPolicy Never")
            return False
        return mode == "Always" or unit.starved_since is not None

    def _explain(self, unit: Unit, text: str) -> None:
        if unit.preemption_note != text:
            unit.preemption_note = text
            self._mark(unit)

    def _begin(self, unit: Unit, found: Chosen, now: float) -> None:
        state = self._state
        first, *others = found.nodes or ("",)
        state.drop_hold(unit.key)
        state.holds.put(
            Hold(
                unit.key,
                first,
                now,
                order(unit),
                wanted=found.devices,
                ready_at=None,
                priority=unit.priority,
                others=tuple(others),
            )
        )
        unit.preemption_note = ""
        run = Run(unit.key, unit.uid, found.holders, now, Stage.NOTING if found.holders else Stage.WAITING)
        self._runs[unit.key] = run
        unit.victims = names_of(found.holders)
        self._mark(unit)
        if found.holders:
            names, where = ", ".join(unit.victims), ", ".join(found.nodes)
            for key in unit.claims:
                seen = state.view.claims.get(key)
                if seen is not None and seen.managed:
                    note = f"makes room on {where}: {names}" if where else f"makes room: {names}"
                    state.event(claim_reference(seen), "Normal", "Preempting", "Preempt", note)

    # -- carrying on

    def carry_on(self, now: float) -> list[Decision]:
        """The next steps of every run that is still needed; the others are called off."""
        decisions: list[Decision] = []
        for run in list(self._runs.values()):
            unit = self._state.units.get(run.unit)
            hold = self._state.holds.get(run.unit)
            if unit is None or unit.uid != run.uid or hold is None:
                self._call_off(run, now)
                continue
            if run.unit not in self._state.waiting:
                # Its allocation is being written: it waits for nobody any more. Should it be refused, what came free is still for it.
                self._spare(run)
                unit.victims = ()
                continue
            if unit.not_before > now:
                continue  # it was refused
            if run.stage in (Stage.NOTING, Stage.ASKING) and not self._wants(unit):
                self._call_off(run, now)  # its policy was edited meanwhile
                continue
            if run.stage is Stage.NOTING and hold.written:
                run.stage = Stage.ASKING
            if run.stage is Stage.ASKING:
                decisions += self._ask(run, unit, now)
            if run.stage is Stage.EVICTING:
                if not self._stand(run, unit, now):
                    self._call_off(run, now)  # who goes is not what was chosen any more: look again
                    continue
                decisions += self._evict(run, unit, now)
            if run.stage is Stage.WAITING:
                decisions += self._free(run, now)
                if not self._still_leaving(run):
                    # They are gone and the pass before this one could not place it: look again.
                    self._call_off(run, now)
        return decisions

    def _ask(self, run: Run, unit: Unit, now: float) -> list[Decision]:
        """One dry run a pod, then all at once: none is evicted if one of them may not be."""
        decisions: list[Decision] = []
        for pod in self._pods(run):
            if pod.meta.uid in run.asked:
                continue
            if self._state.writes.get(pod.meta.uid) is not None:
                return decisions
            decisions.append(self._eviction(run, pod, unit, now, dry_run=True))
            run.asked.add(pod.meta.uid)
        if all(pod.meta.uid in run.allowed for pod in self._pods(run)):
            run.stage = Stage.EVICTING
        return decisions

    def _stand(self, run: Run, unit: Unit, now: float) -> bool:
        """May all of them still go, now that nothing but their evictions is to be done?"""
        if run.evicted:
            return True
        _, terms = self._state.terms(unit)
        limit = unit.priority - terms.preemption.min_priority_delta
        self._holding.settle(now)
        pods = [pod for holder in run.victims for pod in holder.pods]
        return all(self._holding.stands(holder, limit) for holder in run.victims) and not self._state.budgets.allows(
            pods
        )

    def _evict(self, run: Run, unit: Unit, now: float) -> list[Decision]:
        state = self._state
        decisions: list[Decision] = []
        for holder in run.victims:
            for reference in holder.pods:
                pod = state.view.pod_by_uid(reference.uid)
                if pod is None or pod.meta.deleted is not None or pod.terminal or pod.meta.uid in run.evicted:
                    continue
                if state.writes.get(pod.meta.uid) is not None:
                    return decisions
                decisions.append(self._eviction(run, pod, unit, now, dry_run=False))
                run.evicted.add(pod.meta.uid)
                state.event(pod_reference(pod), "Warning", "Preempted", "Evict", self._why(unit))
            for uid in holder.claims:
                seen = state.view.claim_by_uid(uid)
                if seen is None:
                    continue
                state.preempted[uid] = str(unit.key.subject)
                state.stale_reports[seen.key] = None
                if not seen.claim.reserved_for and seen.allocated and state.writes.get(uid) is None:
                    decisions.append(deallocate(state, seen, None, now))
                    state.event(claim_reference(seen), "Warning", "Preempted", "Deallocate", self._why(unit))
        run.stage = Stage.WAITING
        return decisions

    def _free(self, run: Run, now: float) -> list[Decision]:
        """Take back the devices of claims that no pod uses any more, whatever keeps kube-controller-manager from it."""
        state = self._state
        seen = (state.view.claim_by_uid(uid) for holder in run.victims for uid in holder.claims)
        return [
            deallocate(state, each, None, now)
            for each in seen
            if each is not None
            and each.allocated
            and each.managed
            and self._holding.abandoned(each)
            and state.writes.get(each.uid) is None
        ]

    def _why(self, unit: Unit) -> str:
        return f"makes room for {unit.key.kind} {unit.key.subject} of priority {unit.priority}"

    def _eviction(self, run: Run, pod: Pod, unit: Unit, now: float, *, dry_run: bool) -> EvictPod:
        _, terms = self._state.terms(unit)
        grace_period = terms.preemption.grace_period_seconds
        return evict(self._state, pod, self._why(unit), run.unit, now, dry_run=dry_run, grace_period=grace_period)

    def settle(self, outcome: Outcome, now: float) -> None:
        """What the Eviction API said."""
        decision = outcome.decision
        if not isinstance(decision, EvictPod):
            return
        run = next((each for each in self._runs.values() if decision.uid in each.asked), None)
        if run is None:
            return
        if outcome.ok or outcome.status == 404:
            run.allowed.add(decision.uid)
            return
        if outcome.status in (0, 408, 409) or outcome.status >= 500:
            return  # it is asked again; giving up would leave those in vain who are on their way already
        if outcome.status == 429:
            reference = next(pod for holder in run.victims for pod in holder.pods if pod.uid == decision.uid)
            for budget in self._state.budgets.of(reference):
                self._state.budgets.exhaust(budget.key)
            self._state.budget_changes += 1
        # Those evicted already are leaving, and count as such when it looks for victims again.
        self._call_off(run, now)

    def _pods(self, run: Run) -> list[Pod]:
        found = (self._state.view.pod_by_uid(pod.uid) for holder in run.victims for pod in holder.pods)
        return [pod for pod in found if pod is not None and pod.meta.deleted is None and not pod.terminal]

    def _still_leaving(self, run: Run) -> bool:
        claims, pods = self._holding.leaving()
        if any(uid in claims for holder in run.victims for uid in holder.claims):
            return True
        if any(self._state.writes.get(pod.meta.uid) is not None for pod in self._pods(run)):
            return True
        waited_for = self._state.holds.get(run.unit)
        if waited_for is None:
            return False
        return self._counted_on(waited_for, claims, pods) if run.victims else bool(claims)

    def _counted_on(self, hold: Hold, claims: frozenset[str], pods: frozenset[str]) -> bool:
        """Does anybody leave, victims aside, whose devices or whose room the choice has taken for free? Whoever was evicted for the rest
        would have gone in vain if others got that meanwhile."""
        state = self._state
        pools = {device[:2] for device in hold.wanted}
        if any(use.device[:2] in pools for uid in claims for use in state.inventory.usage.by_claim.get(uid, ())):
            return True
        found = (state.view.pod_by_uid(uid) for uid in pods)
        return any(pod is not None and pod.node_name in hold.nodes for pod in found)

    def _call_off(self, run: Run, now: float) -> None:
        """It will look again, if it still waits: at once, but not where another look would find the same: if it was begun at this very
        instant, or if there was nobody to be evicted."""
        if run.victims and run.began < now:
            self._again.pop(run.unit, None)
        if run.unit in self._state.waiting:
            at, _ = self._again.get(run.unit, (now, ()))
            self._look_at(max(at, now))
        self._runs.pop(run.unit, None)
        self._spare(run)
        unit = self._state.units.get(run.unit)
        if unit is not None:
            unit.victims = ()
            self._mark(unit)
        hold = self._state.holds.get(run.unit)
        if hold is not None and hold.wanted:
            self._state.drop_hold(run.unit)

    def _spare(self, run: Run) -> None:
        """Evictions that got no clear answer are not asked for again."""
        for holder in run.victims:
            for pod in holder.pods:
                write = self._state.writes.get(pod.uid)
                if write is not None and isinstance(write.decision, EvictPod) and write.stage is WriteStage.RETRY:
                    self._state.writes.gone(pod.uid)

    def _mark(self, unit: Unit) -> None:
        for key in unit.claims:
            self._state.stale_reports[key] = None

    def under_way(self, unit: UnitKey) -> bool:
        return unit in self._runs
