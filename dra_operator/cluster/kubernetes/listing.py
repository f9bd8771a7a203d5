"""Read all objects of a kind, a page at a time, at one resourceVersion, and say who receives them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, NamedTuple, Protocol

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.lean import lean
from dra_operator.cluster.kubernetes.settings import WatchSettings
from dra_operator.cluster.rest import Request, Resource, Response

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class ListFailed(Exception):
    """The server refused a list, or answered with something else. `response` holds its answer."""

    def __init__(self, resource: Resource, response: Response) -> None:
        what = response.message or f"an answer that is no list: {str(response.body)[:200]}"
        super().__init__(f"listing {resource.plural} of {resource.api_version}: {response.status} {what}")
        self.response = response


class Sink(Protocol):
    """Who wants to know the objects of a kind."""

    def listing(self, resource: Resource, page: Page) -> None:
        """A page of a list that is being read; its objects may be older than what an event has told meanwhile."""

    async def room(self) -> None:
        """Return when there is room for another page. Objects as they are decoded take ten times what is kept of them."""

    def listed(self, resource: Resource, keys: set[Key], revision: str) -> None:
        """The list is complete: at `revision` there was nothing but `keys`."""

    def event(self, resource: Resource, type: EventType, item: dict[str, Any]) -> None:
        """One change, in the order of the watch."""


class Page(NamedTuple):
    """`revision` is the list's resourceVersion, the same on all pages. `first`: forget pages seen before (a list can
    start again); `last`: nothing follows."""

    items: list[dict[str, Any]]
    revision: str
    first: bool
    last: bool


async def pages(client: Client, resource: Resource, settings: WatchSettings) -> AsyncIterator[Page]:
    """Every page of a consistent list (no resourceVersion asked for: at least as new as any write acknowledged before).

    Starts again when the server has forgotten the continuation (410), and asks for everything at once then, or it might never end;
    what was handed out before was true then. Raises ListFailed, Unreachable.
    """
    slim = lean(resource.kind)
    token = ""
    limit = {"limit": str(settings.page)}
    while True:
        query = dict(limit)
        if token:
            query["continue"] = token
        response = await client.send(Request("GET", resource.path(), query=query), within=settings.list_timeout)
        if response.status == 410 and token:
            token, limit = "", {}
            continue
        metadata = response.body.get("metadata") or {}
        if not response.ok or "items" not in response.body or not metadata.get("resourceVersion"):
            raise ListFailed(resource, response)
        items: list[dict[str, Any]] = response.body["items"] or []
        for item in items:
            slim(item)
            # Items of a list carry neither; watch events do, and readers should not have to know the difference.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        token = metadata.get("continue") or ""
        first = "continue" not in query
        yield Page(items, str(metadata["resourceVersion"]), first=first, last=not token)
        if not token:
            return


async def read_all(client: Client, resource: Resource, settings: WatchSettings, sink: Sink) -> str:
    """Hand one whole list to `sink`, page by page; its resourceVersion. Raises ListFailed, Unreachable."""
    keys: set[Key] = set()
    revision = ""
    async for page in pages(client, resource, settings):
        if page.first:
            keys.clear()
        keys.update(key_of(item) for item in page.items)
        sink.listing(resource, page)
        revision = page.revision
        await sink.room()
    sink.listed(resource, keys, revision)
    return revision


def key_of(item: dict[str, Any]) -> Key:
    metadata = item["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])
