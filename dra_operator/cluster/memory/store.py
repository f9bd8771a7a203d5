"""The objects and their history: one resourceVersion for the whole store, one ordered log of changes a kind.

Knows nothing of what is allowed. What it hands out is shared with the log and with every watcher: never change it, copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.refusals import expired
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import RESOURCES, Resource


class Change(NamedTuple):
    """One entry of a kind's log. `previous` is the object before (None when added). `at` is seconds since the epoch."""

    version: int
    type: str
    object: Object
    previous: Object | None
    at: float


def key_of(item: Object) -> Key:
    meta = item["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


class Store:
    """Objects by kind and key, and the log of every kind.

    Invariant: versions only grow, over all kinds; a kind's log is in the order of versions; the object under a key equals the
    `object` of the key's last change unless that change is DELETED.
    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: dict[Resource, dict[Key, Object]] = {resource: {} for resource in RESOURCES}
        self._logs: dict[Resource, list[Change]] = {resource: [] for resource in RESOURCES}
        self._compacted: dict[Resource, int] = dict.fromkeys(RESOURCES, 0)
        self._listeners: list[Callable[[Resource, Change], None]] = []

    def subscribe(self, listener: Callable[[Resource, Change], None]) -> None:
        """`listener` is told of every change as it is logged; it must not write to the store from there."""
        self._listeners.append(listener)

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self._objects[resource].get(key)

    def all(self, resource: Resource) -> Iterator[Object]:
        """In no particular order but that of insertion."""
        return iter(self._objects[resource].values())

    def listed(self, resource: Resource, namespace: str = "") -> list[Object]:
        """In the order of the API: by namespace, then name."""
        objects = self._objects[resource]
        keys = sorted(key for key in objects if not namespace or key.namespace == namespace)
        return [objects[key] for key in keys]

    def keys(self, resource: Resource) -> set[Key]:
        return set(self._objects[resource])

    def put(self, resource: Resource, item: Object, at: float) -> Object:
        """Store `item` (the caller's to give away) under the next version."""
        key = key_of(item)
        previous = self._objects[resource].get(key)
        self._stamp(item)
        self._objects[resource][key] = item
        kind = "ADDED" if previous is None else "MODIFIED"
        self._record(resource, Change(self.version, kind, item, previous, at))
        return item

    def remove(self, resource: Resource, item: Object, at: float) -> Object:
        """Take the object away; `item` is its last state, the caller's to give away."""
        previous = self._objects[resource].pop(key_of(item))
        self._stamp(item)
        self._record(resource, Change(self.version, "DELETED", item, previous, at))
        return item

    def _record(self, resource: Resource, change: Change) -> None:
        self._logs[resource].append(change)
        for listener in self._listeners:
            listener(resource, change)

    def _stamp(self, item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)

    def since(self, resource: Resource, version: int) -> list[Change]:
        """Changes after `version`, oldest first. Raises Refused (410 Expired) when some of them have been compacted away."""
        if version < self._compacted[resource]:
            raise expired(version, self._compacted[resource])
        log = self._logs[resource]
        start = len(log)
        while start and log[start - 1].version > version:
            start -= 1
        return log[start:]

    def compact(self, resource: Resource, version: int) -> None:
        """Forget the changes up to and including `version`."""
        self._logs[resource] = [change for change in self._logs[resource] if change.version > version]
        self._compacted[resource] = max(self._compacted[resource], version)
