"""Nodes in the order of what making room on them costs at the least, worked out no further than somebody asks.

A bound that looks at who is there only in passing (`outlook`) costs little, and no exact one is below it. So of thousands of nodes only
those get an exact one whose outlook is no worse than the last that is asked for. Which nodes those are is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from dra_operator.preemption.criteria import Bound
from dra_operator.preemption.holders import Holder


class Ranking:
    """`outlooks`: for each node a bound that is not above the exact one; `exact` gives that, None where there is no making room."""

    def __init__(self, outlooks: Iterable[Bound], exact: Callable[[str], Bound | None]) -> None:
        #: Nodes to come, each with whether its bound is exact.
        self._heap = [(low, False) for low in outlooks]
        heapify(self._heap)
        self._exact = exact
        self._ranked: list[Bound] = []

    def first(self, count: int) -> list[Bound]:
        """The exact bounds of so many nodes, or of all where there are fewer, best first."""
        while len(self._ranked) < count and self._heap:
            low, exact = heappop(self._heap)
            if exact:
                self._ranked.append(low)
                continue
            found = self._exact(low[5])
            if found is not None:
                heappush(self._heap, (found, True))
        return self._ranked[:count]

    def names(self, count: int) -> list[str]:
        """The nodes of `first`."""
        return [rank[5] for rank in self.first(count)]

    def everywhere(self) -> list[str]:
        """All nodes where there is making room, best first."""
        return self.names(len(self._ranked) + len(self._heap))


def outlook(need: int, holders: Iterable[Holder], node: str) -> Bound | None:
    """Never above `criteria.bound` for any of these holders, whose devices all count; None only where that is. `need` is 1 or more."""
    all_devices = idle = 0
    amount, weight = 0, 1
    lowest, youngest = 0, 0.0
    for holder in holders:
        pods, devices = len(holder.pods), holder.devices
        if not all_devices:
            lowest, youngest = holder.priority, holder.since
        all_devices += devices
        if not pods:
            idle += devices
        elif devices * weight > amount * pods:
            amount, weight = devices, pods  # the most that one pod's going brings
        if holder.priority < lowest:
            lowest = holder.priority
        if holder.since > youngest:
            youngest = holder.since
    if all_devices < need:
        return None
    least = 0 if idle >= need else -((idle - need) * weight // amount)
    return least, 0, lowest, -least * youngest, need, node
