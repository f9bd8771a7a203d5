"""Every source of news, and the feeds they fill: reflectors for the many and fat kinds, Kopf plus own lists for ours.

Kopf's watchers tell changes; these lists tell what Kopf does not: that a kind is complete, and what was deleted while a
watch was interrupted. The first state comes from a list of ours as well: Kopf handles every object of its own first list
in a task, which takes it a millisecond each, and 10,000 claims would keep the first decision waiting. So Kopf starts when
our lists are through, and until it is through with its own, which hold little news, a watch of ours bridges the gap:
it shows at once what the first decisions wrote, and what is deleted meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.lean import lean
from dra_operator.cluster.kubernetes.listing import EventType
from dra_operator.cluster.kubernetes.reflector import Reflector
from dra_operator.cluster.rest import CLAIM_REPORTS, ENGINE_KINDS, OPERATOR_GROUP, RESOURCE_SLICES, Resource
from dra_operator.operator.feed import Feed, News, Replaced
from dra_operator.operator.lister import Lister
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import Settings

#: Of the DRA kinds, slices are too fat for Kopf and taint rules belong to them. ClaimReports are as many as
#: claims, and tell only us what we wrote: a task of Kopf's for each would be most of what Kopf does.
NOT_FOR_KOPF = (RESOURCE_SLICES.plural, "devicetaintrules", CLAIM_REPORTS.plural)


def watched_by_kopf(resource: Resource) -> bool:
    """Claims, templates, classes and what people write of our own kinds."""
    return resource.group in ("resource.k8s.io", OPERATOR_GROUP) and resource.plural not in NOT_FOR_KOPF


class Sign:
    """That Kopf's watch of a kind was interrupted. It is given for every object of the list that Kopf reads then."""

    def __init__(self) -> None:
        self._given = asyncio.Event()
        self._last = 0.0
        self._live = False

    def live(self) -> None:
        """Kopf's watch has shown a change, so its list is behind it."""
        if not self._live:
            self._live = True
            self._given.set()

    async def watching(self, seconds: float) -> None:
        """Return when Kopf watches, for the first time: it showed a change, or its list has told nothing for `seconds`."""
        await self._given.wait()
        now = asyncio.get_running_loop().time
        while not self._live and (pause := self._last + seconds - now()) > 0:  # noqa: ASYNC110 -- the time moves on
            await asyncio.sleep(pause)

    def give(self) -> None:
        self._last = asyncio.get_running_loop().time()
        self._given.set()

    def clear(self) -> None:
        self._given.clear()

    async def given(self) -> None:
        await self._given.wait()

    async def quiet(self, seconds: float, at_the_latest: float) -> None:
        """Return when it has not been given for `seconds`, or after `at_the_latest` seconds."""
        now = asyncio.get_running_loop().time
        limit = now() + at_the_latest
        while (pause := min(self._last + seconds, limit) - now()) > 0:  # noqa: ASYNC110 -- the time moves on
            await asyncio.sleep(pause)


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
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._post = post
        self._absent = [resource for resource in ENGINE_KINDS if resource not in served]
        kinds = [resource for resource in ENGINE_KINDS if resource in served]
        self.feeds = {
            resource: Feed(resource, post, metrics, ordered=not watched_by_kopf(resource), room=room)
            for resource in kinds
        }
        self.kopf_kinds = [resource for resource in kinds if watched_by_kopf(resource)]
        self._reflectors = {
            resource: Reflector(client, resource, self.feeds[resource], settings.watch, restarted=self._count)
            for resource in kinds
            if not watched_by_kopf(resource)
        }
        self._listers = {
            resource: Lister(
                client,
                resource,
                self.feeds[resource],
                settings.watch,
                failed=partial(self._count, resource, "ListFailed"),
            )
            for resource in self.kopf_kinds
        }
        self._signs = {resource: Sign() for resource in self.kopf_kinds}

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
            # Kopf lists what we know already: its watch begins, or was interrupted, and it will not say what is gone.
            self._signs[resource].give()
            return
        if type is not None:
            self._signs[resource].live()
        lean(resource.kind)(item)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        known: EventType = "DELETED" if type == "DELETED" else "ADDED" if type == "ADDED" else "MODIFIED"
        feed.event(resource, known, item)

    def kopf_interrupted(self) -> None:
        """Kopf ended: whatever happens until it watches again must be found by a list."""
        for sign in self._signs.values():
            sign.give()

    # -- lists

    async def listed(self) -> None:
        """Return when every kind that Kopf watches has been listed by us."""
        await asyncio.gather(*(lister.read_first() for lister in self._listers.values()))

    async def relist(self, resources: Collection[Resource]) -> None:
        """Return when every one of `resources` has been listed anew, however long the API server takes."""
        async with asyncio.TaskGroup() as tasks:
            for resource in resources:
                if resource in self._reflectors:
                    tasks.create_task(self._reflectors[resource].relist())
                elif resource in self._listers:
                    tasks.create_task(self._listers[resource].read())

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
        lister, sign, settings = self._listers[resource], self._signs[resource], self._settings.audit
        await lister.read_first()
        await self._bridge(resource)
        sign.clear()
        while True:
            try:
                async with asyncio.timeout(settings.interval * random.uniform(0.9, 1.1)):
                    await sign.given()
                await sign.quiet(settings.after_interruption, settings.at_the_latest)
                self._count(resource, "KopfListedAgain")
            except TimeoutError:
                pass
            sign.clear()
            await lister.read()

    async def _bridge(self, resource: Resource) -> None:
        """Watch by ourselves from our list on, until Kopf does."""
        lister, sign = self._listers[resource], self._signs[resource]
        reflector = Reflector(self._client, resource, self.feeds[resource], self._settings.watch, restarted=self._count)
        following = asyncio.create_task(reflector.follow(lister.revision))
        watching = asyncio.create_task(sign.watching(self._settings.audit.after_interruption))
        try:
            await asyncio.wait({following, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            following.cancel()
            watching.cancel()
            await asyncio.wait({following, watching})
        if not following.cancelled():
            following.exception()  # our place in the watch is lost: only a list tells what it did not
            await lister.read()

    def _count(self, resource: Resource, reason: str) -> None:
        self._metrics.watch_restarts.labels(resource.kind, reason).inc()
