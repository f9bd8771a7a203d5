"""What every actor is: told of changes a fixed delay after they happened, then it does its work.

Most are reconcilers, which work off the keys they have marked. Level-triggered: `reconcile` reads the store as it is by then (a live
GET), so a reconciler has no stale cache unless it keeps one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.identity import User
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.memory.store import Change, Store
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import STRATEGIC_PATCH, Request, Resource, Response


class Agenda(Protocol):
    """The world as an actor sees it."""

    @property
    def now(self) -> float: ...
    @property
    def server(self) -> MemoryServer: ...
    def at(self, when: float, act: Callable[[], None], *, background: bool = False) -> None:
        """`act` is called at `when` (seconds since the epoch). `background`: a retry that by itself keeps nobody waiting."""


Work = tuple[Resource, Key]


class Actor(ABC):
    """`watches` maps each kind to the seconds after which its changes are delivered."""

    user: ClassVar[User]
    watches: ClassVar[Mapping[Resource, float]]

    def __init__(self) -> None:
        self._agenda: Agenda | None = None

    def attach(self, agenda: Agenda) -> None:
        self._agenda = agenda

    @property
    def agenda(self) -> Agenda:
        if self._agenda is None:
            raise RuntimeError(f"{type(self).__name__} has not been put into a world")
        return self._agenda

    @property
    def now(self) -> float:
        return self.agenda.now

    @property
    def store(self) -> Store:
        return self.agenda.server.store

    @abstractmethod
    def on_change(self, resource: Resource, change: Change) -> None:
        """A change arrives."""

    @abstractmethod
    def work(self) -> None:
        """Called after the changes of one instant have arrived."""

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self.store.get(resource, key)

    def send(self, request: Request) -> Response:
        return self.agenda.server.handle(request, self.user)

    def create(self, resource: Resource, namespace: str, body: Object) -> Response:
        return self.send(Request("POST", resource.path(namespace), body))

    def put(self, resource: Resource, item: Object, subresource: str = "") -> Response:
        meta = item["metadata"]
        return self.send(Request("PUT", resource.path(meta.get("namespace") or "", meta["name"], subresource), item))

    def patch(self, resource: Resource, key: Key, patch: Object, subresource: str = "") -> Response:
        return self.send(Request("PATCH", resource.path(*key, subresource), patch, STRATEGIC_PATCH))

    def delete(self, resource: Resource, item: Object, **options: Any) -> Response:
        meta = item["metadata"]
        body = {"preconditions": {"uid": meta["uid"]}, **options}
        return self.send(Request("DELETE", resource.path(meta.get("namespace") or "", meta["name"]), body))


class Reconciler(Actor):
    """An actor that looks at one object after another, whatever has changed in it."""

    def __init__(self) -> None:
        super().__init__()
        self._marked: dict[Work, None] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        """The changed object is marked, unless a subclass marks others."""
        meta = change.object["metadata"]
        self.mark(resource, Key(meta.get("namespace") or "", meta["name"]))

    def mark(self, resource: Resource, key: Key) -> None:
        self._marked[resource, key] = None

    def work(self) -> None:
        while self._marked:
            work = next(iter(self._marked))
            del self._marked[work]
            self.reconcile(*work)

    @abstractmethod
    def reconcile(self, resource: Resource, key: Key) -> None:
        """Bring about what the object, as it is now, asks for."""

    def after(self, seconds: float, resource: Resource, key: Key, *, background: bool = False) -> None:
        """Reconcile the object again, `seconds` from now."""
        self.at(self.now + seconds, resource, key, background=background)

    def at(self, when: float, resource: Resource, key: Key, *, background: bool = False) -> None:
        def act() -> None:
            self.mark(resource, key)
            self.work()

        self.agenda.at(when, act, background=background)
