"""One replica writes: the one that holds the Lease. The algorithm is client-go's leader election.

Safe as long as clocks run at about the same speed; what they show does not matter. It guards against two writers, it
does not replace resourceVersions: a write that is under way when the Lease is lost still meets those.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from dra_operator.api.meta import format_micro_time
from dra_operator.cluster.kubernetes.client import Unreachable
from dra_operator.cluster.rest import LEASES, Request, Response
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import LeadershipSettings
from dra_operator.operator.writer import Sender

log = structlog.get_logger(__name__)


class Leadership:
    """`run` until cancelled; `leads` at any time.

    Invariant: `leads()` is True only within `renew_deadline` of the moment we began the last renewal that succeeded.
    """

    def __init__(
        self,
        sender: Sender,
        settings: LeadershipSettings,
        metrics: Metrics,
        *,
        identity: str,
        gained: Callable[[], Awaitable[None]],
        lost: Callable[[], None],
        steady: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`gained` runs as a task, cancelled if leadership is lost meanwhile. `clock` only goes into the Lease."""
        self._sender = sender
        self._settings = settings
        self._metrics = metrics
        self.identity = identity
        self._gained = gained
        self._lost = lost
        self._steady = steady
        self._clock = clock
        self._sleep = sleep
        self._held = False
        self._renewed = float("-inf")
        #: Whether an attempt has failed since, and what the Lease said of its changes of hands.
        self._failed = False
        self._transitions: int | None = None
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = float("-inf")
        self._taking_over: asyncio.Task[None] | None = None
        self._path = LEASES.path(settings.namespace, settings.lease_name)
        self._asked = asyncio.Event()
        self._released = False
        #: Renewing and releasing do not mix: the later write would be refused, or take the Lease again.
        self._turn = asyncio.Lock()

    def leads(self) -> bool:
        """Cheap: asked before every write."""
        if not self._settings.enabled:
            return True
        return self._held and self._steady() < self._renewed + self._settings.renew_deadline

    def seconds_left(self) -> float:
        """How long `leads` stays True without another renewal; endless where nobody asks for the Lease."""
        if not self._settings.enabled:
            return float("inf")
        return max(0.0, self._renewed + self._settings.renew_deadline - self._steady()) if self._held else 0.0

    async def asked(self) -> None:
        """Return when it is known for the first time whether the Lease is ours."""
        await self._asked.wait()

    async def run(self) -> None:
        if not self._settings.enabled:
            self._begin()
            self._asked.set()
            await asyncio.Event().wait()
        try:
            while True:
                await self._attempt()
                self._asked.set()
                await self._sleep(self._settings.retry_period * random.uniform(1.0, 1.2))
        finally:
            if self._taking_over:
                self._taking_over.cancel()

    async def release(self) -> None:
        """Give the Lease up, so that another replica need not wait for it to expire. Never raises."""
        self._released = True
        if not self._settings.enabled or not self.leads():
            return
        self._end("released")
        async with self._turn:
            await self._give_up()

    async def _give_up(self) -> None:
        try:
            response = await self._sender.send(Request("GET", self._path), urgent=True, within=2.0)
            if response.ok and (response.body.get("spec") or {}).get("holderIdentity") == self.identity:
                spec = {**response.body["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._put({**response.body, "spec": spec})
        except Unreachable as error:
            log.warning("the Lease could not be released; it expires by itself", reason=str(error))

    # -- one attempt

    async def _attempt(self) -> None:
        """Get or renew the Lease. Never raises."""
        try:
            async with self._turn:
                reason = None if self._released else await self._get_or_renew()
        except Unreachable as error:
            reason = str(error)
        if reason is None:
            return
        self._failed = True
        if self._held and not self.leads():
            self._end(reason)
        elif not self._held:
            log.debug("following", reason=reason)
        else:
            log.warning("the Lease could not be renewed", reason=reason)

    async def _get_or_renew(self) -> str | None:
        """None where we hold it now, else why not."""
        began = self._steady()
        response = await self._sender.send(Request("GET", self._path), urgent=True, within=self._within)
        if response.status == 404:
            lease = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._settings.lease_name, "namespace": self._settings.namespace},
                "spec": self._spec({}),
            }
            path = LEASES.path(self._settings.namespace)
            answer = await self._sender.send(Request("POST", path, lease), urgent=True, within=self._within)
            return self._judge(answer, began)
        if not response.ok:
            return response.message
        spec = response.body.get("spec") or {}
        self._look_at(spec)
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity):
            if self._held:
                self._end(f"{holder} holds the Lease")
            # Their duration, by our clock, from when we first saw their last renewal.
            duration = spec.get("leaseDurationSeconds") or self._settings.lease_duration
            if self._steady() < self._seen_at + duration:
                return f"{holder} leads"
        return self._judge(await self._put({**response.body, "spec": self._spec(spec)}), began)

    def _look_at(self, spec: dict[str, Any]) -> None:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, self._steady()

    def _judge(self, answer: Response, began: float) -> str | None:
        if not answer.ok:
            return answer.message
        if self._released:
            return "released"
        transitions = ((answer.body or {}).get("spec") or {}).get("leaseTransitions")
        if self._held and not self.leads() and (self._failed or transitions != self._transitions):
            # It ran out while the API server was away and nobody else took it. Others wrote nothing as leader, but what
            # we know may be old: start as if it had been lost. Where no attempt failed it was our own doing, a pass that took
            # longer than the Lease: nothing was written meanwhile, and a fresh engine would only take as long again.
            self._end("the renewal came too late")
        # The moment before the first request of this attempt: the others count from later than that.
        self._renewed, self._failed, self._transitions = began, False, transitions
        if not self._held:
            self._begin()
        return None

    @property
    def _within(self) -> float:
        return self._settings.renew_deadline / 2

    async def _put(self, lease: dict[str, Any]) -> Response:
        return await self._sender.send(Request("PUT", self._path, lease), urgent=True, within=self._within)

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

    # -- transitions

    def _begin(self) -> None:
        self._held = True
        self._metrics.leader.set(1)
        self._metrics.leadership_changes.labels("gained").inc()
        log.info("leading", identity=self.identity)
        self._taking_over = asyncio.get_running_loop().create_task(self._take_over(), name="take over")

    async def _take_over(self) -> None:
        await self._gained()

    def _end(self, reason: str) -> None:
        self._held = False
        self._metrics.leader.set(0)
        self._metrics.leadership_changes.labels("lost").inc()
        log.info("no longer leading", identity=self.identity, reason=reason)
        if self._taking_over:
            self._taking_over.cancel()
            self._taking_over = None
        self._lost()
