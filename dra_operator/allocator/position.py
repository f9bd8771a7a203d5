"""Positions of a search, and how taking one device leads from one to the next.

A position holds what has been decided as far as it matters to what has not; it never changes. Here are the rules of sharing, counters
and constraints; which device to try is `picking`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from dra_operator.allocator.plan import Way
from dra_operator.allocator.start import Groups, Start, admits, joined
from dra_operator.allocator.table import UNKNOWN, Table


class Position(NamedTuple):
    """Everything later choices depend on.

    `mine`: bits the current claim has; `results`: how many it has so far. `bound`: per rule, what the values so far leave open
    (None = nothing chosen yet).
    """

    free: int
    mine: int
    results: int
    bound: tuple[Hashable, ...]
    running: int
    left: tuple[tuple[int, ...], ...]
    counters: tuple[int, ...]
    groups: Groups


def first_position(start: Start, rules: int) -> Position:
    """Nothing taken yet."""
    left = tuple(amounts for _, amounts in start.left)
    return Position(start.free, 0, 0, (None,) * rules, start.running, left, start.counters, start.groups)


class Taking:
    """Of one table. `slots`: where `Position.left` has what is left of a shareable device, by bit."""

    def __init__(self, table: Table, start: Start) -> None:
        self._table, self._columns = table, table.columns
        self.slots = {bit: slot for slot, (bit, _) in enumerate(start.left)}

    def may_take(self, way: Way, mask: int, position: Position) -> bool:
        """Is a device free to this way, as far as who has it is concerned?"""
        if position.mine & mask:
            return False
        return way.admin or bool(position.free & mask)

    def after(self, way: Way, bit: int, position: Position) -> Position | None:
        """The position after taking a device, or None if counters, capacity or a constraint forbid it."""
        free, mine, results, bound, running, left, counters, groups = position
        mask = 1 << bit
        table = self._table
        shared = bool(table.multi & mask)
        if not way.admin:
            charged = True
            if shared:
                slot = self.slots[bit]
                rest = tuple(
                    have - take for have, take in zip(left[slot], self._columns[way.index].takes[bit], strict=True)
                )
                if any(amount < 0 for amount in rest):
                    return None
                left = (*left[:slot], rest, *left[slot + 1 :])
                # The counters of a shared device are taken once, by whoever comes first.
                charged = not running & mask
                running |= mask
            else:
                free &= ~mask
            if charged and counters:
                drained = self.drained(bit, counters, groups)
                if drained is None:
                    return None
                counters, groups = drained
        if not shared:
            mine |= mask
        if way.constraints:
            narrowed = self.bound_after(way, bit, bound)
            if narrowed is None:
                return None
            bound = narrowed
        return Position(free, mine, results + 1, bound, running, left, counters, groups)

    def drained(self, bit: int, counters: tuple[int, ...], groups: Groups) -> tuple[tuple[int, ...], Groups] | None:
        """What is left of the counters after a device, and the groups of their users; None if it is too little, or they do not go
        together."""
        at = self._table.order[bit]
        numbers = self._table.counters
        members = numbers.groups.get(at)
        if members:
            joint = list(groups)
            for number, names in members:
                if not admits(joint[number], names):
                    return None
                joint[number] = joined(joint[number], names)
            groups = tuple(joint)
        drains = numbers.drains.get(at)
        if drains:
            rest = list(counters)
            for number, amount in drains:
                rest[number] -= amount
                if amount > 0 and rest[number] < 0:
                    return None
            counters = tuple(rest)
        return counters, groups

    def bound_after(self, way: Way, bit: int, bound: tuple[Hashable, ...]) -> tuple[Hashable, ...] | None:
        """What the constraints leave open after a device; None if one forbids it."""
        narrowed = list(bound)
        for rule in way.constraints:
            value = self._columns[way.index].values[rule][bit]
            after = self._narrow(rule, narrowed[rule], value)
            if after is None:
                return None
            narrowed[rule] = after
        return tuple(narrowed)

    def _narrow(self, rule: int, bound: Hashable, value: Hashable) -> Hashable | None:
        """What a rule leaves open after one more value; None if the value breaks it."""
        if self._table.plan.rules[rule].distinct:
            values = value if isinstance(value, frozenset) else frozenset((value,))
            used = bound if isinstance(bound, frozenset) else frozenset()
            return None if used & values else used | values
        if bound is None:
            return value
        if rule in self._table.set_rules:
            assert isinstance(bound, frozenset)
            assert isinstance(value, frozenset)
            return bound & value or None
        return bound if bound == value != UNKNOWN else None
