"""Whose turn it is in a pass: the units worth trying, best first, and of many that are alike not more than needed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.line import Line
from dra_operator.engine.lots import Lot
from dra_operator.engine.placing import Placer
from dra_operator.engine.rounds import Rounds
from dra_operator.engine.rows import Place, place_of
from dra_operator.engine.state import State
from dra_operator.engine.strict import BEHIND, Strict
from dra_operator.inventory.kinds import Kind
from dra_operator.queue.fairness import NO_SHARE
from dra_operator.queue.units import Unit, UnitKey


class Turns:
    """`changes` is the state's count of changes up to which everybody was woken."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting, line: Line, rounds: Rounds) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._line, self._rounds = line, rounds
        self._strict = Strict(state, placer, line, rounds)
        self._awake: dict[Hashable, Lot] = {}
        self._rooms = 0
        self.changes = -1

    # -- who is woken

    def wake(self) -> None:
        """Units that failed are tried again only if something that they could use came free."""
        state, lots = self._state, self._line.lots
        everything, kinds = state.usage.wakes()
        room, self._rooms = state.rooms != self._rooms, state.rooms
        budgets = self._budgeting.wakes()
        if state.changes != self.changes:
            self.changes = state.changes
            self._awake = dict(lots)
        elif everything or room or kinds or budgets:
            known: dict[tuple[bytes, ...], bool] = {}
            self._awake = {
                key: lot
                for key, lot in lots.items()
                if not budgets.isdisjoint(lot.short_of)
                or (
                    not lot.only_short
                    and (everything or (room and lot.lacks_node) or (kinds and self._could_use(lot, kinds, known)))
                )
            }
        for lot in self._awake.values():
            lot.forget()

    def _could_use(self, lot: Lot, kinds: tuple[Kind, ...], known: dict[tuple[bytes, ...], bool]) -> bool:
        unit = self._state.waiting.get(lot.units[0][-1])
        if unit is None:
            return True
        specs = tuple(self._state.view.claims[key].spec_key for key in unit.claims)
        answer = known.get(specs)
        if answer is None:
            found = self._placer.candidates(unit)
            answer = known[specs] = found is not None and any(found.accepts(kind) for kind in kinds)
        return answer

    # -- who is tried

    def in_order(self, now: float) -> Iterator[Unit]:
        """The units worth trying; when the next is asked for, it is known what became of the last."""
        state, line = self._state, self._line
        untried, state.untried = state.untried, {}
        turns, boundaries = self._first_ones(untried, now), self._boundaries()
        done: set[UnitKey] = set()
        told: set[Hashable] = set()
        followed: dict[Hashable, Place] = {}
        changes = state.changes
        while turns:
            place, leads = heappop(turns)
            key = place[-1]
            unit, lot = state.waiting.get(key), line.lot(key)
            if lot is None:
                continue
            if line.place(key) != place:
                heappush(turns, (line.place(key), leads))  # its share has changed
                continue
            ready, stuck = unit is not None and unit.not_before <= now, False
            if unit is not None and ready and key not in done:
                done.add(key)
                if self._strict.keeps_back(unit, lot, now):
                    if lot.key not in told:
                        told.add(lot.key)
                        for untold in self._strict.untold(lot, place):
                            heappush(turns, (untold, False))
                    continue
                if lot.key in self._awake or key in untried or unit.reason == BEHIND:
                    yield unit
                    if key in state.waiting:
                        lot.note(unit)
                    elif unit.share is not NO_SHARE and line.share_again(key.subject.namespace):
                        boundaries = self._boundaries()
                stuck = self._strict.note(unit, lot)
            if leads and followed.get(lot.key) != place:
                followed[lot.key] = place
                at = self._follower(lot, place, boundaries, alone=stuck or not ready)
                if at < len(lot.units):
                    heappush(turns, (lot.units[at], True))
            if state.changes != changes:
                changes, self._awake = state.changes, dict(line.lots)
                # What was held came free: everybody behind may have it.
                self._strict.begin_behind(place)
                behind = ((other, other.units.behind(place)) for other in line.lots.values())
                turns += [(other.units[at], True) for other, at in behind if at < len(other.units)]
                heapify(turns)
        self._awake = {}

    def _first_ones(self, untried: Iterable[UnitKey], now: float) -> list[tuple[Place, bool]]:
        """A heap: the first units of the lots that are awake or in Strict queues where something happened, and, not to be followed by
        others of their lots, those to be tried by themselves."""
        line = self._line
        alone = [(line.place(key), lot) for key in untried if (lot := line.lot(key)) is not None]
        queues, line.stirred = line.stirred, set()
        queues.update(
            lot.strict for lot in (*self._awake.values(), *(lot for _, lot in alone)) if lot.strict is not None
        )
        queues |= self._strict.loosened(now)
        self._strict.begin(queues)
        leading = dict(self._awake)
        for queue in sorted(queues):
            leading.update(line.strict.get(queue, {}))
        turns = [(lot.units[0], True) for lot in leading.values()] + [(place, False) for place, _ in alone]
        heapify(turns)
        return turns

    def _boundaries(self) -> list[Place]:
        """Where units with holds stand: those behind have less to choose from."""
        state = self._state
        return sorted(place_of(unit) for hold in state.holds if (unit := state.units.get(hold.unit)) is not None)

    def _follower(self, lot: Lot, place: Place, boundaries: list[Place], *, alone: bool) -> int:
        """Who of the lot is looked at next. Of many, only one that fewer holds leave something to, or that is told something else;
        `alone`: this one does not speak for the others."""
        at = lot.units.behind(place)
        unit = self._state.waiting.get(place[-1])
        if alone or unit is None or not lot.many or at == len(lot.units):
            return at
        other = self._state.waiting.get(lot.units[at][-1])
        if other is None or self._standing(other) != self._standing(unit):
            return at
        if lot.key not in self._awake:
            return len(lot.units)
        self._rounds.outdated()
        return lot.units.behind_more(place, boundaries)

    def _standing(self, unit: Unit) -> tuple[object, ...]:
        """What is the same for units that are alike. For most, devices that are held are as good as taken; which of the two it is
        comes and goes with every device, and is told in rounds."""
        reason = unit.reason
        if reason == "Held" and self._state.terms(unit)[1].provisioning.mode != "Ungate":
            reason = "NoDevices"
        return reason, unit.impossible, unit.lacks_node, unit.short_of, unit.only_short
