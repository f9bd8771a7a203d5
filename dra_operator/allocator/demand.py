"""Expected demand: what a node could still take, before and after an allocation.

The strategy Fragmentation asks how much of what is typically asked for stops fitting (fragmentation gradient descent, Weng et al.,
USENIX ATC 2023, counted in claims that fit instead of in GPUs that do not).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Demand
from dra_operator.allocator.table import Table
from dra_operator.api.claims import ClaimSpec

#: Without better knowledge: claims of these many devices of what is being asked for, equally often.
TYPICAL_COUNTS = (1, 2, 4, 8)

#: How many different claims an expectation distinguishes.
_KINDS_EXPECTED = 32

#: What is left of shareable devices, by position: amounts in the order of the capacity names.
Left = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Term:
    """One kind of claim on one view: `count` devices out of one of `groups` (position masks), each with weight `weight`.

    `takes` and `limits`: what one of them consumes of a shareable device, and what that has in all, by position.
    """

    weight: float
    count: int
    groups: tuple[int, ...]
    takes: Mapping[int, tuple[int, ...]]
    limits: Mapping[int, tuple[int, ...]]

    def fitting(self, free: int, left: Left) -> float:
        """How many devices (or parts of them) such claims can still get, times the weight."""
        total = 0.0
        for group in self.groups:
            if not self.takes:
                total += (group & free).bit_count() // self.count * self.count
            else:
                total += self._shared(group & free, left)
        return total * self.weight

    def _shared(self, mask: int, left: Left) -> float:
        units, part = [], 0.0
        while mask:
            low = mask & -mask
            mask ^= low
            position = low.bit_length() - 1
            takes = self.takes.get(position)
            if takes is None:
                units.append(1)
                part = 1.0
                continue
            have, limits = left.get(position, self.limits[position]), self.limits[position]
            units.append(min((amount // take for amount, take in zip(have, takes, strict=True) if take), default=1))
            part = max(
                part, max((take / limit for take, limit in zip(takes, limits, strict=True) if limit), default=1.0)
            )
        if self.count == 1:
            return sum(units) * part
        # Each claim needs distinct devices, so a device serves a claim at most once.
        usable = sum(1 for unit in units if unit)
        return usable // self.count * self.count * part


class RecentDemand:
    """What was asked for lately, as a `Demand` that stays the same object for as long as it describes that well enough.

    Refreshed after 16, 64, 256, … claims and then every 1,024; at each refresh what was counted before counts half.
    """

    _LONGEST = 1024

    def __init__(self) -> None:
        self.demand: Demand | None = None
        self._weights: dict[int, tuple[ClaimSpec, float]] = {}
        self._since = 0
        self._wait = 16

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
        self.demand = Demand(tuple((spec, weight / total) for spec, weight in kept))
        self._weights = {id(spec): (spec, weight / 2) for spec, weight in kept}
        self._since = 0
        self._wait = min(self._wait * 4, self._LONGEST)


def terms_of(table: Table, way: Way, count: int, weight: float) -> Term:
    """A term for `count` devices as one way of the table's plan asks for them."""
    column = table.columns[way.index]
    order = table.order
    groups = [column.usable]
    for rule in way.constraints:
        if not table.plan.rules[rule].distinct:
            groups = [group & members for group in groups for members in column.masks.get(rule, {}).values()]
    takes = {order[bit]: column.takes[bit] for bit in range(len(order)) if (table.multi & column.usable) >> bit & 1}
    limits = {order[bit]: table.limits[bit] for bit in range(len(order)) if table.multi >> bit & 1}
    return Term(weight, max(count, 1), tuple(_positions(group, order) for group in groups if group), takes, limits)


def typical(table: Table, ways: Sequence[Way]) -> tuple[Term, ...]:
    """The prior: claims of the usual sizes of what these ways ask for."""
    return tuple(
        terms_of(table, way, count, 1.0) for way in ways if not way.all and not way.admin for count in TYPICAL_COUNTS
    )


def _positions(mask: int, order: tuple[int, ...]) -> int:
    found = 0
    for bit, position in enumerate(order):
        if mask >> bit & 1:
            found |= 1 << position
    return found
