"""Tabulating: a table made of a plan and a view.

Devices of one kind are judged once; only where constraints read values that kinds do not tell apart is each device looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import log2
from operator import itemgetter

from dra_operator.allocator.capacity import CapacityError, consumption
from dra_operator.allocator.counters import make_counters
from dra_operator.allocator.masks import mask_of
from dra_operator.allocator.plan import Plan, Rule, Way
from dra_operator.allocator.selection import Broken, Rejected, Selectors
from dra_operator.allocator.table import UNKNOWN, Column, Table
from dra_operator.api.taints import untolerated
from dra_operator.cel import CompileError, EvaluationError
from dra_operator.inventory.features import Features
from dra_operator.inventory.kinds import Kind, attribute_of, typed
from dra_operator.inventory.views import View


@dataclass(slots=True)
class _Cell:
    """One way's verdict on devices of one sort."""

    usable: bool = False
    every: bool = False
    lacking: bool = False
    broken: Broken | None = None
    takes: tuple[int, ...] = ()
    values: dict[int, Hashable] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Sort:
    """Devices that the plan cannot tell apart: with the same values also where constraints read them. `kind` is that of one of them.

    `row`: the verdict of each distinct way. `bits` once these are given out.
    """

    kind: Kind
    row: list[_Cell]
    positions: list[int]
    size: float
    bits: list[int] = field(default_factory=list)


