"""Starved units and the holds of those at the front: an 8-device claim must not starve behind a stream of 1-device claims."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from dra_operator.allocator import Candidates
from dra_operator.api.core import Pod
from dra_operator.engine.ages import end_of
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision
from dra_operator.engine.gangholds import GangHolds
from dra_operator.engine.line import Line
from dra_operator.engine.lots import Lot
from dra_operator.engine.placing import Placer
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.rows import Place
from dra_operator.engine.state import State, claim_reference, pods_of
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import Hold, covered, soonest_node
from dra_operator.queue.units import Unit, UnitKey, order

#: A unit blocked for one of these neither holds nor is starved of devices.
NOT_STARVING = frozenset({"WriteRefused", "QuotaExceeded", "SearchBudgetExceeded", "GroupTimeout"})
#: Units looked at in one pass.
AT_A_TIME = 100
#: Of how many more units than wait it is remembered that they could wait nowhere, before those that wait no longer are sorted out.
_SPARE = 16


class Starvation:
    """Marks units starved and keeps the holds of the first ones."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting, line: Line, preempting: Preempting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._line, self._preempting = line, preempting
        self._nowhere: dict[UnitKey, tuple[object, ...]] = {}
        #: Who is still to be looked at before all begin anew, and what those that were looked at before them want.
        self._turns: list[tuple[Place, Lot]] = []
        self._front: list[Candidates] = []
        self._gang_holds = GangHolds(state, placer.gangs)

    def refresh(self, now: float) -> None:
        """Bring what holds cover up to date: devices that came free on the node belong to them before anyone is tried."""
        state = self._state
        if not state.waiting or len(self._nowhere) > 2 * len(state.waiting) + _SPARE:
            self._nowhere = {key: moment for key, moment in self._nowhere.items() if key in state.waiting}
        self._restore()
        for hold in sorted(state.holds, key=lambda hold: hold.rank):
            unit = state.waiting.get(hold.unit)
            found = None if unit is None else self._placer.candidates(unit)
            there = all(name in state.ledger.nodes for name in hold.nodes)
            if unit is None or found is None or unit.impossible or not there:
                if hold.unit not in state.units or unit is not None:
                    state.drop_hold(hold.unit)
                continue
            hold.rank = order(unit)
            if self._budgeting.over_quota(unit, now):
                state.retry(unit)  # others took its quota: it holds in vain, and will say so
            if hold.wanted:
                continue
            if not self._can_use(unit, hold, now):
                state.drop_hold(hold.unit)  # it looks for another place
                continue
            before = hold.devices
            state.holds.cover(hold.unit, self._coverable(unit, self._covered(unit, found, hold, now)))
            if before - hold.devices:
                state.freed()

    def _coverable(self, unit: Unit, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Without what is kept for others: by a reservation, or by name for a preemptor that the unit may not get ahead of."""
        named = [hold.wanted for hold in self._state.holds if hold.unit != unit.key and hold.priority >= unit.priority]
        return self._budgeting.coverable(unit, devices.difference(*named))

    def act(self, tried: Iterable[Unit], now: float) -> list[Decision]:
        """After the pass: mark those that have waited too long, and hold for the first of those that compete."""
        self._preempting.begin_pass()
        for unit in [*tried, *self._due(now)]:
            if unit.key in self._state.waiting and self._competes(unit, now):
                _, terms = self._state.terms(unit)
                if now >= (unit.waiting_since or now) + terms.starvation.after:
                    self._mark(unit, now)
        self._contend(now)
        return self._preempting.carry_on(now)

    def _due(self, now: float) -> list[Unit]:
        """Those whose time has come. Who does not compete then is looked at when it was tried again."""
        found = (self._state.waiting.get(key) for key in self._line.starves.due(now))
        return [unit for unit in found if unit is not None]

    def _competes(self, unit: Unit, now: float) -> bool:
        return not (unit.impossible or unit.reason in NOT_STARVING or unit.not_before > now)

    def _contend(self, now: float) -> None:
        """Look for victims, and hold, best first; of many that are alike until one speaks for the rest.

        Where more contend than one pass can look at, the next pass goes on where this one ended, and the one after the last begins
        anew: so everybody is looked at however much changes meanwhile.
        """
        if not self._turns:
            self._front = []
            self._turns = [(places[0], lot) for lot in self._line.contending.values() if (places := lot.contenders)]
            heapify(self._turns)
            self._preempting.begin_round()
        for _ in range(AT_A_TIME):
            if not self._turns:
                return
            place, lot = heappop(self._turns)
            unit = self._state.waiting.get(place[-1])
            more = unit is None or self._line.lot(unit.key) is not lot or self._look(unit, lot, now)
            places = lot.contenders
            at = places.behind(place)
            if more and at < len(places):
                heappush(self._turns, (places[at], lot))
        if self._turns:
            self._preempting.look_soon(now)

    def _look(self, unit: Unit, lot: Lot, now: float) -> bool:
        """For one unit; returns whether another of its lot is worth a look: of many, not if it would be told the same."""
        state = self._state
        if not self._competes(unit, now):
            return not unit.impossible
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        # Whoever stands behind another in a Strict queue could not take what is freed.
        if unit.reason not in ("", "BehindInQueue") and self._preempting.consider(unit, pod, now):
            return True
        lot.preemption_note = unit.preemption_note
        if unit.starved_since is not None and state.terms(unit)[1].starvation.hold:
            self._hold(unit, now)
        return not lot.many

    def _restore(self) -> None:
        """Holds from before a restart come first: what comes free meanwhile is theirs."""
        state = self._state
        if not state.held_before:
            return
        for unit in state.waiting.values():
            known = state.held_before.get(unit.claims[0])
            if known is None or state.holds.get(unit.key) is not None:
                continue
            if any(name not in state.ledger.nodes for name in (known.node, *known.others)):
                continue
            wanted = known.devices if known.by_name else frozenset[DeviceId]()
            hold = Hold(
                unit.key,
                known.node,
                known.since,
                order(unit),
                wanted=wanted,
                written=True,
                priority=unit.priority,
                others=known.others,
            )
            state.holds.put(hold)
        state.held_before.clear()

    def _mark(self, unit: Unit, now: float) -> None:
        if unit.starved_since is not None:
            return
        unit.starved_since = now
        self._line.starve(unit)
        waited = now - (unit.waiting_since or now)
        for key in unit.claims:
            self._state.stale_reports[key] = None
            seen = self._state.view.claims.get(key)
            if seen is not None and seen.managed and not seen.allocated:
                note = f"has waited for {waited:.0f} s: {unit.message or unit.reason}"
                self._state.event(claim_reference(seen), "Warning", "Starved", "Allocate", note)

    def _hold(self, unit: Unit, now: float) -> None:
        """The first starved unit among those that share candidate devices holds; a hold once made stays where it is."""
        state = self._state
        found = self._placer.candidates(unit)
        if found is None:
            return
        first = not any(found.overlaps(other) for other in self._front)
        if not any(found is other for other in self._front):
            self._front.append(found)
        if state.holds.get(unit.key) is not None:
            return
        if not first or self._budgeting.hopeless(unit):
            return
        moment = self._moment(unit, now)
        if self._nowhere.get(unit.key) == moment:
            return
        taken = frozenset(name for hold in state.holds for name in hold.nodes)
        chosen = self._choose(unit, found, taken, now)
        if chosen is None:
            self._nowhere[unit.key] = moment
            return
        self._nowhere.pop(unit.key, None)
        state.holds.put(chosen)
        state.holds.cover(unit.key, self._coverable(unit, self._covered(unit, found, chosen, now)))
        for key in unit.claims:
            state.stale_reports[key] = None

    def _moment(self, unit: Unit, now: float) -> tuple[object, ...]:
        """While it stays the same, a unit that could wait nowhere cannot."""
        avoided = [tuple(sorted(self._state.avoided_nodes(pod, now))) for pod in pods_of(self._state, unit)]
        return (*self._state.moment, self._state.layout, tuple(avoided), unit.claims)

    def _choose(self, unit: Unit, found: Candidates, taken: frozenset[str], now: float) -> Hold | None:
        """A hold where the unit can be soonest."""
        state = self._state

        def ends(uid: str) -> float | None:
            return self._ends(uid, now)

        if unit.key.kind == "group":
            return self._gang_holds.choose(unit, now, ends, taken)
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        choice = soonest_node(
            found,
            state.inventory,
            lambda name: self._could_run(pod, name, now),
            ends if state.view.ending else None,
            taken,
        )
        return None if choice is None else Hold(unit.key, choice.node, now, order(unit), ready_at=choice.ready_at)

    def _covered(self, unit: Unit, found: Candidates, hold: Hold, now: float) -> frozenset[DeviceId]:
        if unit.key.kind == "group":
            return self._gang_holds.covered(unit, hold, now)
        return covered(found, self._state.inventory, hold.node)

    def _can_use(self, unit: Unit, hold: Hold, now: float) -> bool:
        """Could each of the nodes still run a pod of the unit, once it is empty?"""
        pods = pods_of(self._state, unit)
        return not pods or all(any(self._could_run(pod, name, now) for pod in pods) for name in hold.nodes)

    def _could_run(self, pod: Pod | None, node: str, now: float) -> bool:
        """Once what runs there is gone."""
        if pod is None:
            return True
        return (
            node not in self._state.avoided_nodes(pod, now) and self._state.ledger.misfit(pod, node, empty=True) is None
        )

    def _ends(self, uid: str, now: float) -> float | None:
        """When the claim gives its devices back: when the last of its pods ends by its deadline."""
        seen = self._state.view.claim_by_uid(uid)
        if seen is None or not seen.claim.reserved_for:
            return None
        latest = 0.0
        for consumer in seen.claim.reserved_for:
            pod = self._state.view.pod_by_uid(consumer.uid)
            if pod is None or pod.started is None or pod.active_deadline is None:
                return None
            latest = max(latest, end_of(pod.started, pod.active_deadline, now))
        return latest
