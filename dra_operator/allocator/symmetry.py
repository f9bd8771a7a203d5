"""Twins: sets of devices tied together by counters that are copies of each other, such as the partitions of equal GPUs.

Exchanging two twins that are in the same condition changes nothing, so of these, too, trying one is trying all, and what failed on one
arrangement of them has failed on all. Devices without counters are told apart by their class alone (`Table.classes`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from operator import itemgetter

from dra_operator.allocator.masks import Run, mask_of, runs_of
from dra_operator.allocator.table import Table


@dataclass(frozen=True, slots=True)
class Component:
    """Devices that share counters, directly or through others. `kind` numbers what twins have in common.

    A bit's place is its number within the component, the same for the corresponding bits of its twins; of corresponding bits those of
    the earlier twin come first. `runs`: places of consecutive bits.
    """

    kind: int
    bits: tuple[int, ...]
    mask: int
    counters: tuple[int, ...]
    sets: tuple[int, ...]
    runs: tuple[Run, ...]
    #: Of what is left of all counters, what is left of its own.
    left_of: Callable[[tuple[int, ...]], Hashable]

    def local(self, mask: int) -> int:
        """A mask of bits as a mask of places."""
        found = 0
        for place, ones, bit in self.runs:
            found |= (mask >> bit & ones) << place
        return found


class Twins:
    """The components of a table that have a twin."""

    def __init__(self, table: Table) -> None:
        found = components(table)
        counts: dict[int, int] = {}
        for component in found:
            counts[component.kind] = counts.get(component.kind, 0) + 1
        self.components = tuple(component for component in found if counts[component.kind] > 1)
        self.mask = 0
        for component in self.components:
            self.mask |= component.mask
        counters = {number for component in self.components for number in component.counters}
        sets = {number for component in self.components for number in component.sets}
        #: What is not of twins.
        self.other_counters = tuple(n for n in range(len(table.counters.total)) if n not in counters)
        self.other_sets = tuple(n for n in range(table.counters.sets) if n not in sets)

    def __bool__(self) -> bool:
        return bool(self.components)

    def conditions(
        self,
        mask: int,
        free: int,
        running: int,
        left: dict[int, tuple[int, ...]],
        counters: tuple[int, ...],
        groups: tuple[Hashable, ...],
    ) -> list[tuple[Component, Hashable]]:
        """The components with any of these bits, each with its state in terms that its twins have in common."""
        found: list[tuple[Component, Hashable]] = [
            (each, (each.kind, each.local(free), each.left_of(counters)))
            for each in self.components
            if each.mask & mask
        ]
        if not (running or left or groups):
            return found
        return [
            (
                each,
                (
                    common,
                    each.local(running),
                    tuple([left.get(bit) for bit in each.bits]),
                    tuple([groups[number] for number in each.sets]) if groups else None,
                ),
            )
            for each, common in found
        ]


def components(table: Table) -> list[Component]:
    """All sets of devices tied together by counters; twins have one `kind`."""
    drains = table.counters.drains
    if not drains:
        return []
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    by_bit: dict[int, tuple[int, ...]] = {}
    for bit, position in enumerate(table.order):
        numbers = tuple(number for number, _ in drains.get(position, ()))
        if not numbers:
            continue
        by_bit[bit] = numbers
        for number in numbers:
            parent.setdefault(number, number)
            parent[root(number)] = root(numbers[0])
    members: dict[int, list[int]] = {}
    for bit, numbers in by_bit.items():
        members.setdefault(root(numbers[0]), []).append(bit)
    class_of = {bit: index for index, mask in enumerate(table.classes) for bit in by_bit if mask >> bit & 1}
    kinds: dict[Hashable, int] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    found: list[Component] = []
    for bits in members.values():
        component = _component(table, tuple(sorted(bits)), class_of, kinds)
        earlier = shapes.setdefault(component.kind, component.bits)
        if any(a > b for a, b in zip(earlier, component.bits, strict=True)):
            # Corresponding bits come in another order: "the first of twins" would mean nothing.
            component = replace(component, kind=-1 - len(found))
        found.append(component)
    return found


def _component(table: Table, bits: tuple[int, ...], class_of: dict[int, int], kinds: dict[Hashable, int]) -> Component:
    """A component and its kind: everything about its devices but which counters they are."""
    counters: dict[int, int] = {}
    sets: dict[int, int] = {}
    shape: list[Hashable] = []
    local_classes: dict[int, int] = {}
    for bit in bits:
        position = table.order[bit]
        drained = tuple(
            (counters.setdefault(number, len(counters)), amount)
            for number, amount in table.counters.drains.get(position, ())
        )
        grouped = tuple(
            (sets.setdefault(number, len(sets)), names) for number, names in table.counters.groups.get(position, ())
        )
        local_class = local_classes.setdefault(class_of[bit], len(local_classes))
        shape.append((local_class, drained, grouped, table.alike_key(bit)))
    kind = kinds.setdefault(tuple(shape), len(kinds))
    mask = mask_of(bits, bits[-1] + 1)
    return Component(kind, bits, mask, tuple(counters), tuple(sets), runs_of(bits), itemgetter(*counters))
