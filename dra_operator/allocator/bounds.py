"""Bounds: can what is still asked for be there at all? Counting only, so a "no" is certain and a "yes" means nothing.

Relaxations of the rest of a plan: every request gets distinct devices (a flow between requests and classes of alike devices); each
request by itself finds enough counters; and every constraint has enough devices with one value, or enough different values.
Shareable devices serve any number of requests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dra_operator.allocator.symmetry import components
from dra_operator.allocator.table import Table


@dataclass(frozen=True, slots=True)
class Need:
    """What one requirement takes at the least: `count` devices out of `mask`, whichever way is chosen.

    `rules` are the constraints that hold on every way; `admin` if some way minds nobody's usage.
    """

    claim: int
    count: int
    mask: int
    rules: frozenset[int]
    admin: bool


class Bounds:
    """Of one table; asked again and again with what is free."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._needs = [self._need(number) for number in range(len(table.plan.requirements))]
        self._values: dict[int, dict[Hashable, int]] = {}
        for rule in range(len(table.plan.rules)):
            merged: dict[Hashable, int] = {}
            for column in table.columns:
                for value, mask in column.masks.get(rule, {}).items():
                    merged[value] = merged.get(value, 0) | mask
            self._values[rule] = merged
        self._components = components(table)
        drains = table.counters.drains
        self._drains = {table.bit_at[at]: dict(amounts) for at, amounts in drains.items() if at in table.bit_at}
        self._tied = 0
        for component in self._components:
            self._tied |= component.mask

    def possible(self, at: int, free: int, bound: Sequence[Hashable], counters: Sequence[int]) -> bool:
        """May requirements `at` and later still be satisfied? `bound`: what the values chosen so far leave open, by rule."""
        needs = self._needs[at:]
        for need in needs:
            mask = need.mask if need.admin else need.mask & free
            if need.count > mask.bit_count():
                return False
            if not need.admin and not self.enough(mask, need.count, counters):
                return False
        return self._devices(needs, free) and all(
            self._rule(rule, needs, free, bound[rule]) for rule in range(len(bound))
        )

    def enough(self, mask: int, count: int, counters: Sequence[int]) -> bool:
        """May `count` of these devices be taken together, as far as their counters go?"""
        return not mask & self._tied or count <= self._within_counters(mask, counters)

    def _need(self, number: int) -> Need:
        requirement = self.table.plan.requirements[number]
        columns = self.table.columns
        masks = [columns[way.index].every if way.all else columns[way.index].usable for way in requirement.ways]
        counts = [
            max(mask.bit_count(), 1) if way.all else max(way.count, 0)
            for way, mask in zip(requirement.ways, masks, strict=True)
        ]
        union = 0
        for mask in masks:
            union |= mask
        rules = frozenset.intersection(*(frozenset(way.constraints) for way in requirement.ways))
        return Need(requirement.claim, min(counts), union, rules, any(way.admin for way in requirement.ways))

    def _within_counters(self, mask: int, counters: Sequence[int]) -> int:
        """At most so many of these devices can be taken together: as many as fit when only the smallest are, counter by counter and
        by all counters together, each weighed by how little of it is left (a surrogate constraint)."""
        table = self.table
        most = (mask & ~self._tied).bit_count()
        for component in self._components:
            bits = [bit for bit in component.bits if mask >> bit & 1]
            if not bits:
                continue
            fitting = len(bits)
            if not component.mask & table.multi:
                drains = [self._drains[bit] for bit in bits]
                for number in component.counters:
                    fitting = min(fitting, _fitting([drain.get(number, 0) for drain in drains], counters[number]))
                weights = {number: _WEIGHT // counters[number] for number in component.counters if counters[number] > 0}
                if len(weights) > 1:
                    together = [
                        sum([weights.get(number, 0) * amount for number, amount in drain.items()]) for drain in drains
                    ]
                    room = sum(weight * counters[number] for number, weight in weights.items())
                    fitting = min(fitting, _fitting(together, room))
            most += fitting
        return most

    def _devices(self, needs: Sequence[Need], free: int) -> bool:
        """Distinct devices for all requests, constraints aside."""
        multi = self.table.multi
        demands = [need for need in needs if not need.admin and not need.mask & free & multi]
        if len(demands) < 2:
            return True
        supply = [(members & free).bit_count() for members in self.table.classes]
        edges = [
            [index for index, members in enumerate(self.table.classes) if members & need.mask and supply[index]]
            for need in demands
        ]
        return _covers([need.count for need in demands], supply, edges)

    def _rule(self, rule: int, needs: Sequence[Need], free: int, bound: Hashable) -> bool:
        covered = [need for need in needs if rule in need.rules and not need.admin]
        total = sum(need.count for need in covered)
        union = 0
        for need in covered:
            union |= need.mask & free
        if not total or union & self.table.multi:
            return True
        values = self._values[rule]
        if self.table.plan.rules[rule].distinct:
            return self._different(rule, covered, total, union, values, bound)
        if isinstance(bound, frozenset) and rule in self.table.set_rules:
            open_values = [values.get(item, 0) for item in bound]
        elif bound is not None:
            open_values = [values.get(bound, 0)]
        else:
            open_values = list(values.values())
        return any(
            (union & mask).bit_count() >= total
            and all((need.mask & free & mask).bit_count() >= need.count for need in covered)
            for mask in open_values
        )

    def _different(
        self,
        rule: int,
        covered: Sequence[Need],
        total: int,
        union: int,
        values: Mapping[Hashable, int],
        bound: Hashable,
    ) -> bool:
        used = bound if isinstance(bound, frozenset) else frozenset()
        left = [mask & union for value, mask in values.items() if value not in used and mask & union]
        if len(left) < total:
            return False
        if rule in self.table.set_rules or len(covered) < 2:
            return True
        edges = [[index for index, mask in enumerate(left) if mask & need.mask] for need in covered]
        return _covers([need.count for need in covered], [1] * len(left), edges)


#: Weights are whole numbers, so that a "no" is certain: this over what is left, which is in 10^-9.
_WEIGHT = 10**30


def _fitting(amounts: list[int], room: int) -> int:
    """How many of the amounts fit at most: the smallest ones. What takes nothing fits where there is less than nothing, too."""
    amounts.sort()
    count = 0
    for amount in amounts:
        room -= amount
        if room < 0 and amount:
            break
        count += 1
    return count


def _covers(demand: Sequence[int], supply: Sequence[int], edges: Sequence[Sequence[int]]) -> bool:
    """Can every demand be met in full from what it has an edge to? Maximum flow by augmenting paths."""
    left = list(supply)
    given: list[dict[int, int]] = [{} for _ in demand]
    for taker, amount in enumerate(demand):
        for _ in range(amount):
            if not _augment(taker, left, given, edges, set()):
                return False
    return True


def _augment(
    taker: int, left: list[int], given: list[dict[int, int]], edges: Sequence[Sequence[int]], seen: set[int]
) -> bool:
    """One unit more for `taker`, moving others to other supplies where need be."""
    for source in edges[taker]:
        if source in seen:
            continue
        seen.add(source)
        if left[source]:
            left[source] -= 1
            given[taker][source] = given[taker].get(source, 0) + 1
            return True
        for other, taken in enumerate(given):
            if taken.get(source) and _augment(other, left, given, edges, seen):
                taken[source] -= 1
                given[taker][source] = given[taker].get(source, 0) + 1
                return True
    return False
