"""An ordering: situations by how much of what is expected stops fitting if a unit runs there, the least first.

An `Index` ranks states by what is expected of devices alone. This one takes in what is left of CPU and memory beside them, which pods take
as well: where these run out first, the devices are worth nothing to those who need more; where the devices do, CPU is for those
without devices. The devices taken on a node are those the index found best there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from dra_operator.allocator.index import Answer, Index
from dra_operator.allocator.outlook import Outlook
from dra_operator.allocator.problem import Room
from dra_operator.allocator.scoring import Score
from dra_operator.allocator.search import Stopped, Work
from dra_operator.allocator.situations import Situation, Situations
from dra_operator.inventory import Inventory

#: Of entries in an ordering, as many may be out of date as are not, and so many.
_IDLE = 64
#: Entries of all orderings.
_REMEMBERED = 200_000


class Ordering:
    """For one plan and one amount taken beside the devices. Call `index.catch_up` first."""

    def __init__(self, index: Index, outlook: Outlook, situations: Situations, beside: Room) -> None:
        self.index, self.outlook, self.situations, self.beside = index, outlook, situations, beside
        #: Answers that could not be worked out within some budget.
        self.unfinished: set[Situation] = set()
        #: How many situations were looked at.
        self.looked_at = 0
        self._sorted: list[tuple[Score, int, Answer, Situation]] = []
        self._added = 0
        self._read = -1

    def __len__(self) -> int:
        return len(self._sorted)

    def catch_up(self, work: Work) -> None:
        """Take in the situations that came up since the last call."""
        situations = self.situations
        situations.catch_up()
        again, self.unfinished = self.unfinished, set()
        for situation in again:
            self._consider(situation, work)
        end = situations.journal_end
        if self._read == end:
            return
        if self._read < situations.journal_start:
            self._sorted, self.unfinished = [], set()
            found = [entry for item in situations.populated() if (entry := self._entry(item, work)) is not None]
            self._sorted = sorted(found)
        else:
            for situation in situations.journal[self._read - situations.journal_start :]:
                self._consider(situation, work)
        self._read = end
        if len(self._sorted) > _IDLE + 2 * len(situations.populated()):
            self._sorted = [entry for entry in self._sorted if entry[3].nodes]

    def in_order(self) -> Iterator[tuple[Score, Answer, Situation]]:
        """Those with a solution and with nodes, best first. Finish with it before the next call."""
        idle = 0
        for rank, _, answer, situation in self._sorted:
            if situation.nodes:
                yield rank, answer, situation
            else:
                idle += 1
                if idle > _IDLE:
                    # A copy, so that whoever iterates is not disturbed.
                    self._sorted = [entry for entry in self._sorted if entry[3].nodes]
                    idle = -len(self._sorted)

    def rank(self, answer: Answer, room: Room) -> Score:
        """The answer's rank on a node with this left beside its devices."""
        assert answer.rank is not None
        hard, (prefer, _, waste) = answer.rank
        rest = max(room[0] - self.beside[0], 0), max(room[1] - self.beside[1], 0)
        return Score(hard, (prefer, answer.loss(self.index.known, self.outlook, room, rest), waste))

    def _consider(self, situation: Situation, work: Work) -> None:
        if situation.nodes:
            entry = self._entry(situation, work)
            if entry is not None:
                insort(self._sorted, entry)

    def _entry(self, situation: Situation, work: Work) -> tuple[Score, int, Answer, Situation] | None:
        self.looked_at += 1
        try:
            answer = self.index.answer(situation.state, work)
        except Stopped:
            self.unfinished.add(situation)
            return None
        if answer.rank is None:
            return None
        self._added += 1
        return self.rank(answer, situation.room), self._added, answer, situation


class Orderings:
    """Those of one inventory that were asked lately."""

    def __init__(self) -> None:
        #: The one asked last at the end.
        self._kept: dict[tuple[Index, Room], Ordering] = {}

    def of(self, index: Index, outlook: Outlook, situations: Situations, beside: Room) -> Ordering:
        key = index, beside
        found = self._kept.pop(key, None)
        if found is None or found.situations is not situations:
            self._make_room(outlook)
            found = Ordering(index, outlook, situations, beside)
        self._kept[key] = found
        return found

    def _make_room(self, outlook: Outlook) -> None:
        """Drop those nobody will ask again, and the oldest once there is too much of them."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept.outlook is outlook}
        remembered = sum(map(len, self._kept.values()))
        while remembered > _REMEMBERED:
            remembered -= len(self._kept.pop(next(iter(self._kept))))


def orderings_of(inventory: Inventory) -> Orderings:
    found = inventory.memo.get("orderings")
    if found is None:
        found = inventory.memo["orderings"] = Orderings()
    assert isinstance(found, Orderings)
    return found
