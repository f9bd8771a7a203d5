"""Scoring: which of a node's solutions is best, and how good it is against those of other nodes. Smaller is better.

The order of what counts is fixed: the preference in `firstAvailable`, devices without binding conditions, preferred constraints,
the strategy, devices no larger than needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dra_operator.allocator.connecting import connected, covers, values_of
from dra_operator.allocator.demand import Expectations, Left, Serving, fitting
from dra_operator.allocator.problem import Strategy, UnitConstraint
from dra_operator.allocator.search import Choice
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table, positions


@dataclass(frozen=True, slots=True)
class Score:
    """`hard` comes before a node's cost, `soft` after it."""

    hard: tuple[int, tuple[int, ...], int]
    soft: tuple[float, float, float]


class Supply(NamedTuple):
    """What free devices serve of what is expected. `devices`: how many there are like those a plan asks for, shared ones by the fullest
    of their capacities."""

    servings: tuple[Serving, ...]
    devices: float


def supplies(table: Table, start: Start, choice: Choice, expected: Expectations) -> tuple[Supply, Supply]:
    """Before a choice, and after it."""
    judge = _Judge(table, start, Strategy.Pack, (), ())
    taken = 0
    for way, picked in choice:
        if not way.admin:
            for bit in picked:
                taken |= 1 << bit

    def supply(free: int, left: Left) -> Supply:
        return Supply(tuple([part.serving(free, left) for part in expected]), judge.room(free, left))

    return supply(judge.free, judge.left), supply(*judge.after(choice, taken))


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
    compared = list(choices)
    if preferred:
        compared += [better for choice in choices for better in connected(table, start, choice, preferred)]
    scored = [(judge.score(choice), index) for index, choice in enumerate(compared)]
    score, index = min(scored, key=lambda item: (item[0].hard, item[0].soft, item[1]))
    return compared[index], score


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
            # Between equals, the group that has the least left: larger ones stay whole.
            waste += _LITTLE * sum(self._left_with(item, choice, taken) for item in self.preferred)
        return Score((sum(subs), subs, binding), (prefer, self._strategic(choice, taken), waste))

    def _left_with(self, constraint: UnitConstraint, choice: Choice, taken: int) -> int:
        """Free devices that have the value most of the constraint's devices have."""
        table = self.table
        values = shared_values(table, constraint, choice)
        usable = 0
        for way, _ in choice:
            if covers(constraint, way):
                usable |= table.columns[way.index].usable
        free = self.start.free & ~taken & usable
        return sum(
            1 for bit in range(len(table.order)) if free >> bit & 1 and values & values_of(table, constraint, bit)
        )

    def _strategic(self, choice: Choice, taken: int) -> float:
        if self.strategy is Strategy.FirstFit:
            return 0.0
        free, left = self.after(choice, taken)
        if self.strategy is Strategy.Fragmentation:
            if self.before is None:
                self.before = fitting(self.expected, self.free, self.left)
            return round(self.before - fitting(self.expected, free, left), 6)
        room = self.room(free, left)
        return room if self.strategy is Strategy.Pack else -room

    def after(self, choice: Choice, taken: int) -> tuple[int, Left]:
        """What is free, and what is left of shareable devices, after a choice."""
        table = self.table
        left = self._left_after(choice) if taken & table.multi else self.left
        return self.free & ~positions(table, taken & ~table.multi), left

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

    def room(self, free: int, left: Left) -> float:
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
                # What others wrote may exceed the capacity, by any number.
                room += min(
                    (max(amount, 0) / limit for amount, limit in zip(have, limits, strict=True) if limit), default=1.0
                )
        return round(room, 6)


def satisfied(table: Table, constraint: UnitConstraint, choice: Choice) -> float:
    """How far a preferred constraint holds, from 0 to 1: the share of its devices that agree (or that differ, for distinct)."""
    values = _values(table, constraint, choice)
    if len(values) < 2:
        return 1.0
    counts = Counter(value for found in values for value in found)
    if constraint.distinct:
        return min(len(counts), len(values)) / len(values)
    return max(counts.values(), default=0) / len(values)


def shared_values(table: Table, constraint: UnitConstraint, choice: Choice) -> frozenset[Hashable]:
    """The values that most of the constraint's devices have; none for distinct."""
    counts = Counter(value for found in _values(table, constraint, choice) for value in found)
    most = 0 if constraint.distinct else max(counts.values(), default=0)
    return frozenset(value for value, count in counts.items() if count == most)


def _values(table: Table, constraint: UnitConstraint, choice: Choice) -> list[frozenset[Hashable]]:
    return [values_of(table, constraint, bit) for way, bits in choice if covers(constraint, way) for bit in bits]


#: Less than any difference in size that matters.
_LITTLE = 1e-6
