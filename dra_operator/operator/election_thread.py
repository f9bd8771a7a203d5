"""The election on a thread of its own, with its own event loop and connection to the API server.

A pass of the engine lets nothing else run on the main event loop, and neither does a list of ten thousand claims while it is decoded;
the interpreter still hands over to other threads every few milliseconds. Knows nothing of leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

from dra_operator.cluster.kubernetes.client import Client, Observer
from dra_operator.cluster.kubernetes.connection import Connection
from dra_operator.cluster.kubernetes.settings import ClientSettings
from dra_operator.operator.election import Election

#: Seconds that giving up the Lease may take.
GRACE = 6.0


class ElectionThread:
    """`run` once on the main event loop, until cancelled; `release` ends it in order."""

    def __init__(
        self,
        election: Election,
        connection: Connection,
        settings: ClientSettings,
        *,
        user_agent: str,
        observer: Observer,
    ) -> None:
        """`observer` is called on the thread."""
        self._election = election
        # Its own copy: what is read again from time to time is not shared between threads.
        self._connection = replace(connection)
        # The election has its own pauses; one that the API server asks for may be longer than the Lease lasts.
        self._settings = replace(settings, attempts=1)
        self._user_agent = user_agent
        self._observer = observer
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Return when the election has ended. Raises what ended it."""
        main = asyncio.get_running_loop()
        threading.Thread(target=self._live, args=(main,), name="election", daemon=True).start()
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            self._tell(self._abort)
            raise
        if self._error is not None:
            raise self._error

    async def release(self) -> None:
        """Give the Lease up, for a few seconds at most. Never raises."""
        self._tell(self._election.resign)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._ended.wait()

    def _live(self, main: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._keep())
        except BaseException as error:  # it is raised where somebody waits for this thread
            self._error = error
        with contextlib.suppress(RuntimeError):  # the main event loop is closed: nobody waits
            main.call_soon_threadsafe(self._ended.set)

    async def _keep(self) -> None:
        self._task = asyncio.current_task()
        async with Client(
            self._connection, self._settings, user_agent=self._user_agent, observer=self._observer
        ) as client:
            await self._election.keep(client)

    def _abort(self) -> None:
        self._election.resign()
        if self._task is not None:
            self._task.cancel()

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(what)
