"""Fill and give back: a small set of victims where there are too many sets to compare them all.

Takes candidates in order until the unit fits, then gives back, last first, each one it can do without. Not always the best set, but
never one with an unneeded victim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dra_operator.preemption.site import Allowance, Candidate, Charges

Suffices = Callable[[Sequence[Candidate]], bool]


def fill(candidates: Sequence[Candidate], suffices: Suffices, allowance: Allowance) -> list[list[Candidate]]:
    """Sets that suffice, without an unneeded member: one from the cheapest victims up, one from those that free most;
    where gangs can spare members, one that takes whole gangs first."""
    found = []
    orders = (cheapest, _largest, _whole) if any(item.holder.repeats for item in candidates) else (cheapest, _largest)
    for order in orders:
        ordered = affordable(sorted(candidates, key=order), allowance)
        if not ordered or not suffices(ordered):
            continue
        found.append(give_back(ordered[: _shortest(ordered, suffices)], suffices))
    return found


def give_back(chosen: list[Candidate], suffices: Suffices) -> list[Candidate]:
    """Without those that are not needed; the last are tried first."""
    for item in reversed(list(chosen)):
        rest = [other for other in chosen if other is not item]
        if rest and suffices(rest):
            chosen = rest
    return chosen


def _shortest(ordered: list[Candidate], suffices: Suffices) -> int:
    """How many of the first suffice: more never serve less, so halving finds it."""
    low, high = 1, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if suffices(ordered[:middle]):
            high = middle
        else:
            low = middle + 1
    return low


def affordable(ordered: Sequence[Candidate], allowance: Allowance) -> list[Candidate]:
    """Those that may all go together, earlier ones first."""
    total: Charges = {}
    kept = []
    for item in ordered:
        if all(total.get(key, 0) + count <= allowance(key) for key, count in item.charges.items()):
            for key, count in item.charges.items():
                total[key] = total.get(key, 0) + count
            kept.append(item)
    return kept


def cheapest(item: Candidate) -> tuple[object, ...]:
    holder = item.holder
    return bool(holder.pods), holder.priority, len(holder.pods), -holder.since, holder.devices, holder.uid


def _largest(item: Candidate) -> tuple[object, ...]:
    holder = item.holder
    return bool(holder.pods), -item.amount / max(1, len(holder.pods)), holder.priority, -holder.since, holder.uid


def _whole(item: Candidate) -> tuple[object, ...]:
    return not item.holder.repeats, *_largest(item)
