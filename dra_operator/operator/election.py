"""The Lease: one replica holds it at a time. The algorithm is client-go's leader election.

Runs on an event loop of its own (`election_thread`), so that no work of this process keeps a renewal waiting; what follows from
holding the Lease is `leadership`'s. Safe as long as clocks run at about the same speed; what they show does not matter. It guards
against two writers, it does not replace resourceVersions: a write that is under way when the Lease is lost still meets those.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from dra_operator.api.meta import format_micro_time
from dra_operator.cluster.kubernetes.client import Unreachable
from dra_operator.cluster.rest import LEASES, Request, Response
from dra_operator.operator.settings import LeadershipSettings

log = structlog.get_logger(__name__)

#: Seconds a request gets at least, however soon the Lease ends.
SHORTEST = 1.0


class Sender(Protocol):
    async def send(self, request: Request, *, within: float | None = None) -> Response: ...


@dataclass(frozen=True, slots=True)
class Term:
    """A time as leader during which nobody else was. `number` tells it from other terms of this process; it ends at `until`, by the
    steady clock, unless it is renewed before."""

    number: int
    until: float


def since_boot() -> float:
    """A steady clock in seconds that does not stand still while the machine sleeps: others take the Lease over meanwhile."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Election:
    """`keep` the Lease until `resign`; `term` at any time and from any thread.

    Invariant: `term.until` is at most `renew_deadline` after the moment we began the last renewal that succeeded.
    """

    def __init__(
        self,
        settings: LeadershipSettings,
        *,
        identity: str,
        changed: Callable[[], object],
        idle_for: Callable[[], float] = lambda: 0.0,
        steady: Callable[[], float] = since_boot,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`changed` is called after the first look at the Lease and whenever a term begins or ends. `idle_for`: seconds since the
        work was last seen going on that the Lease is for. `clock` only goes into the Lease."""
        self._settings = settings
        self.identity = identity
        self._changed = changed
        self._idle_for = idle_for
        self._steady = steady
        self._clock = clock
        self._sleep = sleep
        self.term: Term | None = None
        """Ours; None: we do not lead. One that has run out may stand here until the next attempt: look at `until`."""
        self._terms = 0
        self._resigned = asyncio.Event()
        #: Whether an attempt has failed since, and what the Lease said of its changes of hands.
        self._failed = False
        self._transitions: int | None = None
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = float("-inf")
        self._path = LEASES.path(settings.namespace, settings.lease_name)

    async def keep(self, sender: Sender) -> None:
        """Get the Lease and renew it; after `resign`, give it up and return, so that another replica need not wait for it to expire."""
        looked = False
        while not self._resigned.is_set():
            await self._attempt(sender)
            if not looked:
                looked = True
                self._changed()
            await self._pause()
        if self.term is not None:
            self._end("resigned")
            await self._give_up(sender)

    def resign(self) -> None:
        """Called on the event loop of `keep`."""
        self._resigned.set()

    async def _pause(self) -> None:
        seconds = self._settings.retry_period * random.uniform(1.0, 1.2)
        left = self._seconds_left()
        if left > 0:
            seconds = min(seconds, left)  # the end is noticed when it comes
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._resigned.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _seconds_left(self) -> float:
        return self.term.until - self._steady() if self.term else 0.0

    # -- one attempt

    async def _attempt(self, sender: Sender) -> None:
        """Get or renew the Lease. Never raises."""
        try:
            reason = await self._get_or_renew(sender)
        except Unreachable as error:
            reason = str(error)
        if reason is None:
            return
        self._failed = True
        if self.term is None:
            log.debug("following", reason=reason)
        elif self._seconds_left() <= 0:
            self._end(reason)
        else:
            log.warning("the Lease could not be renewed", reason=reason)

    async def _get_or_renew(self, sender: Sender) -> str | None:
        """None where we hold it now, else why not."""
        if (idle := self._idle_for()) > self._settings.longest_stall:
            return f"the allocation loop has not turned for {idle:.0f} s; another replica may do better"
        began = self._steady()
        response = await sender.send(Request("GET", self._path), within=self._within())
        if response.status == 404:
            lease = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._settings.lease_name, "namespace": self._settings.namespace},
                "spec": self._spec({}),
            }
            request = Request("POST", LEASES.path(self._settings.namespace), lease)
            return self._judge(await sender.send(request, within=self._within()), began)
        if not response.ok:
            return response.message
        spec = response.body.get("spec") or {}
        self._look_at(spec)
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity):
            if self.term is not None:
                self._end(f"{holder} holds the Lease")
            # Their duration, by our clock, from when we first saw their last renewal.
            duration = spec.get("leaseDurationSeconds") or self._settings.lease_duration
            if self._steady() < self._seen_at + duration:
                return f"{holder} leads"
        request = Request("PUT", self._path, {**response.body, "spec": self._spec(spec)})
        return self._judge(await sender.send(request, within=self._within()), began)

    def _look_at(self, spec: dict[str, Any]) -> None:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, self._steady()

    def _judge(self, answer: Response, began: float) -> str | None:
        if not answer.ok:
            return answer.message
        transitions = ((answer.body or {}).get("spec") or {}).get("leaseTransitions")
        if self.term is not None and self._seconds_left() <= 0 and (self._failed or transitions != self._transitions):
            # It ran out while the API server was away and nobody else took it. Others wrote nothing as leader, but what
            # we know may be old: start as if it had been lost. Where no attempt failed the whole process stood still:
            # nothing was written meanwhile, and a fresh start would take what it had too little of, processor time.
            self._end("the renewal came too late")
        self._failed, self._transitions = False, transitions
        # The moment before the first request of this attempt: the others count from later than that.
        until = began + self._settings.renew_deadline
        if self.term is not None:
            self.term = replace(self.term, until=until)
            return None
        self._terms += 1
        self.term = Term(self._terms, until)
        log.info("holding the Lease", identity=self.identity)
        self._changed()
        return None

    def _within(self) -> float:
        """Seconds for a request: two attempts fit into the deadline, and none lasts long after it."""
        longest = self._settings.renew_deadline / 2
        return longest if self.term is None else max(SHORTEST, min(longest, self._seconds_left()))

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = format_micro_time(self._clock())
        mine = before.get("holderIdentity") == self.identity
        return {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._settings.lease_duration),
            "renewTime": now,
            "acquireTime": before.get("acquireTime") if mine and before.get("acquireTime") else now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (0 if mine else 1),
        }

    def _end(self, reason: str) -> None:
        self.term = None
        log.info("the Lease is not ours any more", identity=self.identity, reason=reason)
        self._changed()

    async def _give_up(self, sender: Sender) -> None:
        try:
            response = await sender.send(Request("GET", self._path), within=2.0)
            spec = response.body.get("spec") or {} if response.ok else {}
            if spec.get("holderIdentity") == self.identity:
                free = {**response.body, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
                await sender.send(Request("PUT", self._path, free), within=2.0)
        except Unreachable as error:
            log.warning("the Lease could not be released; it expires by itself", reason=str(error))
