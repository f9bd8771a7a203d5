"""Counting: how many claims of some shape get their devices from what is free on a node.

Counted once for each shape and each condition that the devices of a view are found in; what the counts are worth is the business of
`demand`, whose weights change while the counts do not. CPU and memory are not looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from dra_operator.allocator.masks import bits_of

#: As many shares of one device as anybody will ask for; a capacity may be any number.
_MANY = 2**32
#: Conditions that are remembered of one view, and amounts left on single devices.
_KEPT = 4096

#: What is left of one shareable device: amounts in the order of the capacity names.
Amounts = tuple[int, ...]
#: What is left of shareable devices, by position.
Left = Mapping[int, Amounts]


class Shape:
    """One kind of claim on one view: `count` devices out of one of `groups` (position masks).

    `takes` and `limits`: what one of them consumes of a shareable device, and what that has in all, by position.
    `size`: how many devices a claim takes, a part of one as a fraction. `number`: where it is in `Stock.counts`.
    """

    __slots__ = ("count", "groups", "limits", "number", "size", "takes")

    def __init__(
        self,
        number: int,
        count: int,
        groups: tuple[int, ...],
        takes: Mapping[int, Amounts],
        limits: Mapping[int, Amounts],
    ) -> None:
        self.number, self.count, self.groups, self.takes, self.limits = number, count, groups, takes, limits
        usable = 0
        for group in groups:
            usable |= group
        parts = map(self._part, bits_of(usable)) if takes else ()
        self.size = count * max(parts, default=1.0)

    def whole(self, free: int) -> int:
        """How many such claims get their devices where none is shareable."""
        total = 0
        for group in self.groups:
            total += (group & free).bit_count() // self.count
        return total

    def units(self, position: int, have: Amounts | None) -> int:
        """How many such claims one free device serves; `have` None: it is not shareable."""
        takes = self.takes.get(position)
        if takes is None:
            return 1
        found = _MANY if any(takes) else 1
        for amount, take in zip(self.limits[position] if have is None else have, takes, strict=True):
            if take:
                found = min(found, amount // take)
        # What others wrote may exceed the capacity. Each claim needs distinct devices, so a device serves one for several at most once.
        return min(max(found, 0), _MANY if self.count == 1 else 1)

    def _part(self, position: int) -> float:
        takes = self.takes.get(position)
        if takes is None:
            return 1.0
        limits = self.limits[position]
        return max((take / limit for take, limit in zip(takes, limits, strict=True) if limit), default=1.0)


class Stock:
    """Devices of one view that are free (position mask), and what is left of shareable ones.

    `counts`: by number of the shape, how many claims get their devices, each shape by itself; see `Counting.counted`.
    """

    __slots__ = ("counts", "free", "left")

    def __init__(self, free: int, left: Left) -> None:
        self.free, self.left = free, left
        self.counts: list[int] = []


class Counting:
    """Of one view. `looks`: how often shapes were counted in some stock."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self.looks = 0
        self._known: dict[Hashable, Shape] = {}
        #: Per group of a shape with shareable devices: the shape and the group.
        self._columns: list[tuple[Shape, int]] = []
        #: Positions that some column looks at.
        self._looked_at = 0
        #: Per column, what one device in one condition serves.
        self._rows: dict[tuple[int, Amounts | None], list[int]] = {}
        self._stocks: dict[Hashable, Stock] = {}

    def shape(
        self, count: int, groups: tuple[int, ...], takes: Mapping[int, Amounts], limits: Mapping[int, Amounts]
    ) -> Shape:
        """One object for each shape, whoever asks."""
        key = count, groups, tuple(takes.items()), tuple(limits.items()) if takes else ()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Shape(len(self._shapes), count, groups, takes, limits)
            self._shapes.append(found)
            if takes:
                for group in groups:
                    self._columns.append((found, group))
                    self._looked_at |= group
        return found

    def stock(self, free: int, left: Left) -> Stock:
        """One object for each condition of the devices, for as long as it is remembered."""
        key = (free, tuple(sorted(left.items()))) if left else free
        found = self._stocks.get(key)
        if found is None:
            if len(self._stocks) >= _KEPT:
                self._stocks.clear()
            found = self._stocks[key] = Stock(free, left)
        return found

    def counted(self, stock: Stock) -> Stock:
        """The stock, with counts for all shapes there are now."""
        done = len(stock.counts)
        if done < len(self._shapes):
            self.looks += 1
            new = self._shapes[done:]
            served = iter(self._served(stock, sum([len(shape.groups) for shape in self._shapes[:done] if shape.takes])))
            stock.counts += [
                sum([next(served) // shape.count for _ in shape.groups]) if shape.takes else shape.whole(stock.free)
                for shape in new
            ]
        return stock

    def _served(self, stock: Stock, first: int) -> Sequence[int]:
        """Per column from the first on, how many devices or parts of them can be had."""
        left = stock.left
        rows = [self._row(position, left.get(position)) for position in bits_of(stock.free & self._looked_at)]
        if first:
            rows = [row[first:] for row in rows]
        return list(map(sum, zip(*rows, strict=True))) if rows else [0] * (len(self._columns) - first)

    def _row(self, position: int, have: Amounts | None) -> list[int]:
        row = self._rows.get((position, have))
        if row is None:
            if len(self._rows) >= _KEPT:
                self._rows.clear()
            row = self._rows[position, have] = []
        if len(row) < len(self._columns):
            row += [
                shape.units(position, have) if group >> position & 1 else 0
                for shape, group in self._columns[len(row) :]
            ]
        return row
