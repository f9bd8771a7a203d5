"""Which of two sets of victims is better, and how good a set can be at best.

The criteria, first to last:
1. fewest pods evicted;
2. fewest claims freed without an eviction: nothing runs on them, so they go rather than a pod, but not without need;
3. lowest highest priority;
4. least lost work: the victims together have run for the shortest time;
5. fewest devices given back;
6. the node's name, then the victims' UIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import fsum
from typing import NamedTuple

from dra_operator.preemption.holders import Holder


class Cost(NamedTuple):
    """Smaller is better. `since` is the negated sum of the start times, one for each pod and each freed claim."""

    pods: int
    freed: int
    priority: int
    since: float
    devices: int
    node: str
    uids: tuple[str, ...]


#: As `Cost`, without the UIDs: no set of victims on the node costs less.
Bound = tuple[int, int, int, float, int, str]


def cost(holders: Sequence[Holder], node: str) -> Cost:
    """What it costs to have all of these go."""
    return Cost(
        pods=sum(len(holder.pods) for holder in holders),
        freed=sum(not holder.pods for holder in holders),
        priority=max((holder.priority for holder in holders), default=0),
        since=-fsum(since for holder in holders for since in _copies(holder)),
        devices=sum(holder.devices for holder in holders),
        node=node,
        uids=tuple(sorted(holder.uid for holder in holders)),
    )


def for_eviction(holders: Iterable[Holder], protected: frozenset[str]) -> tuple[Holder, ...]:
    """The order to evict in: those under a disruption budget first (`protected`, by UID), since one refused there saves the others;
    then lowest priority, then youngest."""
    return tuple(
        sorted(
            holders, key=lambda item: (item.uid not in protected, not item.pods, item.priority, -item.since, item.uid)
        )
    )


def cover(need: int, parts: Iterable[tuple[int, int]]) -> int | None:
    """The fewest pods whose parts can add up to `need`; None if all together do not. Parts are (amount, pods); a lower bound where
    parts of several pods are involved."""
    if need <= 0:
        return 0
    paid: list[tuple[int, int]] = []
    for amount, pods in parts:
        if pods:
            paid.append((amount, pods))
        else:
            need -= amount
    if need <= 0:
        return 0
    paid.sort(key=lambda part: part[0] / part[1], reverse=True)
    total = 0
    for amount, pods in paid:
        if amount >= need:
            return total + -(-need * pods // amount)
        need -= amount
        total += pods
    return None


def bound(
    need: int, holders: Sequence[Holder], amounts: Sequence[int], node: str, *, at_least: int = 0
) -> Bound | None:
    """The least that any set of `holders` can cost whose `amounts` add up to `need` and that has `at_least` so many pods.

    None if there is no such set.
    """
    least = _fewest(need, holders, amounts, at_least)
    if least is None:
        return None
    # A set that costs no more pods is of holders up to some priority: the lowest for which there can be one.
    priorities = sorted({holder.priority for holder in holders})
    low, high = 0, len(priorities) - 1
    while low < high:
        middle = (low + high) // 2
        top = priorities[middle]
        below = [index for index, holder in enumerate(holders) if holder.priority <= top]
        fewest = _fewest(need, [holders[index] for index in below], [amounts[index] for index in below], at_least)
        if fewest == least:
            high = middle
        else:
            low = middle + 1
    return *least, *_up_to(priorities[low], holders, *least), need, node


def raised(low: Bound, top: int, holders: Iterable[Holder]) -> Bound:
    """The bound, where a holder of so high a priority is known to be in every such set."""
    pods, freed, _, _, need, node = low
    return pods, freed, *_up_to(top, holders, pods, freed), need, node


def _up_to(top: int, holders: Iterable[Holder], pods: int, freed: int) -> tuple[int, float]:
    """The priority, and the least lost work of so many of these up to it."""
    members = [holder for holder in holders if holder.priority <= top]
    runs = sorted((since for holder in members if holder.pods for since in _copies(holder)), reverse=True)
    idle = sorted((holder.since for holder in members if not holder.pods), reverse=True)
    return top, -fsum((*runs[:pods], *idle[:freed]))


def bound_of_singles(
    need: int, holders: Sequence[Holder], amounts: Sequence[int], node: str, *, at_least: int = 0
) -> Bound | None:
    """As `bound`, where each holder is one pod, and they stand by rank: lowest priority first."""
    if min(amounts) == max(amounts) > 0:
        pods = max(-(-need // amounts[0]), at_least)
        last = pods - 1
    else:
        pods = max(_fewest_of(need, amounts), at_least)
        last = _enough(need, amounts, pods)
    if last >= len(holders):
        return None
    top, end = holders[last].priority, last + 1
    while end < len(holders) and holders[end].priority == top:
        end += 1
    runs = sorted([holder.since for holder in holders[:end]])
    return pods, 0, top, -fsum(runs[-pods:]), need, node


def _fewest_of(need: int, amounts: Sequence[int]) -> int:
    """So many of the amounts add up to `need`; more than there are if all do not."""
    for number, amount in enumerate(sorted(amounts, reverse=True)):
        if need <= 0:
            return number
        need -= amount
    return len(amounts) + (need > 0)


def _enough(need: int, amounts: Sequence[int], count: int) -> int:
    """The index up to which `count` amounts add up to `need`; that of none if they never do."""
    largest: list[int] = []
    total = 0
    for index, amount in enumerate(amounts):
        total += amount
        heappush(largest, amount)
        if len(largest) > count:
            total -= heappop(largest)
        if total >= need and len(largest) == count:
            return index
    return len(amounts)


def singles(holders: Sequence[Holder]) -> bool:
    """Is each of these, which stand by rank, one pod?"""
    return len(holders[0].pods) == 1 == len(holders[-1].pods)


def _fewest(need: int, holders: Sequence[Holder], amounts: Sequence[int], at_least: int) -> tuple[int, int] | None:
    """Lower bounds on the pods, and on the claims freed besides, to come to `need`."""
    pods = cover(need, [(amount, len(holder.pods)) for holder, amount in zip(holders, amounts, strict=True)])
    if pods is None or sum(len(holder.pods) for holder in holders) < at_least:
        return None
    pods = max(pods, at_least)
    if pods:
        return pods, 0
    freed = 0
    for amount in sorted(
        (amount for holder, amount in zip(holders, amounts, strict=True) if not holder.pods), reverse=True
    ):
        if need <= 0:
            break
        need -= amount
        freed += 1
    return 0, freed


def _copies(holder: Holder) -> Iterable[float]:
    return (holder.since,) * max(1, len(holder.pods))
