"""Every source of news, and the feeds they fill: a reflector for every kind, and Kopf's handlers as a second source for some.

Kopf processes every event in a task of the object's own, a third of a millisecond and some five turns of the event loop, and does not
tell what was deleted while its watch was interrupted. So the reflectors come first, and Kopf starts when their lists are through: what
its handlers are given is then known already, unless a watch of ours has got stuck, and Kopf's filters leave it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.lean import lean
from dra_operator.cluster.kubernetes.listing import EventType
from dra_operator.cluster.kubernetes.reflector import Reflector
from dra_operator.cluster.rest import CLAIM_REPORTS, ENGINE_KINDS, OPERATOR_GROUP, RESOURCE_SLICES, Resource
from dra_operator.operator.feed import Feed, News, Replaced
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import Settings

#: Of the DRA kinds, slices are too fat for Kopf and taint rules belong to them. ClaimReports are as many as
#: claims, and tell only us what we wrote: a task of Kopf's for each would be most of what Kopf does.
NOT_FOR_KOPF = (RESOURCE_SLICES.plural, "devicetaintrules", CLAIM_REPORTS.plural)


def watched_by_kopf(resource: Resource) -> bool:
    """Claims, templates, classes and what people write of our own kinds."""
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
        room: Callable[[], Awaitable[None]],
        served: Collection[Resource],
    ) -> None:
        self._metrics = metrics
        self._post = post
        self._absent = [resource for resource in ENGINE_KINDS if resource not in served]
        kinds = [resource for resource in ENGINE_KINDS if resource in served]
        self.feeds = {resource: Feed(resource, post, metrics, room=room) for resource in kinds}
        self.kopf_kinds = [resource for resource in kinds if watched_by_kopf(resource)]
        self._reflectors = {
            resource: Reflector(client, resource, self.feeds[resource], settings.watch, restarted=self._count)
            for resource in kinds
        }

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

    # -- Kopf's side

    def kopf_is_first(self, resource: Resource, item: dict[str, Any]) -> bool:
        """Whether what a Kopf handler is about to be given has not been told by our own watch."""
        return self.feeds[resource].is_news(item)

    def kopf_event(self, resource: Resource, type: str | None, item: dict[str, Any]) -> None:
        """What a Kopf handler was given. `type` None comes from a list of Kopf's own."""
        lean(resource.kind)(item)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        known: EventType = "DELETED" if type == "DELETED" else "ADDED" if type == "ADDED" else "MODIFIED"
        self.feeds[resource].overtaken(known, item)

    # -- lists

    async def listed(self) -> None:
        """Return when every kind that Kopf watches has been listed by us."""
        await asyncio.gather(*(self._reflectors[resource].listed() for resource in self.kopf_kinds))

    async def relist(self, resources: Collection[Resource]) -> None:
        """Return when every one of `resources` has been listed anew, however long the API server takes."""
        async with asyncio.TaskGroup() as tasks:
            for resource in resources:
                tasks.create_task(self._reflectors[resource].relist())

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

    def _count(self, resource: Resource, reason: str) -> None:
        self._metrics.watch_restarts.labels(resource.kind, reason).inc()
