"""How to talk to an API server: every number of this package, with its unit, default and reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Ordinary requests (not watches)."""

    request_timeout: float = 30.0
    """Seconds for one attempt, answer included. Default 30: half of the API server's own limit of 60, so that we
    hear of a stuck server before it gives up; no object or page we ask for takes seconds."""

    connect_timeout: float = 5.0
    """Seconds to connect, TLS included. Default 5: a failover of the API server's address must be noticed well within
    the renew deadline of the Lease (10 s)."""

    attempts: int = 4
    """How often a request is sent in all when the server answers 429 or 503. Default 4: three pauses of about a second
    ride out a throttled moment; beyond that the caller decides with fresh state. Connection errors are not retried
    here: the write may have happened, and only the caller can tell."""

    retry_pause: float = 1.0
    """Seconds before the second attempt where the server names none (Retry-After), doubled each time. Default 1."""

    longest_pause: float = 10.0
    """Seconds; a longer Retry-After is cut to this. Default 10: state older than that is not worth sending."""

    concurrency: int = 64
    """Requests in flight at once (the Lease has a client of its own). Default 64: enough to keep a small API
    server busy, below what priority-and-fairness lets one ordinary flow have on a default control plane."""

    token_refresh: float = 60.0
    """Seconds after which a bearer token is read again. Default 60: kubelet rotates them at 80 % of one hour."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Lists and watches."""

    page: int = 500
    """Objects a LIST answers at once. Default 500, as client-go: a page of slices stays below some 10 MB."""

    list_timeout: float = 60.0
    """Seconds for one page. Default 60: the API server's own request timeout."""

    stream_seconds: int = 290
    """Seconds after which the server is asked to end a watch, ± 10 %. Default 290: below common proxy limits of five
    minutes; spread, so that the watches do not all come back at once."""

    silence: float = 90.0
    """Seconds without a byte before a watch counts as dead. Default 90: bookmarks come about every minute."""

    pause: float = 0.2
    """Seconds before the first retry after an error, doubled each time, with jitter. Default 0.2: a restarted API
    server is back within seconds and everything here waits for it."""

    longest_pause: float = 10.0
    """Seconds the doubling ends at. Default 10: the operator should be back soon after the server is."""
