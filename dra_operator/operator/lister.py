"""Whole lists of one kind that Kopf watches, on demand, and no more of them than are wanted.

At start the same list is wanted twice: to know the kind at all, and to know it as it is after the Lease was won. A list
of ten thousand claims costs seconds of work on both sides, so wishes that come before it begins share it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from dra_operator.cluster.kubernetes.client import Client, Unreachable
from dra_operator.cluster.kubernetes.listing import ListFailed, Sink, read_all
from dra_operator.cluster.kubernetes.settings import WatchSettings
from dra_operator.cluster.rest import Resource

log = structlog.get_logger(__name__)


class Lister:
    """Hands lists to `sink`, one at a time."""

    def __init__(
        self, client: Client, resource: Resource, sink: Sink, settings: WatchSettings, *, failed: Callable[[], None]
    ) -> None:
        self.resource = resource
        self._client = client
        self._sink = sink
        self._settings = settings
        self._failed = failed
        self._lock = asyncio.Lock()
        self._begun = self._done = 0
        self.revision = ""
        """The resourceVersion of the last list."""

    async def read(self) -> None:
        """Return when a list that began after this call is with the sink, however long the API server takes."""
        await self._reach(self._begun + 1)

    async def read_first(self) -> None:
        """Return when any list is with the sink."""
        await self._reach(1)

    async def _reach(self, number: int) -> None:
        pause = self._settings.pause
        while True:
            async with self._lock:
                if self._done >= number:
                    return
                self._begun += 1
                begun = self._begun
                try:
                    self.revision = await read_all(self._client, self.resource, self._settings, self._sink)
                    self._done = begun
                    return
                except (ListFailed, Unreachable) as error:
                    self._failed()
                    log.warning("list failed", kind=self.resource.kind, reason=str(error), retry_in=round(pause, 2))
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, self._settings.longest_pause)
