"""The queue's pass: who is in it and in which order, who is worth trying, what comes of it."""

from __future__ import annotations

from collections import deque

from dra_operator.allocator import Candidates
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.meta import format_time
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision
from dra_operator.engine.lifecycle import Lifecycle
from dra_operator.engine.names import GATE
from dra_operator.engine.placing import Blocked, Placed, Placer
from dra_operator.engine.pods import ends_at, ungate
from dra_operator.engine.starvation import Starvation
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.stranded import Stranded
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import allocate
from dra_operator.inventory import DeviceId
from dra_operator.inventory.kinds import Kind
from dra_operator.preemption.holds import Rank
from dra_operator.queue.fairness import dominant_share
from dra_operator.queue.priority import effective_priority, next_boost
from dra_operator.queue.units import Unit, order


class Queue:
    """One pass over the waiting units. `last_placement` is when one was placed last, `recheck` when time alone changes something."""

    def __init__(
        self,
        state: State,
        placer: Placer,
        budgeting: Budgeting,
        lifecycle: Lifecycle,
        starvation: Starvation,
        alarms: Alarms,
    ) -> None:
        self._state, self._placer, self._budgeting, self._lifecycle = state, placer, budgeting, lifecycle
        self._starvation, self._alarms = starvation, alarms
        self._stranded = Stranded(state, placer, budgeting)
        self._numbered_at = float("-inf")
        self._rooms = 0
        self._line: list[Unit] = []
        self._lined_up = (-1, -1)
        self._next_boost: float | None = None
        self.last_placement = float("-inf")
        self.recheck: float | None = None

    def run(self, now: float, *, writing: bool) -> list[Decision]:
        """Order, wake, hold for the starved, then try, best first."""
        state = self._state
        self.recheck = None
        waiting = self._ordered(now)
        self._wake(waiting)
        decisions: list[Decision] = []
        self._starvation.refresh(now)
        stuck: list[tuple[str, Unit, Candidates]] = []
        turns = deque(waiting)
        while turns:
            unit = turns.popleft()
            if unit.not_before <= now and self._has_turn(unit, stuck):
                if unit.tried != state.changes:
                    decisions += self._try(unit, now, writing)
                self._note_strict(unit, stuck)
                if unit.fair and unit.key not in state.waiting:
                    turns = self._share_again(turns, unit.key.subject.namespace)
        if writing:
            decisions += self._starvation.act(waiting, now)
            decisions += self._stranded.act(waiting, now)
            if self._stranded.recheck is not None:
                self._recheck_at(self._stranded.recheck)
        for unit in waiting:
            decisions += self._show_to_autoscalers(unit, now, writing)
        return decisions

    # -- order

    def _ordered(self, now: float) -> list[Unit]:
        """The units in the queue, best first; worked out anew only when the queue, the rules or the time can have changed it."""
        state = self._state
        moment = state.queue_changes, state.term_changes
        renumber = now - self._numbered_at >= state.settings.report_lazy
        boosted = self._next_boost is not None and now >= self._next_boost
        if moment != self._lined_up or renumber or boosted or any(unit.fair for unit in self._line):
            self._lined_up = moment
            self._line = self._line_up(now)
        if self._next_boost is not None:
            self._recheck_at(self._next_boost)
        # Units leave the queue during the pass.
        return list(self._line)

    def _line_up(self, now: float) -> list[Unit]:
        self._next_boost = None
        for unit in self._state.waiting.values():
            _, terms = self._state.terms(unit)
            waited = now - (unit.waiting_since if unit.waiting_since is not None else now)
            effective = effective_priority(unit.priority, waited, terms.starvation)
            if effective != unit.effective:
                unit.effective = effective
                self._mark_reports(unit)
            boost = next_boost(waited, terms.starvation)
            if boost is not None:
                at = now + boost
                self._next_boost = at if self._next_boost is None else min(at, self._next_boost)
            unit.fair = terms.fairness == "FairShare"
            unit.share = self._share(unit, terms.weight) if unit.fair else 0.0
        waiting = sorted(self._state.waiting.values(), key=order)
        # Positions shift with every unit that leaves, so reports are not rewritten for that alone at once.
        refresh = now - self._numbered_at >= self._state.settings.report_lazy
        if refresh:
            self._numbered_at = now
        for index, unit in enumerate(waiting):
            if refresh and unit.position != index + 1:
                self._mark_reports(unit)
            unit.position = index + 1
        return waiting

    def _share(self, unit: Unit, weight: int) -> float:
        held = self._state.usage.holdings.of(unit.key.subject.namespace)
        return dominant_share(held, self._state.totals(held), weight)

    def _share_again(self, turns: deque[Unit], namespace: str) -> deque[Unit]:
        """A unit of the namespace was placed: those of it that follow stand behind now."""
        for unit in turns:
            if unit.fair and unit.key.subject.namespace == namespace:
                unit.share = self._share(unit, self._state.terms(unit)[1].weight)
        return deque(sorted(turns, key=order))

    def _recheck_at(self, at: float) -> None:
        self.recheck = at if self.recheck is None else min(at, self.recheck)

    # -- wake-ups

    def _wake(self, waiting: list[Unit]) -> None:
        """Units that failed are tried again only if something that they could use came free."""
        state = self._state
        everything, kinds = state.usage.wakes()
        room, self._rooms = state.rooms != self._rooms, state.rooms
        known: dict[tuple[bytes, ...], bool] = {}
        budgets = self._budgeting.wakes()
        for unit in waiting:
            if unit.tried != state.changes:
                continue
            if unit.short_of and not budgets.isdisjoint(unit.short_of):
                unit.tried = -1
            if unit.only_short:
                continue
            if everything or (room and unit.lacks_node) or (kinds and self._could_use(unit, kinds, known)):
                unit.tried = -1

    def _could_use(self, unit: Unit, kinds: tuple[Kind, ...], known: dict[tuple[bytes, ...], bool]) -> bool:
        specs = tuple(self._state.view.claims[key].spec_key for key in unit.claims)
        answer = known.get(specs)
        if answer is None:
            found = self._placer.candidates(unit)
            answer = known[specs] = found is not None and any(found.accepts(kind) for kind in kinds)
        return answer

    # -- Strict queueing

    def _has_turn(self, unit: Unit, stuck: list[tuple[str, Unit, Candidates]]) -> bool:
        """With Strict, a stuck unit blocks later ones of its policy that share a candidate device with it."""
        if not stuck:
            return True
        policy, _ = self._state.terms(unit)
        ahead = next((entry for entry in stuck if entry[0] == policy and self._overlap(unit, entry[2])), None)
        if ahead is None:
            return True
        if unit.block("BehindInQueue", f"policy {policy} is Strict and {ahead[1].key.subject} is stuck ahead of it"):
            self._mark_reports(unit)
        unit.tried = -1
        return False

    def _overlap(self, unit: Unit, other: Candidates) -> bool:
        found = self._placer.candidates(unit)
        return found is not None and found.overlaps(other)

    def _note_strict(self, unit: Unit, stuck: list[tuple[str, Unit, Candidates]]) -> None:
        if unit.key not in self._state.waiting or unit.impossible or unit.reason == "QuotaExceeded":
            return
        policy, terms = self._state.terms(unit)
        if terms.queueing == "Strict":
            found = self._placer.candidates(unit)
            if found is not None:
                stuck.append((policy, unit, found))

    # -- one unit

    def _try(self, unit: Unit, now: float, writing: bool) -> list[Decision]:
        state = self._state
        if any(state.writes.get(state.view.claims[key].uid) is not None for key in unit.claims):
            return []  # a unit before it in this pass shares a claim with it; the watch will bring it back
        pod = self._pod(unit)
        unit.tried = state.changes
        unit.attempts += 1
        forbidden = state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now))
        outcome = self._place(unit, pod, forbidden, now)
        if isinstance(outcome, Blocked):
            return self._blocked(unit, pod, outcome, now, writing)
        if not writing:
            if unit.block("WouldBeAllocated", f"would be allocated on {outcome.node or 'any node'}"):
                self._mark_reports(unit)
            return []
        return self._carry_out(unit, pod, outcome, now)

    def _place(self, unit: Unit, pod: Pod | None, forbidden: frozenset[DeviceId], now: float) -> Placed | Blocked:
        def place() -> Placed | Blocked:
            return self._budgeting.place(unit, pod, now, forbidden=forbidden)

        return self._lifecycle.gangs.attempt(unit, place, now) if unit.key.kind == "group" else place()

    def _carry_out(self, unit: Unit, pod: Pod | None, placed: Placed, now: float) -> list[Decision]:
        """The unit's writes: all of its allocations at once; where a finalizer is missing, that first."""
        state = self._state
        unit.warnings, unit.impossible = placed.warnings, False
        self.last_placement = now
        managed: list[tuple[SeenClaim, Allocation]] = []
        writes: list[Decision] = []
        for place in placed.places(pod):
            if place.pod is not None and place.node is not None:
                state.ledger.occupy(place.pod, place.node)
            for seen, allocation in place.allocations:
                if seen.managed:
                    managed.append((seen, allocation))
                    writes.append(allocate(state, seen, allocation, place.pod, unit.key, place.node, now))
        for seen, _ in managed:
            state.preempted.pop(seen.uid, None)
        state.pause(unit)  # and what is held for it stays so until it is written: it may be refused
        waited = now - (unit.waiting_since or now)
        if waited >= state.settings.report_soon:
            for seen, allocation in managed:
                names = ", ".join(f"{result.driver}/{result.pool}/{result.device}" for result in allocation.results)
                note = f"allocated {names} after {waited:.0f} s"
                state.event(claim_reference(seen), "Normal", "Allocated", "Allocate", note)
        return writes

    def _blocked(self, unit: Unit, pod: Pod | None, blocked: Blocked, now: float, writing: bool) -> list[Decision]:
        state = self._state
        unit.lacks_node = blocked.blocker.lacks_node
        message = blocked.blocker.message
        if blocked.blocker.held:
            holders = [
                str(hold.unit.subject) for hold in state.holds if hold.unit != unit.key and hold.rank < rank_of(unit)
            ]
            message += f"; held for {', '.join(holders[:3])}"
        news = unit.block(blocked.blocker.reason, message)
        if unit.impossible != blocked.impossible or news:
            unit.impossible = blocked.impossible
            self._mark_reports(unit)
            self._announce(unit, pod)
        if unit.impossible or unit.reason == "QuotaExceeded":
            self._state.drop_hold(unit.key)
        if writing and unit.key.kind == "group":
            return self._lifecycle.gangs.take_back(unit, now)
        if not writing or pod is None or pod.node_name is not None:
            return []
        seen = [self._state.view.claims[key] for key in unit.claims]
        if any(claim.allocated for claim in seen):
            return self._lifecycle.take_back(unit, pod, seen, now)
        return []

    def _announce(self, unit: Unit, pod: Pod | None) -> None:
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
        """Provisioning mode Ungate: a pod that waits for devices becomes visible to node autoscalers."""
        if not writing or unit.waiting_since is None or unit.key.kind != "pod" or not unit.reason:
            return []
        _, terms = self._state.terms(unit)
        pod = self._pod(unit)
        if terms.provisioning.mode != "Ungate" or pod is None or GATE not in pod.gates:
            return []
        if unit.reason in _NOT_FOR_DEVICES or self._state.writes.get(pod.meta.uid) is not None:
            return []
        at = now if unit.impossible else unit.waiting_since + terms.provisioning.after
        if at > now:
            self._recheck_at(at)
            return []
        note = f"shown to node autoscalers, still waiting for devices since {format_time(unit.waiting_since)}"
        self._state.event(pod_reference(pod), "Normal", "WaitingForNodes", "Ungate", note)
        return [ungate(self._state, pod, None, None, now)]

    def _mark_reports(self, unit: Unit) -> None:
        for key in unit.claims:
            self._state.stale_reports[key] = None
        if unit.key.kind == "group":
            self._state.stale_groups[unit.key.subject] = None

    def _pod(self, unit: Unit) -> Pod | None:
        return self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None


#: Reasons for which no new node would help.
_NOT_FOR_DEVICES = frozenset({"WriteRefused", "QuotaExceeded", "Reserved", "Held", "BehindInQueue"})


def rank_of(unit: Unit) -> Rank:
    """Where it stands in the queue, to be compared with holds."""
    return order(unit)
