"""Scoring: which of a node's solutions is best, and how good it is against those of other nodes. Smaller is better.

The order of what counts is fixed: the preference in `firstAvailable`, devices without binding conditions, preferred constraints,
the strategy, devices no larger than needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from dra_operator.allocator.connecting import connected, covers, values_of
from dra_operator.allocator.counting import Left, Stock
from dra_operator.allocator.demand import Expectations, Supply, fitting
from dra_operator.allocator.problem import Strategy, UnitConstraint
from dra_operator.allocator.search import Choice
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table, positions


class Score(NamedTuple):
    """`hard` comes before a node's cost, `soft` after it."""

    hard: tuple[int, tuple[int, ...], int]
    soft: tuple[float, float, float]


class Condition:
    """What the devices of a node are like before or after a choice. `free`: positions; `left`: of shareable devices.

    The tables handed over are the one it was made for: to keep it would make a circle of all that is remembered.
    """

    __slots__ = ("_devices", "_stock", "free", "left")

    def __init__(self, free: int, left: Left) -> None:
        self.free, self.left = free, left
        self._stock: Stock | None = None
        self._devices: float | None = None

    def stock(self, table: Table) -> Stock:
        """What claims of any plan find there, with the counts of all shapes."""
        if self._stock is None:
            self._stock = table.counting.stock(self.free, self.left)
        return table.counting.counted(self._stock)

    def devices(self, table: Table) -> float:
        """Free devices of those the plan can use, shared ones by the fullest of their capacities."""
        if self._devices is None:
            self._devices = self._count_devices(table)
        return self._devices

    def supply(self, table: Table, expected: Expectations) -> Supply:
        stock = self.stock(table)
        return Supply(tuple([part.serving(stock) for part in expected]), self.devices(table))

    def after(self, table: Table, choice: Choice, taken: int) -> Condition:
        """The condition once a choice, which is these bits, has been allocated."""
        left = self._left_after(table, choice) if taken & table.multi else self.left
        return Condition(self.free & ~positions(table, taken & ~table.multi), left)

    def _left_after(self, table: Table, choice: Choice) -> Left:
        left = dict(self.left)
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

    def _count_devices(self, table: Table) -> float:
        found = 0.0
        for bit, position in enumerate(table.order):
            if not self.free >> position & 1:
                continue
            limits = table.limits.get(bit)
            if limits is None:
                found += 1.0
            else:
                have = self.left.get(position, limits)
                # What others wrote may exceed the capacity, by any number.
                found += min(
                    (max(amount, 0) / limit for amount, limit in zip(have, limits, strict=True) if limit), default=1.0
                )
        return round(found, 6)


class Option(NamedTuple):
    """A choice, what it means whatever the strategy minds, and what it leaves."""

    choice: Choice
    hard: tuple[int, tuple[int, ...], int]
    prefer: float
    waste: float
    after: Condition


class Options(NamedTuple):
    """The solutions from one start, and what that is like: worked out once, and judged anew as expectations change."""

    before: Condition
    options: tuple[Option, ...]


def options_of(
    table: Table, start: Start, choices: Sequence[Choice], preferred: tuple[UnitConstraint, ...] = ()
) -> Options:
    """The choices, and better connected ones where `preferred` asks for them."""
    left = {table.order[bit]: amounts for bit, amounts in start.left}
    before = Condition(positions(table, start.free), left)
    compared = list(choices)
    if preferred:
        compared += [better for choice in choices for better in connected(table, start, choice, preferred)]
    return Options(before, tuple([_option(table, start, before, choice, preferred) for choice in compared]))


def best(table: Table, options: Options, strategy: Strategy, expected: Expectations) -> tuple[Option, Score]:
    """The best of a node's solutions, the first of equals. `expected`: the demand that Fragmentation minds."""
    before = fitting(expected, options.before.stock(table)) if strategy is Strategy.Fragmentation else 0.0
    found: tuple[Option, Score] | None = None
    for option in options.options:
        strategic = 0.0
        if strategy is Strategy.Fragmentation:
            strategic = round(before - fitting(expected, option.after.stock(table)), 6)
        elif strategy is Strategy.Pack:
            strategic = option.after.devices(table)
        elif strategy is Strategy.Spread:
            strategic = -option.after.devices(table)
        score = Score(option.hard, (option.prefer, strategic, option.waste))
        if found is None or score < found[1]:
            found = option, score
    assert found is not None
    return found


def _option(
    table: Table, start: Start, before: Condition, choice: Choice, preferred: tuple[UnitConstraint, ...]
) -> Option:
    taken, waste = 0, 0.0
    for way, picked in choice:
        if not way.admin:
            for bit in picked:
                taken |= 1 << bit
                waste += table.sizes[bit]
    subs = tuple([way.sub for way, _ in choice])
    binding = (taken & table.binding).bit_count()
    prefer = 0.0
    if preferred:
        prefer = -sum(item.weight * satisfied(table, item, choice) for item in preferred)
        # Between equals, the group that has the least left: larger ones stay whole.
        waste += _LITTLE * sum(_left_with(table, start, item, choice, taken) for item in preferred)
    return Option(choice, (sum(subs), subs, binding), prefer, waste, before.after(table, choice, taken))


def _left_with(table: Table, start: Start, constraint: UnitConstraint, choice: Choice, taken: int) -> int:
    """Free devices that have the value most of the constraint's devices have."""
    values = shared_values(table, constraint, choice)
    usable = 0
    for way, _ in choice:
        if covers(constraint, way):
            usable |= table.columns[way.index].usable
    free = start.free & ~taken & usable
    return sum(1 for bit in range(len(table.order)) if free >> bit & 1 and values & values_of(table, constraint, bit))


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
