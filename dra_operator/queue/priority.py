"""Effective priority: the base priority plus what waiting adds. It orders the queue, and nothing else."""

from __future__ import annotations

from dra_operator.api.policy import Starvation


def effective_priority(base: int, waited: float, terms: Starvation) -> int:
    """`waited` in seconds. The boost starts after `terms.after` and grows by whole minutes up to `max_boost`.

    Preemption compares base priorities only, so that waiting long never lets a batch job evict production.
    """
    beyond = waited - terms.after
    if beyond <= 0 or terms.boost_per_minute == 0:
        return base
    return base + min(terms.max_boost, int(beyond // 60) * terms.boost_per_minute)


def next_boost(waited: float, terms: Starvation) -> float | None:
    """Seconds until the boost grows next, None when it does not grow any more."""
    if terms.boost_per_minute == 0 or terms.max_boost == 0:
        return None
    minutes = max(0, int((waited - terms.after) // 60))
    if minutes * terms.boost_per_minute >= terms.max_boost:
        return None
    return terms.after + (minutes + 1) * 60 - waited
