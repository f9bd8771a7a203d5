"""The garbage collector: deletes, in the background, objects all of whose owners are gone."""

from __future__ import annotations

from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import deleting, uid
from dra_operator.cluster.memory.identity import GARBAGE_COLLECTOR
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.rest import BY_KIND, EVENTS, LEASES, RESOURCES, Resource


class GarbageCollector(Reconciler):
    user = GARBAGE_COLLECTOR
    watches = {resource: 0.012 for resource in RESOURCES if resource not in (EVENTS, LEASES)}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._dependents: dict[str, dict[tuple[Resource, Key], None]] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        meta = change.object["metadata"]
        owners = meta.get("ownerReferences") or ()
        place = resource, Key(meta.get("namespace") or "", meta["name"])
        if change.type == "DELETED":
            for owner in owners:
                self._dependents.get(owner["uid"], {}).pop(place, None)
            for dependent in self._dependents.pop(meta["uid"], ()):
                self.mark(*dependent)
            return
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[place] = None
        if change.type == "ADDED" and owners:
            self.mark(*place)

    def reconcile(self, resource: Resource, key: Key) -> None:
        item = self.get(resource, key)
        if item is None or deleting(item):
            return
        owners = item["metadata"].get("ownerReferences") or []
        if owners and not any(self._exists(owner, key.namespace) for owner in owners):
            self.delete(resource, item)

    def _exists(self, owner: dict[str, Any], namespace: str) -> bool:
        resource = BY_KIND.get(owner["kind"])
        if resource is None:
            # A kind that is not served here cannot be looked up: it is taken to exist.
            return True
        found = self.get(resource, Key(namespace if resource.namespaced else "", owner["name"]))
        return found is not None and uid(found) == owner["uid"]
