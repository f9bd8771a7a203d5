"""A table: what one plan can do with the devices of one view, as bit masks.

Worked out once for all nodes with that view. Devices that no way of the plan can use have no bit. Bits are in the order in which the
search tries devices: as published for FirstFit, otherwise without binding conditions first and the smallest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import log2

from dra_operator.allocator.capacity import CapacityError, consumption
from dra_operator.allocator.counters import Counters, make_counters
from dra_operator.allocator.masks import Renumbering
from dra_operator.allocator.plan import Plan, Rule, Way
from dra_operator.allocator.selection import Broken, Rejected, Selectors
from dra_operator.api.taints import untolerated
from dra_operator.cel import CompileError, EvaluationError
from dra_operator.inventory.features import Features
from dra_operator.inventory.identity import DeviceId
from dra_operator.inventory.kinds import Kind, attribute_of, typed
from dra_operator.inventory.views import View

#: The value of a list attribute where the feature for them is off: there, but equal to nothing.
UNKNOWN = ("unknown list",)


@dataclass(slots=True)
class Column:
    """One way's part of a table.

    `usable`: may be taken as far as the device alone is concerned. `every`: what mode All has to take, usable or not;
    `lacking`: those of `every` that lack an attribute of a constraint.
    `broken`: bits of devices on which a selector, capacity request or derived attribute fails, with the error.
    `takes`: what a share consumes, per bit, in the order of the device's capacity names.
    `values`: per rule, the attribute's value per bit. `rejected`: where the other devices fell out, for statistics.
    """

    usable: int = 0
    every: int = 0
    lacking: int = 0
    broken: dict[int, Broken] = field(default_factory=dict)
    takes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    values: dict[int, dict[int, Hashable]] = field(default_factory=dict)
    masks: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    rejected: Counter[object] = field(default_factory=Counter)


class Table:
    """`order[bit]` is the position in the view. `sets_of[rule]`: its values are sets (lists), not scalars."""

    __slots__ = (
        "answers",
        "as_published",
        "binding",
        "bounds",
        "classes",
        "columns",
        "counters",
        "future",
        "limits",
        "multi",
        "order",
        "plain",
        "plan",
        "renumbering",
        "set_rules",
        "shapes",
        "shared",
        "shared_bits",
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
        #: Bits are positions.
        self.straight = False
        #: Bits to positions, and the bits of shared devices, once asked for.
        self.renumbering: Renumbering | None = None
        self.shared_bits: dict[DeviceId, int] | None = None
        self.starts: dict[tuple[int, int], object] = {}
        #: What others derive from the table: answers by start, shapes of expected demand.
        self.answers: dict[object, object] = {}
        self.shapes: dict[object, object] = {}
        self.bounds: object = None
        self.twins: object = None

    def alike_key(self, bit: int) -> Hashable:
        """All that the search looks at in a device but counters."""
        mask = 1 << bit
        columns = self.columns
        return (
            tuple(
                [(bool(column.usable & mask), bool(column.every & mask), bit in column.broken) for column in columns]
            ),
            tuple([_key(values.get(bit)) for column in columns for _, values in sorted(column.values.items())]),
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


@dataclass(slots=True)
class _Cell:
    """One way's verdict on one position."""

    selected: bool = False
    usable: bool = False
    every: bool = False
    lacking: bool = False
    broken: Broken | None = None
    takes: tuple[int, ...] = ()
    values: dict[int, Hashable] = field(default_factory=dict)


def make_table(plan: Plan, view: View, features: Features, selectors: Selectors, as_published: bool) -> Table:
    """The table of a plan on a view. `as_published`: bits in the order of the slices."""
    return _Builder(plan, view, features, selectors, as_published).build()


