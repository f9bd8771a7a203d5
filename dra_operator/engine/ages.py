"""How long claims have been there, by our own clock. The API server's may be ahead of it or behind.

A creation time that lies ahead would keep a bare claim waiting until our clock gets there; one that seems long past would have a new
claim taken for bare before its pod has been seen.
"""

from __future__ import annotations

from dra_operator.engine.view import SeenClaim

#: Creation times are cut to seconds, and a watch event takes a moment: by so much a new claim may look older than it is.
_CUT = 1.5


def note_first_sight(seen: SeenClaim, now: float, *, listed: bool) -> None:
    """Settle since when the claim is there. `listed`: it may have been there for long before we saw it, as its creation time says."""
    if seen.since is None:
        created = seen.claim.meta.created
        since = now if created is None else min(created, now)
        seen.since = since if listed else max(since, now - _CUT)


def since(seen: SeenClaim, now: float) -> float:
    """Seconds since the epoch by our own clock; `now` for a claim that is looked at for the first time."""
    return now if seen.since is None else seen.since
