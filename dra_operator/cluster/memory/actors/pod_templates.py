"""Pods from the templates of workloads, and what workload controllers ask of the pods they own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import controller, key, node_of, owner_reference, ready, uid
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import PODS, Resource

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Object) -> str:
    """Ten letters that depend on the template alone."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def pod_from(
    resource: Resource, owner: Object, template: Object, *, name: str = "", labels: dict[str, str] | None = None
) -> Object:
    """A new pod of `owner`. `labels` come on top of the template's; without `name` the API server makes one up."""
    given = template.get("metadata") or {}
    meta: dict[str, Any] = {
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "annotations": dict(given.get("annotations") or {}),
        "finalizers": list(given.get("finalizers") or ()),
        "ownerReferences": [owner_reference(resource, owner)],
    }
    if name:
        meta["name"] = name
    else:
        meta["generateName"] = f"{owner['metadata']['name']}-"
    return {"metadata": meta, "spec": clone(template.get("spec") or {})}


def victims_first(pods: Iterable[Object]) -> list[Object]:
    """The order in which a scale-down deletes: unassigned, pending, not ready, then the youngest."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}

    def rank(pod: Object) -> tuple[int, int, int]:
        return (
            1 if node_of(pod) else 0,
            phases.get(dig(pod, "status", "phase"), 2),
            1 if ready(pod) else 0,
        )

    youngest = sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], uid(pod)), reverse=True)
    return sorted(youngest, key=rank)


class Workload(Reconciler):
    """A controller of one kind that owns dependents of another, found by an index kept from the event log."""

    owners: Resource
    dependents: Resource = PODS

    def __init__(self) -> None:
        super().__init__()
        self._owned: dict[str, dict[Key, None]] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is self.owners:
            self.mark(resource, key(change.object))
            return
        owner = controller(change.object)
        if resource is not self.dependents or owner is None or owner["kind"] != self.owners.kind:
            return
        held = self._owned.setdefault(owner["uid"], {})
        if change.type == "DELETED":
            held.pop(key(change.object), None)
        else:
            held[key(change.object)] = None
        namespace = change.object["metadata"].get("namespace") or ""
        self.mark(self.owners, Key(namespace if self.owners.namespaced else "", owner["name"]))

    def owned(self, owner: Object) -> list[Object]:
        """The owner's dependents as they are now, oldest first."""
        held = self._owned.get(uid(owner), {})
        found = [item for place in held if (item := self.get(self.dependents, place)) is not None]
        mine = [item for item in found if (reference := controller(item)) and reference["uid"] == uid(owner)]
        return sorted(mine, key=lambda item: (item["metadata"]["creationTimestamp"], uid(item)))

    def make(self, owner: Object, body: Object) -> bool:
        """Create a dependent and know of it at once; a refusal is tried again in a second."""
        response = self.create(self.dependents, owner["metadata"].get("namespace") or "", body)
        if response.ok:
            self._owned.setdefault(uid(owner), {})[key(response.body)] = None
            return True
        self.after(1.0, self.owners, key(owner), background=True)
        return False

    def tell(self, owner: Object, status: Object) -> None:
        """Write the owner's status where it has changed."""
        fresh = self.get(self.owners, key(owner))
        if fresh is None:
            return
        updated = clone(fresh)
        updated["status"] = {**(updated.get("status") or {}), **status}
        updated["status"]["observedGeneration"] = updated["metadata"].get("generation") or 1
        if updated["status"] != fresh.get("status"):
            self.put(self.owners, updated, "status")
