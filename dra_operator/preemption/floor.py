"""The floor: how many pods must go at the least before a node can serve each request, by shares and shared counters.

Counting devices says nothing where one device serves many, or where devices overlap. Here each request is looked at alone: of the
devices it could take, which is the cheapest to come by? The search for victims need not look at fewer than that. What is not
modelled (constraints, compatibility groups, requests competing with each other) only makes the floor too low, never too high.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.plan import Plan, Way
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table
from dra_operator.preemption.criteria import cover


@dataclass(frozen=True, slots=True)
class Held:
    """What one holder has of a node: per position what it takes of the device's capacities, in the order of the device's capacity
    names and in 10^-9, one entry a share; None = the whole device."""

    pods: int
    takes: dict[int, list[tuple[int, ...] | None]] = field(default_factory=dict)


def floor(plan: Plan, table: Table, start: Start, holders: Sequence[Held]) -> int | None:
    """The fewest pods whose going can make room for every request; None if not even all of them suffice.

    `start` is the node as it is, with all these holders on it.
    """
    return _Floor(table, start, holders).of(plan)


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of a node, whose holders come with their priority. `pods`: with all of them."""

    plan: Plan
    table: Table
    start: Start
    holders: tuple[tuple[int, Held], ...]
    pods: int

    def up_to(self, priority: int) -> int | None:
        """The floor where only holders up to this priority may go."""
        return floor(self.plan, self.table, self.start, [held for each, held in self.holders if each <= priority])


def make_floor(plan: Plan, table: Table, start: Start, holders: Sequence[tuple[int, Held]]) -> Floor | None:
    """None if not even all of them suffice."""
    pods = floor(plan, table, start, [held for _, held in holders])
    return None if pods is None else Floor(plan, table, start, tuple(holders), pods)


class _Floor:
    def __init__(self, table: Table, start: Start, holders: Sequence[Held]) -> None:
        self.table, self.start = table, start
        self.left = dict(start.left)
        self.users: dict[int, list[tuple[int, list[tuple[int, ...] | None]]]] = {}
        self.drains: dict[int, list[tuple[int, int]]] = {}
        for holder in holders:
            for position, takes in holder.takes.items():
                self.users.setdefault(position, []).append((holder.pods, takes))
                for number, amount in table.counters.drains.get(position, ()):
                    self.drains.setdefault(number, []).append((amount, holder.pods))

    def of(self, plan: Plan) -> int | None:
        highest = 0
        for requirement in plan.requirements:
            prices = [self._of_way(way) for way in requirement.ways]
            found = [price for price in prices if price is not None]
            if not found:
                return None
            highest = max(highest, min(found))
        return highest

    def _of_way(self, way: Way) -> int | None:
        column = self.table.columns[way.index]
        if way.admin or (not way.all and way.count <= 0):
            return 0
        if way.all:
            each = [self._of_device(way, bit) for bit in _bits(column.every)]
            return None if not each or None in each else max(price for price in each if price is not None)
        prices = sorted(price for bit in _bits(column.usable) if (price := self._of_device(way, bit)) is not None)
        # A device taken in shares can serve the request several times; others once each.
        last = 0 if self.table.multi & column.usable else way.count - 1
        return prices[last] if last < len(prices) else None

    def _of_device(self, way: Way, bit: int) -> int | None:
        """The fewest pods that must go before the way can take this device."""
        start, mask = self.start, 1 << bit
        if start.held & mask:
            return None
        position = self.table.order[bit]
        users = self.users.get(position, [])
        price: int | None = 0
        if not start.free & mask:
            price = sum(pods for pods, takes in users if None in takes or not self.table.multi & mask)
            if not users:
                return None
        elif bit in self.left:
            price = self._of_shares(self.table.columns[way.index].takes[bit], self.left[bit], users)
        if price is None:
            return None
        if not start.running & mask:
            for number, amount in self.table.counters.drains.get(position, ()):
                short = amount - start.counters[number]
                if amount > 0 and short > 0:
                    more = cover(short, self.drains.get(number, ()))
                    if more is None:
                        return None
                    price = max(price, more)
        return price

    @staticmethod
    def _of_shares(
        wanted: tuple[int, ...], left: tuple[int, ...], users: list[tuple[int, list[tuple[int, ...] | None]]]
    ) -> int | None:
        price = 0
        for index, (want, have) in enumerate(zip(wanted, left, strict=True)):
            parts = [(sum(take[index] for take in takes if take is not None), pods) for pods, takes in users]
            more = cover(want - have, parts)
            if more is None:
                return None
            price = max(price, more)
        return price


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
