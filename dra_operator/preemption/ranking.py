"""Nodes in the order of what making room on them costs at the least, worked out no further than somebody asks.

A bound from a glance at who is there costs little, and no exact one is below it. So of thousands of nodes only those get an exact one
whose outlook is no worse than the last that is asked for. Which nodes those are is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from dra_operator.preemption.criteria import Bound
from dra_operator.preemption.holders import Holder

#: What things are ranked by; no two of them by the same.
Rank = TypeVar("Rank", bound=tuple[object, ...])
Item = TypeVar("Item")


class Ranking(Generic[Rank, Item]):
    """`outlooks`: things, each with a rank that is not above the exact one; `exact` gives that, None where the thing is out of it."""

    def __init__(self, outlooks: Iterable[tuple[Rank, Item]], exact: Callable[[Item], Rank | None]) -> None:
        #: What is to come, with whether its rank is exact.
        self._heap = [(low, False, item) for low, item in outlooks]
        heapify(self._heap)
        self._exact = exact
        self._ranked: list[tuple[Rank, Item]] = []

    def first(self, count: int) -> list[tuple[Rank, Item]]:
        """So many, or all where there are fewer, best first, each with its exact rank."""
        self._reaches(count)
        return self._ranked[:count]

    def _reaches(self, count: int) -> bool:
        """Rank so many; are there so many?"""
        while len(self._ranked) < count and self._heap:
            low, exact, item = heappop(self._heap)
            if exact:
                self._ranked.append((low, item))
                continue
            found = self._exact(item)
            if found is not None:
                heappush(self._heap, (found, True, item))
        return len(self._ranked) >= count

    def __iter__(self) -> Iterator[Item]:
        """All that are not out of it, best first, one at a time."""
        at = 0
        while self._reaches(at + 1):
            yield self._ranked[at][1]
            at += 1

    def items(self, count: int | None = None) -> list[Item]:
        """The things of `first`; None: all that are not out of it."""
        return [item for _, item in self.first(len(self._ranked) + len(self._heap) if count is None else count)]


class Crowd(NamedTuple):
    """Some holders at a glance. `devices` of all of them, `idle` of those without pods; `amount` for `weight` pods is the most that
    pods of one holder bring. `lowest` priority, and when the `youngest` started."""

    devices: int
    idle: int
    amount: int
    weight: int
    lowest: int
    youngest: float

    def least(self, need: int) -> int | None:
        """The fewest pods whose going can bring so many devices; None if all of them together have fewer."""
        if self.devices < need:
            return None
        return 0 if self.idle >= need else -((self.idle - need) * self.weight // self.amount)

    def outlook(self, need: int, node: str) -> Bound | None:
        """Never above `criteria.bound` for any of these holders, all of whose devices count; None only where that is. `need` is 1 or
        more."""
        least = self.least(need)
        return None if least is None else (least, 0, self.lowest, -least * self.youngest, need, node)

    def joined(self, other: Crowd) -> Crowd:
        """Both crowds as one; who is in both counts twice, which never makes `least` higher."""
        better = other.amount * self.weight > self.amount * other.weight
        return Crowd(
            self.devices + other.devices,
            self.idle + other.idle,
            other.amount if better else self.amount,
            other.weight if better else self.weight,
            min(self.lowest, other.lowest),
            max(self.youngest, other.youngest),
        )


def glance(holders: Sequence[Holder]) -> Crowd | None:
    """None: nobody."""
    if not holders:
        return None
    all_devices = idle = amount = 0
    weight = 1
    lowest, youngest = holders[0].priority, holders[0].since
    for holder in holders:
        pods, devices = len(holder.pods), holder.devices
        all_devices += devices
        if not pods:
            idle += devices
        elif devices * weight > amount * pods:
            amount, weight = devices, pods
        if holder.priority < lowest:
            lowest = holder.priority
        if holder.since > youngest:
            youngest = holder.since
    return Crowd(all_devices, idle, amount, weight, lowest, youngest)
