"""Keep a `Sink` up to date with one kind: LIST, then WATCH from there, for ever.

Kopf's watcher takes every event through a task per object, and does not tell what was deleted while it was away. Not a
cache: the sink keeps what it wants.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from dra_operator.cluster.kubernetes.client import THROTTLED, Client, NotConnected, Unreachable, WatchRefused
from dra_operator.cluster.kubernetes.lean import lean
from dra_operator.cluster.kubernetes.listing import ListFailed, Sink, key_of, read_all
from dra_operator.cluster.kubernetes.settings import WatchSettings
from dra_operator.cluster.rest import Resource

log = structlog.get_logger(__name__)

#: Errors in a row of a server that is there and not too busy, without one event between them, after which resuming is given up for a new
#: list.
RESUMES = 3


#: The types of events that tell of an object.
CHANGES = ("ADDED", "MODIFIED", "DELETED")


class Gone(Exception):
    """The server no longer knows our resourceVersion: only a new list helps."""


def _uncounted(resource: Resource, reason: str) -> None:
    return None


class Reflector:
    """One kind. `run` until cancelled; `relist` for a fresh list at any time.

    Invariant: after every `Sink.listed(…, revision)` the events follow from exactly that revision, none missing, none
    twice unless a list repeats them.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        sink: Sink,
        settings: WatchSettings,
        *,
        restarted: Callable[[Resource, str], None] = _uncounted,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`restarted(resource, reason)` is told of every interruption: Expired, Error, Refused, ListFailed, Asked."""
        self.resource = resource
        self._client = client
        self._sink = sink
        self._settings = settings
        self._restarted = restarted
        self._sleep = sleep
        self._slim = lean(resource.kind)
        self._revision = ""
        self._failures = 0
        self._asked = asyncio.Event()
        self._once = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []

    async def relist(self) -> None:
        """Return when a list that began after this call has been handed to the sink."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._asked.set()
        await done

    async def listed(self) -> None:
        """Return when a list has been handed to the sink for the first time."""
        await self._once.wait()

    async def run(self) -> None:
        while True:
            try:
                await self._list()
                await self._until_asked(self._follow())
                self._restarted(self.resource, "Asked")
            except Gone:
                self._restarted(self.resource, "Expired")
            except (ListFailed, Unreachable) as error:
                self._restarted(self.resource, "ListFailed")
                await self._back_off("list", error)

    async def _list(self) -> None:
        self._asked.clear()
        waiting, self._waiting = self._waiting, []
        try:
            self._revision = await read_all(self._client, self.resource, self._settings, self._sink)
        except BaseException:
            self._waiting = waiting + self._waiting
            raise
        for done in waiting:
            if not done.done():
                done.set_result(None)
        self._failures = 0
        self._once.set()

    async def _until_asked(self, following: Any) -> None:
        """Follow the watch until somebody wants a list. Raises what `following` raises."""
        stream = asyncio.ensure_future(following)
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({stream, asked}, return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()
        finally:
            stream.cancel()
            asked.cancel()
            # Not by awaiting them one by one: that would take our own cancellation for theirs.
            await asyncio.wait({stream, asked})
            if not stream.cancelled():
                stream.exception()  # taken note of: raised above, or overtaken by the wish for a list

    async def _follow(self) -> None:
        """Watch, and watch again from the last revision seen, until that is gone. Raises Gone."""
        loop = asyncio.get_running_loop()
        failed = 0
        while True:
            began, before = loop.time(), self._revision
            try:
                await self._stream()
                failed = 0
                if loop.time() - began < 1.0 and self._revision == before:
                    # A fresh API server ends its first watches at once; do not turn that into a hot loop.
                    await self._back_off("watch", "ended at once", quietly=True)
                else:
                    self._failures = 0
            except WatchRefused as error:
                if error.response.status == 410:
                    raise Gone from None
                self._restarted(self.resource, "Refused")
                # A busy server is not relieved by a list.
                failed += error.response.status not in THROTTLED
                await self._back_off("watch", error, at_least=error.retry_after or 0.0)
            except Unreachable as error:
                self._restarted(self.resource, "Error")
                # Of our revision a server that is away says nothing, and a list by everybody is the last it needs when it is back.
                failed += not isinstance(error, NotConnected)
                await self._back_off("watch", error)
            if self._revision != before:
                failed = 0
            if failed >= RESUMES:
                raise Gone

    async def _stream(self) -> None:
        seconds = int(self._settings.stream_seconds * random.uniform(0.9, 1.1))
        query = {
            "resourceVersion": self._revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        async for events in self._client.watch(self.resource.path(), query, silence=self._settings.silence):
            for event in events:
                self._take(*self._read(event))

    def _read(self, event: Any) -> tuple[str, dict[str, Any], str]:
        """Type, object and its revision. Raises Gone, and Unreachable for anything that is no event of an API server's."""
        try:
            change, item = event["type"], event["object"]
            if change == "ERROR":
                if item.get("code") == 410 or item.get("reason") in ("Expired", "Gone"):
                    raise Gone
                raise Unreachable(f"error in the watch of {self.resource.plural}: {item.get('message') or item}")
            if change in CHANGES:
                key_of(item)
            return change, item, item["metadata"]["resourceVersion"]
        except (AttributeError, KeyError, TypeError):
            raise Unreachable(f"no event in the watch of {self.resource.plural}: {str(event)[:200]}") from None

    def _take(self, type: str, item: dict[str, Any], revision: str) -> None:
        if type in CHANGES:
            self._slim(item)
            self._sink.event(self.resource, type, item)  # type: ignore[arg-type]
        self._revision = revision
        self._failures = 0

    async def _back_off(self, doing: str, reason: object, *, at_least: float = 0.0, quietly: bool = False) -> None:
        """`at_least`: seconds that the server asks for, up to our own longest pause."""
        pause = min(self._settings.pause * 2**self._failures, self._settings.longest_pause) * random.uniform(0.8, 1.2)
        if at_least:
            pause = max(pause, min(at_least, self._settings.longest_pause) * random.uniform(1.0, 1.2))
        self._failures = min(self._failures + 1, 16)
        if not quietly:
            kind, why = self.resource.kind, str(reason)
            log.warning("watch interrupted", kind=kind, doing=doing, reason=why, retry_in=round(pause, 2))
        await self._sleep(pause)
