"""Rows of waiting units that stand in order, and whose places move together: those of a row have their share in common.

A place is worked out when it is asked for, so a share that changes costs nothing for the units that have it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from dra_operator.queue.fairness import Share
from dra_operator.queue.units import Unit, UnitKey, order

#: Where a unit stands; smaller is nearer to the front. As `order`, then the unit's key.
Place = tuple[int, float, float, str, UnitKey]
#: Where it stands in its row: a place without the share.
Spot = tuple[int, float, str, UnitKey]


def place_of(unit: Unit) -> Place:
    return (*order(unit), unit.key)


def spot_of(unit: Unit) -> Spot:
    effective, _, created, uid = order(unit)
    return effective, created, uid, unit.key


class Row:
    """A sequence of places, best first. Adding and removing is by spot: a unit may have changed since it was added."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._spots: list[Spot] = []

    def __len__(self) -> int:
        return len(self._spots)

    def __getitem__(self, index: int) -> Place:
        return self.place(self._spots[index])

    def __iter__(self) -> Iterator[Place]:
        return map(self.place, tuple(self._spots))

    def place(self, spot: Spot) -> Place:
        return spot[0], self._share.value, spot[1], spot[2], spot[3]

    def add(self, spot: Spot) -> None:
        insort(self._spots, spot)

    def remove(self, spot: Spot) -> None:
        """Nothing happens if it is not there."""
        at = bisect_left(self._spots, spot)
        if at < len(self._spots) and self._spots[at] == spot:
            del self._spots[at]

    def keys(self, start: int = 0, stop: int | None = None) -> list[UnitKey]:
        """Of the units from one index to before another."""
        return [spot[-1] for spot in self._spots[start:stop]]

    def before(self, place: Place) -> int:
        """How many stand before a place, which need not be of this row."""
        return bisect_left(self._spots, place, key=self.place)

    def behind(self, place: Place) -> int:
        """The index of the first behind a place."""
        return bisect_right(self._spots, place, key=self.place)

    def behind_more(self, place: Place, boundaries: list[Place]) -> int:
        """The index of the first behind a place with more of the (sorted) boundaries before it than that."""
        number = bisect_right(boundaries, place)
        return len(self) if number == len(boundaries) else self.behind(boundaries[number])
