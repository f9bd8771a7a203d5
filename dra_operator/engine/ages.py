"""How long things have been so, by our own clock. The API server's, another leader's and a kubelet's may be ahead of it or behind.

A creation time that lies ahead would keep a bare claim waiting until our clock gets there; one that seems long past would have a new
claim taken for bare before its pod has been seen. So it is with the time at which a leader before us took a pod's gate off.
"""

from __future__ import annotations

from dra_operator.engine.view import SeenClaim

#: Creation times are cut to seconds, and a watch event takes a moment: by so much a new claim may look older than it is.
_CUT = 1.5


def note_first_sight(seen: SeenClaim, now: float, *, listed: bool) -> None:
    """Settle since when the claim is there. `listed`: it may have been there for long before we saw it, as its creation time says."""
    if seen.since is None:
        created = seen.claim.meta.created
        seen.since = seen_at_first(now if created is None else created, now, listed=listed)


def seen_at_first(told: float, now: float, *, listed: bool) -> float:
    """Since when something is so, by our clock, that somebody else's clock has told a time of, and that we see for the first time."""
    since = min(told, now)
    return since if listed else max(since, now - _CUT)


def end_of(started: float, lasts: float, now: float) -> float:
    """When ends what runs now, began at a time by somebody else's clock, and lasts so many seconds: not before now, and no later than
    if it had begun now."""
    return max(min(started, now) + lasts, now)


def since(seen: SeenClaim, now: float) -> float:
    """Seconds since the epoch by our own clock; `now` for a claim that is looked at for the first time."""
    return now if seen.since is None else seen.since