class _Builder:
    def __init__(self, plan: Plan, view: View, features: Features, selectors: Selectors, as_published: bool) -> None:
        self.plan, self.view, self.features, self.selectors = plan, view, features, selectors
        self.as_published = as_published
        self.table = Table(plan, view, as_published)
        #: Per way the first one that asks for the same: they share a column.
        self.first = _first_alike(plan)
        self.distinct = [way for way in plan.ways if self.first[way.index] == way.index]
        self.rejected = {way.index: Counter[object]() for way in self.distinct}
        self._cells: dict[tuple[int, Kind], tuple[_Cell, object]] = {}
        self._sizes: dict[Kind, float] = {}

    def build(self) -> Table:
        table, plan = self.table, self.plan
        cells: dict[int, list[_Cell]] = {}
        for position in range(len(self.view.kinds)):
            row = [self._cell(way, position) for way in self.distinct]
            for cell in row:
                if cell.usable or cell.every or cell.broken:
                    cells[position] = row
                    break
        sizes = {position: self._size(self.view.kinds[position]) for position in cells}
        order = list(cells)
        if not self.as_published:
            order.sort(key=lambda at: (bool(self.view.kinds[at].device.binding_conditions), sizes[at], at))
        table.order = tuple(order)
        table.sizes = tuple(sizes[position] for position in order)
        columns = {way.index: Column(rejected=self.rejected[way.index]) for way in self.distinct}
        table.columns = list(columns.values())
        for bit, position in enumerate(order):
            self._fill(bit, position, cells[position])
        if plan.rules:
            self._values()
        table.counters = make_counters(self.view, set(order), self.features)
        self._symmetry()
        table.columns = [columns[self.first[way.index]] for way in plan.ways]
        future, later = [], 0
        for requirement in reversed(plan.requirements):
            for way in requirement.ways:
                later |= table.columns[way.index].usable | table.columns[way.index].every
            future.append(later)
        table.future = (*reversed(future), 0)
        table.plain = not (table.multi or table.counters.total or table.counters.groups or table.shared)
        table.straight = table.order == tuple(range(len(order)))
        return table

    # -- one device for one way ------------------------------------------------------------------------------------

    def _cell(self, way: Way, position: int) -> _Cell:
        kind = self.view.kinds[position]
        known = self._cells.get((way.index, kind))
        if known is None:
            known = self._cells[way.index, kind] = self._judge(way, kind)
        cell, reason = known
        count = self.rejected[way.index]
        count["seen"] += 1
        if reason is not None:
            count[reason] += 1
            return cell
        if not way.constraints:
            return cell
        # Values differ between devices of one kind.
        cell = _Cell(every=cell.every, takes=cell.takes)
        for number in way.constraints:
            value = self._value(self.plan.rules[number], way, position)
            if isinstance(value, Broken):
                count["broken"] += 1
                cell.broken = value
                return cell
            if value is None:
                count["constraint"] += 1
                cell.lacking = True
                return cell
            cell.values[number] = value
        cell.usable = True
        return cell

    def _judge(self, way: Way, kind: Kind) -> tuple[_Cell, object]:
        """What a way says to all devices of a kind, and why it rejects them (None: it does not)."""
        features = self.features
        if kind.device.binding_conditions and not features.device_binding_and_status:
            return _Cell(), "unsupported"
        outcome = way.filter.outcome(kind)
        if isinstance(outcome, Rejected):
            return _Cell(), outcome
        if isinstance(outcome, Broken):
            return _Cell(broken=outcome), "broken"
        takes: tuple[int, ...] = ()
        if features.consumable_capacity:
            try:
                taken = consumption(way.detail.capacity, kind.device, features.fractional_capacity_range)
            except CapacityError as error:
                return _Cell(broken=Broken(False, -1, str(error))), "broken"
            if taken is None:
                return _Cell(), "capacity"
            takes = tuple(taken[name].nano for name, _ in kind.sizes)
        cell = _Cell(every=way.all, takes=takes)
        if kind.skips_node and not (features.optional_node_operations and self.view.skips_allowed):
            return cell, "unsupported"
        if kind.device.consumes and not features.partitionable_devices:
            return cell, "unsupported"
        if features.device_taints and kind.taints and untolerated(kind.taints, way.detail.tolerations) is not None:
            return cell, "tainted"
        cell.usable = True
        return cell, None

    def _value(self, rule: Rule, way: Way, position: int) -> Hashable | Broken | None:
        """The value a constraint compares: None without the attribute; with list attributes on always a set.

        Constraints across claims are ours and not the API's: for them a list is a list whether the feature is on or not.
        """
        lists = self.features.list_type_attributes or rule.claim is None
        offer, kind = self.view.offers[position], self.view.kinds[position]
        expression = way.derived.get(rule.attributes[0])
        if expression is not None:
            try:
                found = self.selectors.value(expression, kind)
            except (CompileError, EvaluationError) as error:
                return Broken(False, -1, f"derived attribute {rule.attributes[0]}: {error}")
        else:
            found = None
            for name in rule.attributes:
                found = attribute_of(offer.device, kind.driver, name)
                if found is not None:
                    break
        if found is None:
            return None
        if not isinstance(found, tuple):
            return frozenset((typed(found),)) if lists else typed(found)
        if not lists:
            return UNKNOWN
        return frozenset(map(typed, found)) or None

    def _size(self, kind: Kind) -> float:
        """How much device this is, to give the smallest that suffices: capacities and the numbers the selectors read."""
        known = self._sizes.get(kind)
        if known is not None:
            return known
        total = 0.0
        for _, amount in kind.sizes:
            total += _magnitude(amount)
        for domain, name in self.plan.reads or ():
            if name is None:
                continue
            value = attribute_of(kind.device, kind.driver, f"{domain}/{name}")
            if type(value) is int:
                total += _magnitude(value * 10**9)
        known = self._sizes[kind] = round(total, 6)
        return known

    # -- the table -------------------------------------------------------------------------------------------------

    def _fill(self, bit: int, position: int, row: list[_Cell]) -> None:
        table = self.table
        kind = self.view.kinds[position]
        mask = 1 << bit
        for column, cell in zip(table.columns, row, strict=True):
            if cell.usable:
                column.usable |= mask
            if cell.every:
                column.every |= mask
                if cell.lacking:
                    column.lacking |= mask
            if cell.broken is not None:
                column.broken[bit] = cell.broken
            column.takes[bit] = cell.takes
            for rule, value in cell.values.items():
                column.values.setdefault(rule, {})[bit] = value
        if kind.device.allow_multiple and self.features.consumable_capacity:
            table.multi |= mask
            table.limits[bit] = tuple(amount for _, amount in kind.sizes)
        if kind.device.binding_conditions:
            table.binding |= mask
        if self.view.offers[position].home is None:
            table.shared |= mask

    def _values(self) -> None:
        """Where all values of a rule are single ones, compare these and not sets."""
        table = self.table
        sets = set()
        for rule in range(len(self.plan.rules)):
            columns = [column for column in table.columns if rule in column.values]
            values = [value for column in columns for value in column.values[rule].values()]
            if not any(isinstance(value, frozenset) for value in values):
                continue
            if all(isinstance(value, frozenset) and len(value) == 1 for value in values):
                for column in columns:
                    column.values[rule] = {bit: next(iter(value)) for bit, value in column.values[rule].items()}  # type: ignore[call-overload]
            else:
                sets.add(rule)
        table.set_rules = frozenset(sets)
        for column in table.columns:
            for rule, by_bit in column.values.items():
                masks = column.masks[rule] = {}
                for bit, value in by_bit.items():
                    if column.usable >> bit & 1:
                        for item in value if isinstance(value, frozenset) else (value,):
                            masks[item] = masks.get(item, 0) | 1 << bit

    def _symmetry(self) -> None:
        """Devices that are alike in everything the search looks at: of these, trying one is trying all."""
        table = self.table
        drains, groups = table.counters.drains, table.counters.groups
        found: dict[Hashable, int] = {}
        for bit, position in enumerate(table.order):
            key = (table.alike_key(bit), drains.get(position), groups.get(position))
            found[key] = found.get(key, 0) | 1 << bit
        table.classes = tuple(found.values())


def _first_alike(plan: Plan) -> list[int]:
    """Per way, the first way with the same idea of every device. How many it asks for, and under what name, makes no difference."""
    seen: dict[Hashable, int] = {}
    return [
        seen.setdefault(
            (
                way.filter,
                way.detail.tolerations,
                tuple(sorted((name, amount.nano) for name, amount in way.detail.capacity.items())),
                way.all,
                way.constraints,
                tuple(sorted(way.derived.items())),
            ),
            way.index,
        )
        for way in plan.ways
    ]


def _key(value: Hashable) -> Hashable:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _magnitude(nano: int) -> float:
    """Sizes of different units are added: count in doublings. Whole numbers: a quantity may be beyond what a float holds."""
    return log2(nano + 10**9) - log2(10**9) if nano > 0 else 0.0
