"""Shared counters and compatibility groups of the devices of one view, numbered so that the search can keep them in tuples.

What is left of them on a node is `start`; what taking a device does to that is `position`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dra_operator.allocator.masks import mask_of
from dra_operator.inventory.features import Features
from dra_operator.inventory.views import View


@dataclass(frozen=True, slots=True)
class Counters:
    """The shared counters that matter to a table. `total` in 10^-9; `drains`: what each position of the view takes of them.

    `sets` and `groups` do the same for the counter sets and their compatibility groups (KEP-5963).
    """

    total: tuple[int, ...] = ()
    drains: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    sections: tuple[int, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    sets: int = 0
    set_names: tuple[tuple[int, str], ...] = ()
    groups: dict[int, tuple[tuple[int, frozenset[str]], ...]] = field(default_factory=dict)
    #: Positions with drains: of the node's own devices, as a mask, and of those that several nodes see.
    own: int = 0
    shared: tuple[int, ...] = ()
    #: Sections that may have devices which this node does not see.
    abroad: tuple[int, ...] = ()


def make_counters(view: View, relevant: set[int], features: Features) -> Counters:
    """Number the counters that the devices at `relevant` positions take from."""
    if not features.partitionable_devices or not any(kind.device.consumes for kind in view.kinds):
        return Counters()
    numbers: dict[tuple[int, str, str], int] = {}
    sets: dict[tuple[int, str], int] = {}
    section_of: dict[int, int] = {}
    for index, section in enumerate(view.sections):
        for position in range(section.start, section.stop):
            section_of[position] = index
            if position in relevant:
                for use in view.kinds[position].device.consumes:
                    sets.setdefault((index, use.counter_set), len(sets))
                    for name in sorted(use.counters):
                        numbers.setdefault((index, use.counter_set, name), len(numbers))
    if not sets:
        return Counters()
    drains: dict[int, tuple[tuple[int, int], ...]] = {}
    groups: dict[int, tuple[tuple[int, frozenset[str]], ...]] = {}
    for position, index in section_of.items():
        consumes = view.kinds[position].device.consumes
        found = tuple(
            (numbers[index, use.counter_set, name], amount.nano)
            for use in consumes
            for name, amount in sorted(use.counters.items())
            if (index, use.counter_set, name) in numbers
        )
        if found:
            drains[position] = found
        if features.compatibility_groups:
            member = tuple(
                (sets[index, use.counter_set], frozenset(use.compatibility_groups))
                for use in consumes
                if (index, use.counter_set) in sets
            )
            if member:
                groups[position] = member
    totals = [{item.name: item.counters for item in section.pool.content.counter_sets} for section in view.sections]
    shared = tuple(position for position in drains if view.offers[position].home is None)
    sections = tuple(index for index, _, _ in numbers)
    return Counters(
        total=tuple(totals[index][counter_set][name].nano for index, counter_set, name in numbers),
        drains=drains,
        sections=sections,
        names=tuple((counter_set, name) for _, counter_set, name in numbers),
        sets=len(sets) if features.compatibility_groups else 0,
        set_names=tuple(sets),
        groups=groups,
        own=mask_of(drains.keys() - set(shared), len(view.offers)),
        shared=shared,
        abroad=tuple(index for index in dict.fromkeys(sections) if not view.sections[index].local),
    )
