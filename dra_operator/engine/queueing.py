"""The queue's pass: who is in it and in which order, who is worth trying, what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.meta import format_time
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision
from dra_operator.engine.lifecycle import Lifecycle
from dra_operator.engine.line import Line
from dra_operator.engine.names import GATE
from dra_operator.engine.placing import Blocked, Placed, Placer
from dra_operator.engine.pods import ends_at, ungate
from dra_operator.engine.rounds import Rounds
from dra_operator.engine.starvation import Starvation
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.stranded import Stranded
from dra_operator.engine.turns import Turns
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import allocate
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import Rank
from dra_operator.queue.units import Unit, UnitKey, order


class Queue:
    """One pass over the units worth trying; `line` is all that wait.

    `last_placement` is when one was placed last, `recheck` when time alone changes something.
    """

    def __init__(
        self,
        state: State,
        placer: Placer,
        budgeting: Budgeting,
        lifecycle: Lifecycle,
        starvation: Starvation,
        line: Line,
    ) -> None:
        self._state, self._placer, self._budgeting, self._lifecycle = state, placer, budgeting, lifecycle
        self._starvation = starvation
        self.line = line
        self._stranded = Stranded(state, placer, budgeting)
        self._rounds = Rounds(state, line)
        self._turns = Turns(state, placer, budgeting, line, self._rounds)
        self._again_at = float("-inf")
        self.last_placement = float("-inf")
        self.recheck: float | None = None

    def run(self, now: float, *, writing: bool) -> list[Decision]:
        """Order, wake, hold for the starved, then try, best first."""
        self.line.follow(now, self._state.mark_reports)
        self._starvation.refresh(now)
        self._turns.wake()
        decisions: list[Decision] = []
        tried: list[Unit] = []
        again = self._next_round(now)
        for unit in self._turns.in_order(now):
            tried.append(unit)
            decisions += self._try(unit, now, writing, counts=unit.key not in again)
        if writing:
            decisions += self._starvation.act(tried, now)
            decisions += self._stranded.act(self.line.bound(), now)
            decisions += self._show_due(tried, now)
        times = [self.line.next_boost(), self._rounds.next_wake()]
        if writing:
            times += [self.line.starves.next(), self.line.shows.next(), self._stranded.recheck]
        if self._state.changes != self._turns.changes:
            # What was held came free in the course of the pass. Should that never end, time goes on all the same.
            times.append(now if now > self._again_at else now + _PAUSE)
            self._again_at = now
        self.recheck = min((time for time in times if time is not None), default=None)
        return decisions

    def _next_round(self, now: float) -> set[UnitKey]:
        """Units whose reports are looked at in their turn. Of many that are alike they may have been passed over; and nobody is tried for
        devices that were taken, although it is told how many."""
        found: set[UnitKey] = set()
        for unit in self._rounds.next_units(now):
            self._state.mark_reports(unit)
            lot = self.line.lot(unit.key)
            taken = unit.tried_at != self._state.usage.taken_total and not unit.impossible
            if lot is not None and (lot.many or taken):
                found.add(unit.key)
                self._state.retry(unit)
                if lot.many and not unit.victims:
                    unit.preemption_note = lot.preemption_note
        if found:
            self._placer.count_anew()
        return found

    # -- one unit

    def _try(self, unit: Unit, now: float, writing: bool, *, counts: bool) -> list[Decision]:
        state = self._state
        if any(state.writes.get(state.view.claims[key].uid) is not None for key in unit.claims):
            return []  # a unit before it in this pass shares a claim with it; the watch will bring it back
        pod = self._pod(unit)
        unit.attempts += counts
        unit.tried_at = state.usage.taken_total
        forbidden = state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now))
        outcome = self._place(unit, pod, forbidden, now)
        if isinstance(outcome, Blocked):
            return self._blocked(unit, pod, outcome, now, writing)
        if not writing:
            if unit.block("WouldBeAllocated", f"would be allocated on {outcome.node or 'any node'}"):
                self._state.mark_reports(unit)
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
        state.pause(unit)
        state.rest_hold(unit.key, {device for _, allocation in managed for device in _devices(allocation)})
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
        before = unit.reason, unit.impossible
        news = unit.block(blocked.blocker.reason, message)
        unit.impossible = blocked.impossible
        if news or before != (unit.reason, unit.impossible):
            self._state.mark_reports(unit)
        if before != (unit.reason, unit.impossible):
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

    def _show_due(self, tried: Iterable[Unit], now: float) -> list[Decision]:
        """Of those whose time has come, and of those that were tried: the others are what they were."""
        keys = dict.fromkeys([*self.line.shows.due(now), *(unit.key for unit in tried)])
        units = (unit for key in keys if (unit := self._state.waiting.get(key)) is not None)
        return [decision for unit in units for decision in self._show_to_autoscalers(unit, now)]

    def _show_to_autoscalers(self, unit: Unit, now: float) -> list[Decision]:
        """Provisioning mode Ungate: a pod that waits for devices becomes visible to node autoscalers."""
        if unit.waiting_since is None or unit.key.kind != "pod" or not unit.reason:
            return []
        _, terms = self._state.terms(unit)
        pod = self._pod(unit)
        if terms.provisioning.mode != "Ungate" or pod is None or GATE not in pod.gates:
            return []
        if unit.reason in _NOT_FOR_DEVICES or self._state.writes.get(pod.meta.uid) is not None:
            return []
        if not unit.impossible and now < unit.waiting_since + terms.provisioning.after:
            return []
        note = f"shown to node autoscalers, still waiting for devices since {format_time(unit.waiting_since)}"
        self._state.event(pod_reference(pod), "Normal", "WaitingForNodes", "Ungate", note)
        return [ungate(self._state, pod, None, None, now)]

    def _pod(self, unit: Unit) -> Pod | None:
        return self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None


#: Seconds until another pass, where holds came free in the course of two at the same time.
_PAUSE = 1.0
#: Reasons for which no new node would help.
_NOT_FOR_DEVICES = frozenset({"WriteRefused", "QuotaExceeded", "Reserved", "Held", "BehindInQueue"})


def _devices(allocation: Allocation) -> Iterator[DeviceId]:
    return (DeviceId(result.driver, result.pool, result.device) for result in allocation.results)


def rank_of(unit: Unit) -> Rank:
    """Where it stands in the queue, to be compared with holds."""
    return order(unit)
