"""Strict queues: a unit that is stuck keeps back the later ones of its policy that want some of the same devices.

Found out anew in each pass in which something happened to such a queue. What is told to many that are alike is told to the first of
them, and to the others in rounds.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.allocator import Candidates
from dra_operator.engine.line import Line
from dra_operator.engine.lots import Lot
from dra_operator.engine.placing import Placer
from dra_operator.engine.rounds import Rounds
from dra_operator.engine.rows import Place
from dra_operator.engine.state import State
from dra_operator.queue.units import Unit

#: Why a unit is not tried: it stands behind one that is stuck.
BEHIND = "BehindInQueue"


class Strict:
    """Who is stuck, as found when a queue was looked at last; who was told that it stands behind whom is kept in the lots."""

    def __init__(self, state: State, placer: Placer, line: Line, rounds: Rounds) -> None:
        self._state, self._placer, self._line, self._rounds = state, placer, line, rounds
        self._stuck: dict[str, list[tuple[Unit, Candidates]]] = {}
        self._overlaps: dict[tuple[Candidates, Candidates], bool] = {}

    def loosened(self, now: float) -> set[str]:
        """The queues in which somebody is not stuck any more, or wants other devices."""
        return {
            queue
            for queue, stuck in self._stuck.items()
            if any(
                unit.not_before > now or not self._keeps_back(unit) or self._placer.candidates(unit) is not found
                for unit, found in stuck
            )
        }

    def begin(self, queues: Iterable[str]) -> None:
        """These are looked at anew: nobody is stuck there yet."""
        self._overlaps.clear()
        for queue in queues:
            self._stuck.pop(queue, None)

    def begin_behind(self, place: Place) -> None:
        """All who stand behind the place are looked at anew."""
        for queue, stuck in self._stuck.items():
            self._stuck[queue] = [entry for entry in stuck if self._line.place(entry[0].key) <= place]

    def keeps_back(self, unit: Unit, lot: Lot, now: float) -> bool:
        """Whether one that is stuck ahead of it keeps it back, and with it all that follow in its lot. It is told."""
        stuck = None if lot.strict is None else self._stuck.get(lot.strict)
        found = None if stuck is None else self._placer.candidates(unit)
        if stuck is None or found is None:
            return False
        ahead = next((other for other, theirs in stuck if self._overlap(found, theirs)), None)
        if ahead is None:
            return False
        self._tell(unit, lot, ahead, now)
        return True

    def untold(self, lot: Lot, place: Place) -> list[Place]:
        """Those behind the place, in a lot that is kept back, that do not know it."""
        return [found for key in lot.untold if (found := self._line.place(key)) > place]

    def _overlap(self, found: Candidates, other: Candidates) -> bool:
        known = self._overlaps.get((found, other))
        if known is None:
            known = self._overlaps[found, other] = found.overlaps(other)
        return known

    def _tell(self, unit: Unit, lot: Lot, ahead: Unit, now: float) -> None:
        if lot.behind != ahead.key:
            lot.behind = ahead.key
            if lot.many:
                self._rounds.outdated()  # for the others only a name is another
            else:
                lot.untold = dict.fromkeys(lot.units.keys())
        lot.untold.pop(unit.key, None)
        if unit.block(BEHIND, f"policy {lot.strict} is Strict and {ahead.key.subject} is stuck ahead of it"):
            self._state.mark_reports(unit)

    def note(self, unit: Unit, lot: Lot) -> bool:
        """After its turn: whether it is stuck."""
        if lot.strict is None or unit.key not in self._state.waiting:
            return False
        lot.untold[unit.key] = None
        found = self._placer.candidates(unit) if self._keeps_back(unit) else None
        if found is None:
            return False
        self._stuck.setdefault(lot.strict, []).append((unit, found))
        return True

    def _keeps_back(self, unit: Unit) -> bool:
        """What is impossible or over its quota does not."""
        return unit.key in self._state.waiting and not unit.impossible and unit.reason != "QuotaExceeded"
