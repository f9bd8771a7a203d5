"""A table: what one plan can do with the devices of one view, as bit masks.

Worked out once for all nodes with that view. Devices that no way of the plan can use have no bit. Bits are in the order in which the
search tries devices: as published for FirstFit, otherwise without binding conditions first and the smallest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from dra_operator.allocator.counters import Counters
from dra_operator.allocator.counting import Counting, Shape
from dra_operator.allocator.inuse import InUse
from dra_operator.allocator.masks import Renumbering, bits_of, mask_of
from dra_operator.allocator.plan import Plan
from dra_operator.allocator.selection import Broken
from dra_operator.inventory.views import Shares, View

#: The value of a list attribute where the feature for them is off: there, but equal to nothing.
UNKNOWN = ("unknown list",)


@dataclass(slots=True)
class Column:
    """One way's part of a table.

    `usable`: may be taken as far as the device alone is concerned. `every`: what mode All has to take, usable or not;
    `lacking`: those of `every` that lack an attribute of a constraint.
    `broken`: bits of devices on which a selector, capacity request or derived attribute fails, with the error.
    `takes`: what a share of a shareable device consumes, per bit, in the order of the device's capacity names.
    `values`: per rule, the attribute's value per bit. `rejected`: for statistics, where the others of the node's own devices fell out,
    and under "seen" how many own ones there are; `abroad`: where devices that other nodes see as well did, by position.
    """

    usable: int = 0
    every: int = 0
    lacking: int = 0
    broken: dict[int, Broken] = field(default_factory=dict)
    takes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    values: dict[int, dict[int, Hashable]] = field(default_factory=dict)
    masks: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    rejected: Counter[object] = field(default_factory=Counter)
    abroad: dict[int, object] = field(default_factory=dict)


class Table:
    """`order[bit]` is the position in the view. `sets_of[rule]`: its values are sets (lists), not scalars."""

    __slots__ = (
        "answers",
        "as_published",
        "binding",
        "bit_at",
        "bits",
        "bounds",
        "classes",
        "columns",
        "counters",
        "counting",
        "future",
        "in_use",
        "limits",
        "local",
        "multi",
        "order",
        "own",
        "plain",
        "plan",
        "renumbering",
        "set_rules",
        "shapes",
        "shared",
        "sizes",
        "starts",
        "straight",
        "twins",
        "view",
    )  # fmt: skip

    def __init__(self, plan: Plan, view: View, as_published: bool = False) -> None:
        self.plan, self.view, self.as_published = plan, view, as_published
        self.columns: list[Column] = []
        self.order: tuple[int, ...] = ()
        #: All bits, the bits by position, and the positions of devices that only this node sees.
        self.bits = 0
        self.bit_at: dict[int, int] = {}
        self.own = 0
        self.classes: tuple[int, ...] = ()
        self.multi = 0
        self.binding = 0
        self.shared = 0
        self.limits: dict[int, tuple[int, ...]] = {}
        self.sizes: tuple[float, ...] = ()
        self.counters = Counters()
        self.set_rules: frozenset[int] = frozenset()
        #: Per requirement, the bits that it or a later one can use.
        self.future: tuple[int, ...] = ()
        #: No counters, no shares, no device of several nodes: a device is free or not, and the node alone knows.
        self.plain = True
        #: No device of several nodes, and no counters that devices of other nodes take from: the node alone knows what is left.
        self.local = True
        #: Bits are positions.
        self.straight = False
        #: Bits to positions, once asked for.
        self.renumbering: Renumbering | None = None
        #: What is in use of shared devices; None where the table has none.
        self.in_use: InUse | None = None
        self.starts: dict[tuple[int, Shares, int], object] = {}
        #: What others derive from the table: answers by start, shapes of expected demand by way and number of devices.
        self.answers: dict[object, object] = {}
        self.shapes: dict[tuple[int, int], Shape] = {}
        #: The one of the view, which its tables share.
        self.counting = Counting()
        self.bounds: object = None
        self.twins: object = None

    def own_bits(self, mask: int) -> int:
        """A mask of positions as a mask of bits, for devices that only this node sees."""
        mask &= self.own
        if not mask or self.straight:
            return mask
        return mask_of([self.bit_at[position] for position in bits_of(mask)], len(self.order))

    def alike_key(self, bit: int) -> Hashable:
        """All that the search looks at in a device but counters."""
        mask = 1 << bit
        columns = self.columns
        return (
            tuple(
                [(bool(column.usable & mask), bool(column.every & mask), bit in column.broken) for column in columns]
            ),
            tuple([_key(values.get(bit)) for column in columns for _, values in sorted(column.values.items())])
            if self.plan.rules
            else (),
            (self.limits[bit], tuple([column.takes[bit] for column in columns])) if self.multi & mask else None,
            bool(self.binding & mask),
            None if self.as_published else self.sizes[bit],
        )


def positions(table: Table, mask: int) -> int:
    """A mask of bits as a mask of positions."""
    if table.straight:
        return mask
    if table.renumbering is None:
        table.renumbering = Renumbering(table.order, len(table.view.offers))
    return table.renumbering.of(mask)


def _key(value: Hashable) -> Hashable:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
