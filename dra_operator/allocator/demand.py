"""Expected demand: what is asked for, and how much of it a node could still take.

The strategy Fragmentation asks how much of what is typically asked for stops fitting (after fragmentation gradient descent, Weng et
al., USENIX ATC 2023, but counted in claims that fit instead of in GPUs that do not); `outlook` weighs the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Demand
from dra_operator.allocator.table import Table, positions
from dra_operator.api.claims import ClaimSpec

#: Claims of so many devices are taken to be usual where nothing is known.
TYPICAL_COUNTS = (1, 2, 4, 8)

#: How many different claims an expectation distinguishes.
_KINDS_EXPECTED = 32

#: As many shares of one device as anybody will ask for; a capacity may be any number.
_MANY = 2**32

#: What is left of shareable devices, by position: amounts in the order of the capacity names.
Left = Mapping[int, tuple[int, ...]]


class Shape:
    """One kind of claim on one view: `count` devices out of one of `groups` (position masks).

    `takes` and `limits`: what one of them consumes of a shareable device, and what that has in all, by position.
    """

    __slots__ = ("_untouched", "count", "groups", "limits", "takes")

    def __init__(
        self,
        count: int,
        groups: tuple[int, ...],
        takes: Mapping[int, tuple[int, ...]],
        limits: Mapping[int, tuple[int, ...]],
    ) -> None:
        self.count, self.groups, self.takes, self.limits = count, groups, takes, limits
        #: By position, as far as asked for: how often one fits into the whole device, and what part of it one takes.
        self._untouched: dict[int, tuple[int, float]] = {}

    def fitting(self, free: int, left: Left) -> float:
        """How many devices (or parts of them) such claims can still get."""
        if self.takes:
            return sum(self._shared(group & free, left) for group in self.groups)
        count, total = self.count, 0
        for group in self.groups:
            total += (group & free).bit_count() // count * count
        return total

    def _shared(self, mask: int, left: Left) -> float:
        units, part = [], 0.0
        while mask:
            low = mask & -mask
            mask ^= low
            position = low.bit_length() - 1
            whole = self._untouched.get(position)
            if whole is None:
                whole = self._untouched[position] = self._of_untouched(position)
            have = left.get(position)
            units.append(whole[0] if have is None or position not in self.takes else _units(have, self.takes[position]))
            if whole[1] > part:
                part = whole[1]
        if self.count == 1:
            return sum(units) * part
        # Each claim needs distinct devices, so a device serves a claim at most once.
        usable = sum(1 for unit in units if unit)
        return usable // self.count * self.count * part

    def _of_untouched(self, position: int) -> tuple[int, float]:
        takes = self.takes.get(position)
        if takes is None:
            return 1, 1.0
        limits = self.limits[position]
        part = max((take / limit for take, limit in zip(takes, limits, strict=True) if limit), default=1.0)
        return _units(limits, takes), part


def _units(have: tuple[int, ...], takes: tuple[int, ...]) -> int:
    """How often what one takes fits into what is there."""
    return min(min((amount // take for amount, take in zip(have, takes, strict=True) if take), default=1), _MANY)


class Expectation:
    """Kinds of claims expected on one view, each with its weight. Kinds that are alike there are counted as one."""

    __slots__ = ("_known", "_parts", "_plain")

    def __init__(self, parts: Iterable[tuple[Shape, float]]) -> None:
        merged: dict[object, tuple[Shape, float]] = {}
        for shape, weight in parts:
            key = shape if shape.takes else (shape.count, shape.groups)
            known = merged.get(key)
            merged[key] = (shape, weight if known is None else known[1] + weight)
        self._parts = tuple(merged.values())
        self._plain = not any(shape.takes for shape, _ in self._parts)
        self._known: dict[object, float] = {}

    def fitting(self, free: int, left: Left) -> float:
        """How much of it can still be served, each kind by itself, weighted."""
        # The same states come up for every plan, so what is worked out for one serves the others.
        key = free if self._plain else (free, tuple(sorted(left.items())))
        total = self._known.get(key)
        if total is None:
            if len(self._known) > 4096:
                self._known.clear()
            total = self._known[key] = sum([shape.fitting(free, left) * weight for shape, weight in self._parts])
        return total


#: What is expected on one view, in parts that are shared between plans.
Expectations = tuple[Expectation, ...]


def fitting(expected: Expectations, free: int, left: Left) -> float:
    """How much of what is expected can still be served."""
    total = 0.0
    for part in expected:
        total += part.fitting(free, left)
    return total


class RecentDemand:
    """What was asked for lately, as a `Demand` that stays the same object for as long as it describes that well enough.

    Looked at after 64 and 512 claims and then every 1,024, and replaced if more than a fifth of it would change; what was counted
    before a look counts half after it.
    """

    _LONGEST = 1024
    _CHANGE = 0.2

    def __init__(self) -> None:
        self.demand: Demand | None = None
        self._weights: dict[int, tuple[ClaimSpec, float]] = {}
        self._since = 0
        self._wait = 64

    def note(self, spec: ClaimSpec) -> None:
        """Count one claim."""
        key = id(spec)
        known = self._weights.get(key)
        self._weights[key] = spec, 1.0 if known is None else known[1] + 1.0
        self._since += 1
        if self._since >= self._wait:
            self._refresh()

    def _refresh(self) -> None:
        total = sum(weight for _, weight in self._weights.values())
        kept = sorted(self._weights.values(), key=lambda item: -item[1])[:_KINDS_EXPECTED]
        shares = {id(spec): weight / total for spec, weight in kept}
        old = {} if self.demand is None else {id(spec): weight for spec, weight in self.demand.items}
        if sum(abs(shares.get(key, 0.0) - old.get(key, 0.0)) for key in shares.keys() | old.keys()) > 2 * self._CHANGE:
            self.demand = Demand(tuple((spec, weight / total) for spec, weight in kept), total)
        self._weights = {id(spec): (spec, weight / 2) for spec, weight in kept}
        self._since = 0
        self._wait = min(self._wait * 8, self._LONGEST)


def shape_of(table: Table, way: Way, count: int) -> Shape:
    """The shape of claims for `count` devices as one way of the table's plan asks for them."""
    key = (way.index, count)
    known = table.shapes.get(key)
    if known is None:
        known = table.shapes[key] = _make_shape(table, way, count)
    assert isinstance(known, Shape)
    return known


def _make_shape(table: Table, way: Way, count: int) -> Shape:
    column = table.columns[way.index]
    order = table.order
    groups = [column.usable]
    for rule in way.constraints:
        if not table.plan.rules[rule].distinct:
            groups = [group & members for group in groups for members in column.masks.get(rule, {}).values()]
    takes = {order[bit]: column.takes[bit] for bit in range(len(order)) if (table.multi & column.usable) >> bit & 1}
    limits = {order[bit]: table.limits[bit] for bit in range(len(order)) if table.multi >> bit & 1}
    return Shape(max(count, 1), tuple(positions(table, group) for group in groups if group), takes, limits)
