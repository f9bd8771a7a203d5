"""What watches and lists tell, in the order and form in which the engine wants it.

One feed a kind, between its sources (a Reflector, and for some kinds Kopf as well) and the loop's inbox. It drops what was told
already, and turns a complete list into `replaced` and, the first time, `synced`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_args

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.listing import EventType, Page, key_of
from dra_operator.cluster.rest import Resource
from dra_operator.operator.freshness import Ledger, revision_of
from dra_operator.operator.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Observed:
    """An object as it is now, or was when it was deleted."""

    kind: str
    type: EventType
    key: Key
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A list is complete: of `kind` there is nothing but `keys`. `first`: it had not been listed before."""

    kind: str
    keys: set[Key]
    first: bool


News = Observed | Replaced

EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class Feed:
    """A `Sink` for one kind."""

    def __init__(
        self,
        resource: Resource,
        post: Callable[[News], None],
        metrics: Metrics,
        *,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """`room` returns when there is room for what another page holds."""
        self._room = room
        self.resource = resource
        self._post = post
        self._metrics = metrics
        #: Looking a metric up by its labels takes longer than counting.
        self._counted = {each: metrics.observed.labels(resource.kind, each) for each in EVENT_TYPES}
        self.reset()

    def reset(self) -> None:
        """Forget everything: a fresh engine must hear it all again. A list that is half read does not count."""
        self._ledger = Ledger()
        self._whole = False
        self.synced = False

    def is_news(self, item: dict[str, Any]) -> bool:
        """False for an object that this feed has in the same or a newer state."""
        return self._ledger.would_be_news(key_of(item), revision_of(item))

    def listing(self, resource: Resource, page: Page) -> None:
        if page.first:
            self._whole = True
            self._ledger.listing(int(page.revision or 0))
        for item in page.items:
            key = key_of(item)
            if self._ledger.listed_item(key, revision_of(item)):
                self._observe("MODIFIED", key, item)

    async def room(self) -> None:
        await self._room()

    def listed(self, resource: Resource, keys: set[Key], revision: str) -> None:
        if not self._whole:
            return
        alive = self._ledger.complete(keys, int(revision or 0))
        first, self.synced = not self.synced, True
        self._post(Replaced(self.resource.kind, alive, first))

    def event(self, resource: Resource, type: EventType, item: dict[str, Any]) -> None:
        self._take(type, item, ordered=True)

    def overtaken(self, type: EventType, item: dict[str, Any]) -> None:
        """An event of the other source, which may be ahead of the reflector or behind it."""
        self._take(type, item, ordered=False)

    def _take(self, type: EventType, item: dict[str, Any], *, ordered: bool) -> None:
        key, revision = key_of(item), revision_of(item)
        accept = self._ledger.gone if type == "DELETED" else self._ledger.news
        if accept(key, revision, ordered=ordered):
            self._observe(type, key, item)
        else:
            self._metrics.stale.labels(self.resource.kind).inc()

    def _observe(self, type: EventType, key: Key, item: dict[str, Any]) -> None:
        self._counted[type].inc()
        self._post(Observed(self.resource.kind, type, key, item))
