"""Scoring: which of a node's solutions is best, and how good it is against those of other nodes. Smaller is better.

The order of what counts is fixed: the preference in `firstAvailable`, devices without binding conditions, preferred constraints,
the strategy, devices no larger than needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dra_operator.allocator.demand import Expectations, Left, fitting
from dra_operator.allocator.problem import Strategy, UnitConstraint
from dra_operator.allocator.search import Choice
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table, positions
from dra_operator.inventory.kinds import attribute_of, typed


@dataclass(frozen=True, slots=True)
class Score:
    """`hard` comes before a node's cost, `soft` after it."""

    hard: tuple[int, tuple[int, ...], int]
    soft: tuple[float, float, float]


def best(
    table: Table,
    start: Start,
    choices: Sequence[Choice],
    strategy: Strategy,
    expected: Expectations,
    preferred: tuple[UnitConstraint, ...] = (),
) -> tuple[Choice, Score]:
    """The best of a node's solutions, the first of equals. `expected`: the demand that Fragmentation minds."""
    judge = _Judge(table, start, strategy, expected, preferred)
    scored = [(judge.score(choice), index) for index, choice in enumerate(choices)]
    score, index = min(scored, key=lambda item: (item[0].hard, item[0].soft, item[1]))
    return choices[index], score


class _Judge:
    def __init__(
        self,
        table: Table,
        start: Start,
        strategy: Strategy,
        expected: Expectations,
        preferred: tuple[UnitConstraint, ...],
    ) -> None:
        self.table, self.start, self.strategy = table, start, strategy
        self.expected, self.preferred = expected, preferred
        self.left: dict[int, tuple[int, ...]] = {table.order[bit]: amounts for bit, amounts in start.left}
        self.free = positions(table, start.free)
        self.before: float | None = None

    def score(self, choice: Choice) -> Score:
        table, sizes = self.table, self.table.sizes
        taken, waste = 0, 0.0
        for way, picked in choice:
            if not way.admin:
                for bit in picked:
                    taken |= 1 << bit
                    waste += sizes[bit]
        subs = tuple([way.sub for way, _ in choice])
        binding = (taken & table.binding).bit_count()
        prefer = 0.0
        if self.preferred:
            prefer = -sum(item.weight * satisfied(table, item, choice) for item in self.preferred)
        return Score((sum(subs), subs, binding), (prefer, self._strategic(choice, taken), waste))

    def _strategic(self, choice: Choice, taken: int) -> float:
        if self.strategy is Strategy.FirstFit:
            return 0.0
        table = self.table
        free, left = self.free & ~positions(table, taken & ~table.multi), self.left
        if taken & table.multi:
            left = self._left_after(choice)
        if self.strategy is Strategy.Fragmentation:
            if self.before is None:
                self.before = fitting(self.expected, self.free, self.left)
            return round(self.before - fitting(self.expected, free, left), 6)
        room = self._room(free, left)
        return room if self.strategy is Strategy.Pack else -room

    def _left_after(self, choice: Choice) -> dict[int, tuple[int, ...]]:
        """What is left of shareable devices after a choice."""
        table, left = self.table, dict(self.left)
        for way, bits in choice:
            if way.admin:
                continue
            for bit in bits:
                if table.multi >> bit & 1:
                    position = table.order[bit]
                    takes = table.columns[way.index].takes[bit]
                    have = left.get(position, table.limits[bit])
                    left[position] = tuple([amount - take for amount, take in zip(have, takes, strict=True)])
        return left

    def _room(self, free: int, left: Left) -> float:
        """Free devices of those the plan can use, shared ones by the fullest of their capacities."""
        table, room = self.table, 0.0
        for bit, position in enumerate(table.order):
            if not free >> position & 1:
                continue
            limits = table.limits.get(bit)
            if limits is None:
                room += 1.0
            else:
                have = left.get(position, limits)
                room += min((amount / limit for amount, limit in zip(have, limits, strict=True) if limit), default=1.0)
        return round(room, 6)


def satisfied(table: Table, constraint: UnitConstraint, choice: Choice) -> float:
    """How far a preferred constraint holds, from 0 to 1: the share of its devices that agree (or that differ, for distinct)."""
    values: list[Hashable] = []
    for way, bits in choice:
        request = way.name.partition("/")[0]
        if constraint.members and not {(way.claim, request), (way.claim, way.name)} & set(constraint.members):
            continue
        for bit in bits:
            offer = table.view.offers[table.order[bit]]
            found = (attribute_of(offer.device, offer.id.driver, name) for name in constraint.attributes)
            value = next((item for item in found if item is not None), None)
            values.append(None if value is None else typed(value))
    if len(values) < 2:
        return 1.0
    known = [value for value in values if value is not None]
    if constraint.distinct:
        return len(set(known)) / len(values)
    return max((known.count(value) for value in set(known)), default=0) / len(values)