#: What constraints compare of one device for one way, as far as the first one it lacks or that fails.
_Values = tuple["Hashable | Broken | None", ...]


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
        #: Devices that other nodes see as well, and where they fall out.
        self.shared = frozenset(position for position, offer in enumerate(view.offers) if offer.home is None)
        self.abroad: dict[int, dict[int, object]] = {way.index: {} for way in self.distinct}

    def build(self) -> Table:
        table, plan = self.table, self.plan
        sorts = [
            item
            for item in self._sorts()
            if any(cell.usable or cell.every or cell.broken is not None for cell in item.row)
        ]
        self._number(sorts)
        columns = {
            way.index: Column(rejected=self.rejected[way.index], abroad=self.abroad[way.index]) for way in self.distinct
        }
        table.columns = list(columns.values())
        for item in sorts:
            self._fill(item)
        shared = [bit for bit, position in enumerate(table.order) if position in self.shared]
        table.shared = mask_of(shared, len(table.order))
        own = set(table.order) - {table.order[bit] for bit in shared}
        table.own = mask_of(own, len(self.view.offers))
        if plan.rules:
            self._values()
        table.counters = make_counters(self.view, set(table.order), self.features)
        self._symmetry(sorts)
        table.columns = [columns[self.first[way.index]] for way in plan.ways]
        future, later = [], 0
        for requirement in reversed(plan.requirements):
            for way in requirement.ways:
                later |= table.columns[way.index].usable | table.columns[way.index].every
            future.append(later)
        table.future = (*reversed(future), 0)
        table.plain = not (table.multi or table.counters.total or table.counters.groups or table.shared)
        table.local = not (table.shared or table.counters.shared or table.counters.abroad)
        return table

    def _number(self, sorts: list[_Sort]) -> None:
        """Give out the bits."""
        table = self.table
        ranked = [
            (bool(item.kind.device.binding_conditions), item.size, position, item)
            for item in sorts
            for position in item.positions
        ]
        ranked.sort(key=itemgetter(2) if self.as_published else itemgetter(0, 1, 2))
        for bit, (_, _, _, item) in enumerate(ranked):
            item.bits.append(bit)
        # What is found first comes first in all that follows, whichever kind the view names first.
        sorts.sort(key=lambda item: item.bits[0])
        table.order = tuple([position for _, _, position, _ in ranked])
        table.sizes = tuple([size for _, size, _, _ in ranked])
        table.bit_at = {position: bit for bit, position in enumerate(table.order)}
        table.bits = (1 << len(table.order)) - 1
        table.straight = table.order == tuple(range(len(table.order)))

    # -- devices of one sort for one way ---------------------------------------------------------------------------

    def _sorts(self) -> list[_Sort]:
        found = []
        for kind, size, positions in self._groups():
            verdicts = [self._judge(way, kind) for way in self.distinct]
            for values, alike in self._by_values(verdicts, positions).items():
                row = [
                    self._cell(way, verdict, its, alike)
                    for way, verdict, its in zip(self.distinct, verdicts, values, strict=True)
                ]
                found.append(_Sort(kind, row, alike, size))
        return found

    def _groups(self) -> Iterable[tuple[Kind, float, list[int]]]:
        """Devices that differ in nothing that a verdict depends on: one of their kinds, how much device each is, and where they are."""
        by_kind: dict[Kind, list[int]] = {}
        for position, kind in enumerate(self.view.kinds):
            by_kind.setdefault(kind, []).append(position)
        found: dict[Hashable, tuple[Kind, float, list[int]]] = {}
        for kind, positions in by_kind.items():
            outcomes = tuple([way.filter.outcome(kind) for way in self.distinct])
            size = self._size(kind)
            found.setdefault((kind.family, size, outcomes), (kind, size, []))[2].extend(positions)
        return found.values()

    def _by_values(
        self, verdicts: list[tuple[_Cell, object]], positions: list[int]
    ) -> dict[tuple[_Values, ...], list[int]]:
        """Devices of one group by what differs between them all the same: the values that constraints compare, by way."""
        ways = [
            way.constraints if reason is None else () for way, (_, reason) in zip(self.distinct, verdicts, strict=True)
        ]
        if not any(ways):
            return {((),) * len(ways): positions}
        found: dict[tuple[_Values, ...], list[int]] = {}
        for position in positions:
            values = tuple(
                [
                    self._values_of(way, rules, position) if rules else ()
                    for way, rules in zip(self.distinct, ways, strict=True)
                ]
            )
            found.setdefault(values, []).append(position)
        return found

    def _values_of(self, way: Way, rules: tuple[int, ...], position: int) -> _Values:
        found: list[Hashable | Broken | None] = []
        for number in rules:
            value = self._value(self.plan.rules[number], way, position)
            found.append(value)
            if value is None or isinstance(value, Broken):
                break
        return tuple(found)

    def _cell(self, way: Way, verdict: tuple[_Cell, object], values: _Values, positions: list[int]) -> _Cell:
        cell, reason = verdict
        if reason is None and way.constraints:
            cell, reason = self._constrained(way, cell, values)
        abroad = self.shared.intersection(positions) if self.shared else ()
        count = self.rejected[way.index]
        count["seen"] += len(positions) - len(abroad)
        if reason is not None:
            count[reason] += len(positions) - len(abroad)
            self.abroad[way.index].update(dict.fromkeys(abroad, reason))
        return cell

    @staticmethod
    def _constrained(way: Way, judged: _Cell, values: _Values) -> tuple[_Cell, object]:
        """What is left of a verdict once the constraints have looked at the device."""
        cell = _Cell(every=judged.every, takes=judged.takes)
        for number, value in zip(way.constraints, values, strict=False):
            if isinstance(value, Broken):
                cell.broken = value
                return cell, "broken"
            if value is None:
                cell.lacking = True
                return cell, "constraint"
            cell.values[number] = value
        cell.usable = True
        return cell, None

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
        total = 0.0
        for _, amount in kind.sizes:
            total += _magnitude(amount)
        for domain, name in self.plan.reads or ():
            if name is None:
                continue
            value = attribute_of(kind.device, kind.driver, f"{domain}/{name}")
            if type(value) is int:
                total += _magnitude(value * 10**9)
        return round(total, 6)

    # -- the table -------------------------------------------------------------------------------------------------

    def _fill(self, item: _Sort) -> None:
        table, kind, bits = self.table, item.kind, item.bits
        mask = mask_of(bits, len(table.order))
        multi = kind.device.allow_multiple and self.features.consumable_capacity
        for column, cell in zip(table.columns, item.row, strict=True):
            if cell.usable:
                column.usable |= mask
            if cell.every:
                column.every |= mask
                if cell.lacking:
                    column.lacking |= mask
            if cell.broken is not None:
                column.broken.update(dict.fromkeys(bits, cell.broken))
            if multi:
                column.takes.update(dict.fromkeys(bits, cell.takes))
            for rule, value in cell.values.items():
                column.values.setdefault(rule, {}).update(dict.fromkeys(bits, value))
        if multi:
            table.multi |= mask
            table.limits.update(dict.fromkeys(bits, tuple([amount for _, amount in kind.sizes])))
        if kind.device.binding_conditions:
            table.binding |= mask

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

    def _symmetry(self, sorts: list[_Sort]) -> None:
        """Devices that are alike in everything the search looks at: of these, trying one is trying all."""
        table = self.table
        drains, groups = table.counters.drains, table.counters.groups
        found: dict[Hashable, list[int]] = {}
        for item in sorts:
            alike = table.alike_key(item.bits[0])
            if not drains and not groups:
                found.setdefault(alike, []).extend(item.bits)
                continue
            for bit in item.bits:
                position = table.order[bit]
                found.setdefault((alike, drains.get(position), groups.get(position)), []).append(bit)
        table.classes = tuple([mask_of(bits, len(table.order)) for bits in found.values()])


def _first_alike(plan: Plan) -> list[int]:
    """Per way, the first way with the same idea of every device. How many it asks for, and under what name, makes no difference."""
    if len(plan.ways) == 1:
        return [0]
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


def _magnitude(nano: int) -> float:
    """Sizes of different units are added: count in doublings. Whole numbers: a quantity may be beyond what a float holds."""
    return log2(nano + 10**9) - log2(10**9) if nano > 0 else 0.0
