"""The running operator: every part put together, started in order and stopped in order.

Start: look at the cluster, probes, loop, watches, Kopf, leadership. Stop (SIGTERM, SIGINT): decide nothing more, let
the writes in flight finish, give the Lease up, end the watches, leave with 0. A second signal leaves at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import structlog

from dra_operator import __version__
from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.connection import Connection
from dra_operator.cluster.rest import CLAIM_GROUPS, CLAIM_REPORTS, RESOURCE_CLAIMS
from dra_operator.operator import preflight
from dra_operator.operator.bridging import Bridging
from dra_operator.operator.election import Election
from dra_operator.operator.election_thread import ElectionThread
from dra_operator.operator.feed import News
from dra_operator.operator.kopf_frame import KopfFrame
from dra_operator.operator.leadership import ENDLESS, Leadership
from dra_operator.operator.loop import Brain, Loop
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.probes import Probes
from dra_operator.operator.settings import Settings
from dra_operator.operator.watches import Watches
from dra_operator.operator.writer import Writer

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: What the old leader may have written right before: listed anew before a new leader decides.
FRESH_FOR_LEADING = (RESOURCE_CLAIMS, CLAIM_REPORTS, CLAIM_GROUPS)


def identity() -> str:
    """This process in the Lease: the pod's name where there is one, and something no other process has."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _note_lost_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Errors nobody waited for. Kopf leaves those of its other watchers behind when one of them ends it; that one is
    told of by the frame."""
    task = context.get("future") or context.get("task")
    name = task.get_name() if isinstance(task, asyncio.Task) else ""
    level = log.debug if name.startswith("watcher for ") else log.error
    level(context.get("message", "error nobody waited for"), task=name, exc_info=context.get("exception"))


class Service:
    """One run. `run` returns after a graceful stop and raises what ends the operator otherwise."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        engine: Callable[[], Brain],
        *,
        metrics: Metrics | None = None,
        signals: bool = True,
        probe_host: str | None = None,
    ) -> None:
        """`signals` False in tests and threads: stop with `stop`. `probe_host` None: listen on all addresses."""
        self.connection = connection
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.identity = identity()
        self.probe_port = 0
        self._engine = engine
        self._signals = signals
        self._probe_host = probe_host
        self._stop = asyncio.Event()
        self._parts: list[asyncio.Task[None]] = []

    @property
    def _bridges(self) -> bool:
        return self.settings.bridge and self.settings.mode == "allocate"

    def stop(self) -> None:
        """Begin the graceful stop; the second time, leave at once."""
        if self._stop.is_set():
            log.warning("leaving at once")
            os._exit(1)
        log.info("stopping")
        self._stop.set()

    async def run(self) -> None:
        """Raises NotFit, Unreachable, NoConnection, OSError (the probe port is taken)."""
        running = asyncio.get_running_loop()
        running.set_exception_handler(_note_lost_error)
        self._take_signals()
        settings, metrics = self.settings, self.metrics
        async with AsyncExitStack() as stack:
            agent = f"dra-operator/{__version__}"
            client = Client(self.connection, settings.client, user_agent=agent, observer=metrics.request)
            await stack.enter_async_context(client)
            lease = settings.leadership.lease_name if settings.leadership.enabled else ""
            look = preflight.check(client, settings.mode, settings.leadership.namespace, lease, bridge=self._bridges)
            served = await self._unless_stopped(look)
            if served is None:
                return

            loop = Loop(self._engine, settings.loop, metrics, start_over=lambda: watches.start_over())
            bridging = None
            if self._bridges:
                bridging = Bridging(client, leads=lambda: leadership.leads(), instance=self.identity)

            def post(news: News) -> None:
                loop.post(news)
                if bridging is not None:
                    bridging.hear(news)

            watches = Watches(client, settings, metrics, post, room=loop.room, served=served)
            election = Election(
                settings.leadership, identity=self.identity,
                changed=lambda: running.call_soon_threadsafe(leadership.look),
                idle_for=lambda: time.monotonic() - loop.last_turn,
            )  # fmt: skip
            leadership = Leadership(
                lambda: election.term if settings.leadership.enabled else ENDLESS, metrics,
                gained=lambda: self._gained(watches, loop), lost=lambda: self._lost(loop, writer),
            )  # fmt: skip
            writer = Writer(
                client, settings, metrics,
                leads=leadership.leads, done=loop.post, clock=time.time, instance=self.identity,
            )  # fmt: skip
            loop.write_through(writer)
            kopf = KopfFrame(self.connection, watches, settings, metrics, take_signals=self._take_signals)
            probes = Probes(
                metrics,
                idle_for=lambda: time.monotonic() - loop.last_turn,
                missing=lambda: watches.missing,
                stale=settings.probes.stale,
            )
            self.probe_port = await probes.start(settings.probes.port, self._probe_host)
            stack.push_async_callback(probes.stop)
            stack.push_async_callback(self._end_parts)
            self._begin("loop", loop.run())
            self._begin("leadership", leadership.run())
            thread = None
            if settings.leadership.enabled:
                thread = ElectionThread(
                    election, self.connection, settings.client, user_agent=agent, observer=metrics.request
                )
                self._begin("election", thread.run())
            else:
                leadership.look()
            if bridging is not None:
                self._begin("bridge", bridging.run())
            self._begin("watches", self._after(leadership.asked, watches.run))
            self._begin("kopf", self._after(leadership.asked, kopf.run))
            log.info("started", identity=self.identity, mode=settings.mode, server=self.connection.server,
                     version=__version__, probes=self.probe_port)  # fmt: skip
            try:
                await self._until_the_end()
            finally:
                loop.stop()
                await writer.stop(settings.loop.stop_grace)
                leadership.resign()
                if thread is not None:
                    await thread.release()
        log.info("stopped")

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` returns; None where somebody asks us to stop before that."""
        working, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            stop.cancel()

    async def _after(self, asked: Callable[[], Awaitable[None]], part: Callable[[], Awaitable[None]]) -> None:
        """Nothing is listed before the first look at the Lease: where it is ours, the first lists serve its leader."""
        await asked()
        await part()

    async def _gained(self, watches: Watches, loop: Loop) -> None:
        """Leading: read again what the leader before us may have written last, then decide."""
        began = time.monotonic()
        await watches.relist([item for item in FRESH_FOR_LEADING if item in watches.feeds])
        log.info("fresh, deciding from now on", seconds=round(time.monotonic() - began, 3))
        loop.lead()

    def _lost(self, loop: Loop, writer: Writer) -> None:
        """Another replica may lead: nothing of what was decided is written any more."""
        loop.follow()
        writer.abandon()

    async def _until_the_end(self) -> None:
        """Until somebody asks us to stop, or a part ends, which none should. Raises what ended it."""
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({stop, *self._parts}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        for part in self._parts:
            if part.done():
                part.result()
                raise RuntimeError(f"{part.get_name()} ended by itself")

    def _begin(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        self._parts.append(asyncio.create_task(part, name=name))

    async def _end_parts(self) -> None:
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)

    def _take_signals(self) -> None:
        if not self._signals:
            return
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(number, self.stop)
