"""Every source of news, and the feeds they fill: reflectors for the many and fat kinds, Kopf plus own lists for ours.

Kopf's watchers tell changes; these lists tell what Kopf does not: that a kind is complete, and what was deleted while a
watch was interrupted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Any

import structlog

from dra_operator.cluster.kubernetes.client import Client, Unreachable
from dra_operator.cluster.kubernetes.lean import lean
from dra_operator.cluster.kubernetes.listing import EventType, ListFailed, read_all
from dra_operator.cluster.kubernetes.reflector import Reflector
from dra_operator.cluster.rest import ENGINE_KINDS, OPERATOR_GROUP, RESOURCE_SLICES, Resource
from dra_operator.operator.feed import Feed, News, Replaced
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import Settings

log = structlog.get_logger(__name__)

#: Of the DRA kinds, slices are too fat for Kopf and taint rules belong to them (design §3.4).
NOT_FOR_KOPF = (RESOURCE_SLICES.plural, "devicetaintrules")


def watched_by_kopf(resource: Resource) -> bool:
    """Claims, templates, classes and our own kinds."""
    return resource.group in ("resource.k8s.io", OPERATOR_GROUP) and resource.plural not in NOT_FOR_KOPF


class Watches:
    """`run` until cancelled. One Feed for every kind of the engine; kinds not served here count as empty."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        post: Callable[[News], None],
        *,
        served: Collection[Resource],
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._post = post
        self._absent = [resource for resource in ENGINE_KINDS if resource not in served]
        kinds = [resource for resource in ENGINE_KINDS if resource in served]
        self.feeds = {
            resource: Feed(resource, post, metrics, ordered=not watched_by_kopf(resource)) for resource in kinds
        }
        self.kopf_kinds = [resource for resource in kinds if watched_by_kopf(resource)]
        self._reflectors = {
            resource: Reflector(client, resource, self.feeds[resource], settings.watch, restarted=self._count)
            for resource in kinds
            if not watched_by_kopf(resource)
        }
        self._locks = {resource: asyncio.Lock() for resource in self.kopf_kinds}
        self._signs = {resource: asyncio.Event() for resource in self.kopf_kinds}

    @property
    def synced(self) -> bool:
        return all(feed.synced for feed in self.feeds.values())

    @property
    def missing(self) -> list[str]:
        """Kinds whose first list is not complete yet."""
        return [resource.kind for resource, feed in self.feeds.items() if not feed.synced]

    async def run(self) -> None:
        self._tell_absent()
        async with asyncio.TaskGroup() as tasks:
            for resource, reflector in self._reflectors.items():
                tasks.create_task(reflector.run(), name=f"reflector {resource.plural}")
            for resource in self.kopf_kinds:
                tasks.create_task(self._audit(resource), name=f"audit {resource.plural}")

    # -- Kopf's side

    def kopf_event(self, resource: Resource, type: str | None, item: dict[str, Any]) -> None:
        """What a Kopf handler was given. `type` None comes from a list of Kopf's own."""
        feed = self.feeds[resource]
        if type is None and feed.synced and not feed.is_news(item):
            # Kopf lists again what we know already: its watch was interrupted, and it will not say what is gone.
            self._signs[resource].set()
        lean(resource.kind)(item)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        known: EventType = "DELETED" if type == "DELETED" else "ADDED" if type == "ADDED" else "MODIFIED"
        feed.event(resource, known, item)

    def kopf_interrupted(self) -> None:
        """Kopf ended: whatever happens until it watches again must be found by a list."""
        for sign in self._signs.values():
            sign.set()

    # -- lists

    async def relist(self, resources: Collection[Resource]) -> None:
        """Return when every one of `resources` has been listed anew, however long the API server takes."""
        async with asyncio.TaskGroup() as tasks:
            for resource in resources:
                if resource in self._reflectors:
                    tasks.create_task(self._reflectors[resource].relist())
                elif resource in self._locks:
                    tasks.create_task(self._read(resource))

    async def start_over(self) -> None:
        """Forget what was told and tell everything again. Returns when all is told."""
        # Before the first await: from here on every piece of news goes to whoever asked for this.
        for feed in self.feeds.values():
            feed.reset()
        self._tell_absent()
        await self.relist(tuple(self.feeds))

    def _tell_absent(self) -> None:
        for resource in self._absent:
            self._post(Replaced(resource.kind, set(), first=True))

    async def _audit(self, resource: Resource) -> None:
        await self._read(resource)
        sign = self._signs[resource]
        # Kopf lists by itself when it starts, which looks like an interruption; one audit after that is welcome: it
        # finds what was deleted between our list and Kopf's.
        while True:
            try:
                async with asyncio.timeout(self._settings.audit.interval * random.uniform(0.9, 1.1)):
                    await sign.wait()
                await asyncio.sleep(self._settings.audit.after_interruption)
                self._count(resource, "KopfListedAgain")
            except TimeoutError:
                pass
            sign.clear()
            await self._read(resource)

    async def _read(self, resource: Resource) -> None:
        """One whole list into the feed, tried until it succeeds."""
        pause = self._settings.watch.pause
        while True:
            try:
                async with self._locks[resource]:
                    await read_all(self._client, resource, self._settings.watch, self.feeds[resource])
                return
            except (ListFailed, Unreachable) as error:
                self._count(resource, "ListFailed")
                log.warning("list failed", kind=resource.kind, reason=str(error), retry_in=round(pause, 2))
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, self._settings.watch.longest_pause)

    def _count(self, resource: Resource, reason: str) -> None:
        self._metrics.watch_restarts.labels(resource.kind, reason).inc()
