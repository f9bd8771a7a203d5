"""Where a gang may go, in the order of preference: values of its match constraints, then values of the topology label.

What is tried there is `filling`. Complete within the work budget; a place is left at once where the devices, counted, are fewer than
the members need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from dra_operator.allocator.filling import Filling, Gathered, Lists, NodeTopology, Room, Rooms, Spreading
from dra_operator.allocator.gathering import Gathering, Limits, Sort
from dra_operator.allocator.memory import Known
from dra_operator.allocator.problem import Strategy
from dra_operator.allocator.reconciling import Reconciling
from dra_operator.allocator.search import Work
from dra_operator.api.claims import ResourceClaim
from dra_operator.inventory import Snapshot


class JointSearch:
    """One search. `most`: so many members were placed at once, at the best try."""

    def __init__(
        self,
        gathering: Gathering,
        claims: Sequence[tuple[ResourceClaim, ...]],
        follows: Sequence[tuple[tuple[int, int], ...]],
        topology: NodeTopology | None,
        room: Room | None,
        snapshot: Snapshot,
        work: Work,
    ) -> None:
        self.gathering, self.topology = gathering, topology
        self.sorts = gathering.sorts
        self.reconciling = Reconciling(gathering, claims, follows, snapshot, work)
        self.rooms = Rooms(self.reconciling.sort_of, room)
        self.most = 0
        #: Per match constraint, the nodes with devices of a value.
        self._offered: dict[int, dict[Hashable, frozenset[str]]] = {}

    def run(self) -> Gathered | None:
        """The first solution in the order of preference. Raises Stopped."""
        for limits in self._settled():
            lists = [self._candidates(sort, limits) for sort in self.sorts]
            if any(not names for names in lists):
                continue
            # Known once the tables are made.
            self.reconciling.shared = any(self._shares(sort) for sort in self.sorts)
            for found in self._in_topology(lists, limits):
                return found
        return None

    # -- values of match constraints -------------------------------------------------------------------------------

    def _settled(self) -> Iterator[Limits]:
        """Every choice of one value a match constraint, the scarcest that can be enough first."""
        gathering = self.gathering
        barred = tuple(
            frozenset().union(*gathering.values_of(number, link.present)) if link.distinct else frozenset()
            for number, link in enumerate(gathering.links)
        )
        limits = [Limits((None,) * len(gathering.links), barred)]
        for number, link in enumerate(gathering.links):
            if not link.distinct:
                options = self._options(number)
                limits = [
                    replace(item, values=(*item.values[:number], value, *item.values[number + 1 :]))
                    for item in limits
                    for value in options
                ]
        yield from limits

    def _options(self, link: int) -> list[Hashable | None]:
        gathering = self.gathering
        concerned = [sort for sort in self.sorts if sort.covered[link]]
        if not concerned:
            return [None]
        needed = sum(gathering.least(sort, link) * len(sort.members) for sort in concerned)
        # Devices that several nodes reach are counted once for each: an upper bound all the same.
        counts: Counter[Hashable] = Counter()
        offered: dict[Hashable, list[str]] = {}
        for name in gathering.inventory.node_names:
            here: Counter[Hashable] = Counter()
            for sort in concerned:
                here.update(value for values in gathering.offered(name, sort, link) for value in values)
            counts.update(here)
            for value in here:
                offered.setdefault(value, []).append(name)
        self._offered[link] = {value: frozenset(names) for value, names in offered.items()}
        present = gathering.values_of(link, gathering.links[link].present)
        values = [
            value for value, count in counts.items() if count >= needed and all(value in item for item in present)
        ]
        sign = -1 if gathering.strategy is Strategy.Spread else 1
        return sorted(values, key=lambda value: (sign * counts[value], repr(value)))

    # -- candidates ------------------------------------------------------------------------------------------------

    def _candidates(self, sort: Sort, limits: Limits) -> list[str]:
        """Nodes that have the devices for one member, best first. Whether it fits otherwise is asked when it matters."""
        problem, gathering = sort.problem, self.gathering
        first_fit = problem.strategy is Strategy.FirstFit
        found: list[tuple[tuple[object, ...], str]] = []
        for position, name in enumerate(self._names(sort, limits)):
            spot = gathering.on(name, (sort.index,), limits)
            if spot is None:
                continue
            if first_fit:
                found.append(((position,), name))
                continue
            cost = 0.0 if problem.cost is None else problem.cost(name)
            found.append(((spot.score.hard, cost, spot.score.soft, name), name))
        found.sort(key=lambda item: item[0])
        return [name for _, name in found]

    def _names(self, sort: Sort, limits: Limits) -> Sequence[str]:
        """The nodes worth a look, in the order given; that of their names, where none is."""
        nodes = sort.problem.nodes
        narrowed = [
            self._offered[link].get(value, frozenset())
            for link, value in enumerate(limits.values)
            if value is not None and self.gathering.least(sort, link)
        ]
        if not narrowed:
            return self.gathering.open_to(sort, limits) if nodes is None else nodes
        found = frozenset.intersection(*narrowed)
        return sorted(found) if nodes is None else [name for name in nodes if name in found]

    def _shares(self, sort: Sort) -> bool:
        known = self.gathering.known((sort.index,))
        return isinstance(known, Known) and bool(known.shared_pools)

    # -- topology --------------------------------------------------------------------------------------------------

    def _in_topology(self, lists: Lists, limits: Limits) -> Iterator[Gathered]:
        topology = self.topology
        if topology is None:
            yield from _one(self._fill(lists, limits))
            return
        if topology.mode == "Spread":
            yield from _one(self._spread(lists, limits, topology))
            return
        values = self._by_value(lists, topology)
        present = {value for value in topology.present if value is not None}
        ordered = [value for value in self._tightest_first(values) if value in present or not present]
        for value in ordered:
            yield from _one(self._fill(values[value], limits))
        if topology.mode == "Prefer":
            rank = {value: number for number, value in enumerate(reversed(self._tightest_first(values)))}
            order = {value: (value not in present, number) for value, number in rank.items()}
            yield from _one(
                self._fill(
                    [
                        sorted(names, key=lambda name: order.get(topology.value(name) or "", (True, len(rank))))
                        for names in lists
                    ],
                    limits,
                )
            )

    def _by_value(self, lists: Lists, topology: NodeTopology) -> dict[str, Lists]:
        found: dict[str, Lists] = {}
        for number, names in enumerate(lists):
            for name in names:
                value = topology.value(name)
                if value is not None:
                    found.setdefault(value, [[] for _ in lists])[number].append(name)
        return found

    def _tightest_first(self, values: dict[str, Lists]) -> list[str]:
        """The value with the least room that suffices keeps the others whole; with strategy Spread the one with the most."""
        room = {value: self._slots(lists) for value, lists in values.items()}
        if self.gathering.strategy is Strategy.FirstFit:
            return list(values)
        sign = -1 if self.gathering.strategy is Strategy.Spread else 1
        return sorted(values, key=lambda value: (sign * room[value], value))

    def _slots(self, lists: Lists) -> int:
        return sum(
            min(len(sort.members), self.gathering.slots(name, sort))
            for sort, names in zip(self.sorts, lists, strict=True)
            for name in names
        )

    def _spread(self, lists: Lists, limits: Limits, topology: NodeTopology) -> Gathered | None:
        """As many values as possible; then the fewest members under one value."""
        values = self._by_value(lists, topology)
        counts = Counter(value for value in topology.present if value is not None)
        lists = [self._in_layers(names, topology, counts) for names in lists]
        plain = self._fill(lists, limits)
        if plain is None:
            return None
        members = len(self.reconciling.sort_of)
        most = min(len(values.keys() | counts.keys()), len(counts) + members)
        for wanted in range(most, len(counts), -1):
            found = self._evenly(lists, limits, wanted, counts, values)
            if found is not None:
                return found
        return self._evenly(lists, limits, len(counts), counts, values) or plain

    def _evenly(
        self, lists: Lists, limits: Limits, wanted: int, counts: Counter[str], values: dict[str, Lists]
    ) -> Gathered | None:
        members = len(self.reconciling.sort_of)
        fullest = max(counts.values(), default=0)
        for crowd in range(1, fullest + members + 1):
            if sum(max(0, min(crowd - counts[value], members)) for value in values) >= members:
                found = self._fill(lists, limits, Spreading(wanted, crowd))
                if found is not None:
                    return found
        return None

    @staticmethod
    def _in_layers(names: list[str], topology: NodeTopology, counts: Counter[str]) -> list[str]:
        """The best node of each value, then the second best of each …; values with fewer members first."""
        seen: Counter[str] = Counter()
        keyed = []
        for position, name in enumerate(names):
            value = topology.value(name)
            if value is not None:
                keyed.append((counts[value] + seen[value], position, name))
                seen[value] += 1
        return [name for _, _, name in sorted(keyed)]

    # -- filling ---------------------------------------------------------------------------------------------------

    def _fill(self, lists: Lists, limits: Limits, spreading: Spreading | None = None) -> Gathered | None:
        """Place all members on nodes of the lists."""
        if not self._enough(lists):
            return None
        filling = Filling(self.reconciling, self.rooms, self.topology, lists, limits, spreading)
        found = filling.run()
        self.most = max(self.most, filling.most)
        return found

    def _enough(self, lists: Lists) -> bool:
        """Counted, are there devices for every sort?"""
        for sort, names in zip(self.sorts, lists, strict=True):
            slots, wanted = 0, len(sort.members)
            for name in names:
                slots += min(wanted, self.gathering.slots(name, sort))
                if slots >= wanted:
                    break
            if slots < wanted:
                self.most = max(self.most, slots if len(self.sorts) == 1 else 0)
                return False
        return True


def _one(found: Gathered | None) -> Iterator[Gathered]:
    if found is not None:
        yield found
