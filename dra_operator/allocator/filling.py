"""Filling nodes with the members of a gang: backtracking, members of one sort taken as exchangeable.

What keeps it short:
- of a sort, members take nodes in the order of its list, so no two assignments differ in who is where alone;
- where members do not meddle with each other across nodes, a sort that finds no room gives up as a whole: its own earlier choices
  cannot have been the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dra_operator.allocator.gathering import Limits, Sort, Spot
from dra_operator.allocator.reconciling import Reconciling

#: May these members run on the node together?
Room = Callable[[str, tuple[int, ...]], bool]


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """`value` of a node's label, None where it has none. `present`: those of members placed before.

    Same: all members under one value, one that `present` has, if any. Spread: under as many different values as possible, and of
    these solutions one that puts the fewest members under the fullest value. Prefer: Same if that is possible; else anywhere, values
    that have most room first. With Same and Spread nodes without the label are no candidates.
    """

    mode: Literal["Same", "Spread", "Prefer"]
    value: Callable[[str], str | None]
    present: tuple[str | None, ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class Gathered:
    """`members`: by node, in the order of the spot's group."""

    spots: dict[str, Spot]
    members: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Spreading:
    """At least `values` different ones in all, and nowhere more than `crowd` members."""

    values: int
    crowd: int


#: Per sort, the nodes it may take, best first.
Lists = list[list[str]]


class Rooms:
    """What members need of a node beside devices, asked once."""

    def __init__(self, sort_of: dict[int, Sort], room: Room | None) -> None:
        self._sort_of, self._room = sort_of, room
        self._fits: dict[tuple[str, int], bool] = {}
        self._together: dict[tuple[str, tuple[int, ...]], bool] = {}

    def fits(self, name: str, member: int) -> bool:
        """May the member run there at all?"""
        sort = self._sort_of[member]
        known = self._fits.get((name, sort.index))
        if known is None:
            fits = sort.problem.fits
            known = self._fits[name, sort.index] = fits is None or fits(name)
        return known

    def together(self, name: str, members: tuple[int, ...]) -> bool:
        """May they run there together?"""
        if self._room is None or len(members) < 2:
            return True
        key = (name, members)
        known = self._together.get(key)
        if known is None:
            known = self._together[key] = self._room(name, members)
        return known


class Filling:
    """One pass of backtracking over the members, sort by sort. `most`: so many were placed at once.

    `spreading` counts members by value of the topology's label.
    """

    def __init__(
        self,
        reconciling: Reconciling,
        rooms: Rooms,
        topology: NodeTopology | None,
        lists: Lists,
        limits: Limits,
        spreading: Spreading | None,
    ) -> None:
        self.reconciling, self.rooms, self.lists, self.limits = reconciling, rooms, lists, limits
        self.gathering, self.sort_of = reconciling.gathering, reconciling.sort_of
        self.topology, self.spreading = topology, spreading
        self.most = 0
        self.order = self._order()
        self.groups: dict[str, tuple[int, ...]] = {}
        self.path: list[int] = []
        self.spots: dict[str, Spot] = {}
        self.counts: Counter[str] = Counter()
        if spreading is not None and self.topology is not None:
            self.counts.update(value for value in self.topology.present if value is not None)

    def _order(self) -> list[int]:
        """Sort by sort, those with the fewest nodes first; who shares a claim after its owner (such are sorts of one member)."""
        follows = self.reconciling.follows
        ranked = sorted(self.gathering.sorts, key=lambda sort: (len(self.lists[sort.index]), sort.index))
        order = [member for sort in ranked for member in sort.members]
        return sorted(order, key=lambda member: bool(follows[member]))

    def run(self) -> Gathered | None:
        order, cursor = self.order, 0
        while len(self.path) < len(order):
            member = order[len(self.path)]
            names = self.lists[self.sort_of[member].index]
            at = next((at for at in range(cursor, len(names)) if self._take(member, names[at])), None)
            if at is not None:
                self.path.append(at)
                following = order[len(self.path) : len(self.path) + 1]
                cursor = at if following and self.sort_of[following[0]] is self.sort_of[member] else 0
                continue
            self.most = max(self.most, len(self.path))
            cursor = self._back(member)
            if cursor < 0:
                return None
        spots = self.spots
        if not self.reconciling.needed:
            for name, members in self.groups.items():
                spot = self.gathering.on(name, self.reconciling.group(members), self.limits)
                assert spot is not None
                spots[name] = spot
        return Gathered({name: spots[name] for name in self.groups}, dict(self.groups))

    def _take(self, member: int, name: str) -> bool:
        """Put one member more on a node, if all goes together."""
        self.reconciling.spend()
        value = self.topology.value(name) if self.spreading is not None and self.topology is not None else None
        if value is not None and not self._spread_out(value):
            return False
        if not self.rooms.fits(name, member):
            return False
        before = self.groups.get(name, ())
        members = tuple(sorted((*before, member), key=lambda item: (self.sort_of[item].index, item)))
        if self.gathering.on(name, self.reconciling.group(members), self.limits) is None or not self.rooms.together(
            name, members
        ):
            return False
        groups = {**self.groups, name: members}
        if self.reconciling.needed:
            spots = self.reconciling.reconcile(groups, self.limits)
            if spots is None:
                return False
            self.spots = spots
        self.groups = groups
        if value is not None:
            self.counts[value] += 1
        return True

    def _spread_out(self, value: str) -> bool:
        assert self.spreading is not None
        if self.counts[value] >= self.spreading.crowd:
            return False
        distinct = sum(1 for count in self.counts.values() if count) + (not self.counts[value])
        return distinct + len(self.order) - len(self.path) - 1 >= self.spreading.values

    def _back(self, member: int) -> int:
        """Give up choices; where to go on in the list of the member whose choice was given up last, -1: nowhere."""
        steps = 1
        if not self.reconciling.needed and self.spreading is None:
            sort = self.sort_of[member]
            steps = sum(1 for placed in self.order[: len(self.path)] if self.sort_of[placed] is sort) + 1
        cursor = -1
        for _ in range(steps):
            if not self.path:
                return -1
            at = self.path.pop()
            self._remove(self.order[len(self.path)], at)
            cursor = at + 1
        return cursor

    def _remove(self, member: int, at: int) -> None:
        name = self.lists[self.sort_of[member].index][at]
        rest = tuple(item for item in self.groups[name] if item != member)
        self.groups = {**self.groups, name: rest}
        if not rest:
            del self.groups[name]
        if self.spreading is not None and self.topology is not None:
            value = self.topology.value(name)
            if value is not None:
                self.counts[value] -= 1
