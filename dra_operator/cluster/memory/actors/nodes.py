"""What becomes of pods when their node, their namespace or their device goes: pod collection, namespace deletion, NoExecute taints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from math import inf

from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.meta import Key, parse_time
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.api.taints import Taint, Toleration
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import claim_names, deleting, key, node_of, reserved_for, terminal, uid
from dra_operator.cluster.memory.identity import NAMESPACE_CONTROLLER, TAINT_EVICTION
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import (
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RESOURCES,
    Request,
    Resource,
)

Device = tuple[str | None, str | None, str | None]

#: How long pods stay on a node that is gone (the pod collector's quarantine).
_QUARANTINE = 40.0


class NodeLifecycle(Reconciler):
    """Pods on nodes that are gone are deleted by force; NoExecute taints of nodes evict what does not tolerate them (for longer)."""

    user = NAMESPACE_CONTROLLER
    watches = {NODES: 0.01, PODS: 0.01}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        #: Since when pods are on a node with taints that they do not tolerate for ever.
        self._tainted: dict[str, float] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is PODS:
            if node_of(change.object) and change.type != "DELETED":
                self.mark(PODS, key(change.object))
            return
        name = change.object["metadata"]["name"]
        if change.type == "MODIFIED" and dig(change.previous, "spec", "taints") == dig(change.object, "spec", "taints"):
            return
        for pod in self.store.listed(PODS):
            if node_of(pod) == name:
                if change.type == "DELETED":
                    self.after(_QUARANTINE, PODS, key(pod))
                else:
                    self.mark(PODS, key(pod))

    def reconcile(self, resource: Resource, key: Key) -> None:
        pod = self.get(PODS, key)
        if pod is None or (name := node_of(pod)) is None:
            return
        since = self._tainted.pop(uid(pod), self.now)
        node = self.get(NODES, Key("", name))
        if node is None:
            if self._node_known_gone(name):
                self.delete(PODS, pod, gracePeriodSeconds=0)
            return
        taints = [
            Taint.from_dict(item) for item in dig(node, "spec", "taints") or () if item.get("effect") == "NoExecute"
        ]
        if not taints or terminal(pod) or deleting(pod):
            return
        tolerations = [Toleration.from_dict(item) for item in dig(pod, "spec", "tolerations") or ()]
        seconds = [_tolerated_for(taint, tolerations) for taint in taints]
        when = since + min(seconds, default=inf)
        if when <= self.now:
            self.delete(PODS, pod)
        elif when < inf:
            self._tainted[uid(pod)] = since
            self.at(when, PODS, key)

    def _node_known_gone(self, name: str) -> bool:
        return any(
            change.type == "DELETED"
            and change.object["metadata"]["name"] == name
            and self.now >= change.at + _QUARANTINE
            for change in self.store.since(NODES, 0)
        )


def _tolerated_for(taint: Taint, tolerations: Iterable[Toleration]) -> float:
    """Seconds for which a NoExecute taint is tolerated: the shortest time that a matching toleration gives, infinity if none gives one."""
    matching = [item for item in tolerations if item.tolerates(taint)]
    if not matching:
        return 0.0
    return min((float(max(0, item.seconds)) for item in matching if item.seconds is not None), default=inf)


class NamespaceController(Reconciler):
    """Empties a namespace that is being deleted, then lets it go."""

    user = NAMESPACE_CONTROLLER
    watches = {NAMESPACES: 0.02}  # noqa: RUF012

    def reconcile(self, resource: Resource, key: Key) -> None:
        namespace = self.get(NAMESPACES, key)
        if namespace is None or not deleting(namespace):
            return
        left = 0
        for kind in RESOURCES:
            if kind.namespaced:
                for item in self.store.listed(kind, key.name):
                    if not deleting(item):
                        self.delete(kind, item)
                left += len(self.store.listed(kind, key.name))
        if left:
            self.after(1.0, NAMESPACES, key)
            return
        emptied = clone(namespace)
        emptied["spec"] = {"finalizers": []}
        self.send(Request("PUT", NAMESPACES.path("", key.name, "finalize"), emptied))


class DeviceTaintEviction(Reconciler):
    """Deletes pods whose allocated devices have a NoExecute taint that the allocation does not tolerate; budgets do not count.

    A gated pod that holds a reservation stays; once bound it is deleted.
    """

    user = TAINT_EVICTION
    watches = {DEVICE_TAINT_RULES: 0.02, RESOURCE_SLICES: 0.02, RESOURCE_CLAIMS: 0.02, PODS: 0.02}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._rules: dict[str, tuple[DeviceTaintRule, float]] = {}
        self._published: dict[str, dict[Device, dict[Taint, float]]] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is DEVICE_TAINT_RULES:
            self._learn_rule(change)
        elif resource is RESOURCE_SLICES:
            before = self._published.get(change.object["metadata"]["name"], {})
            if self._learn_slice(change) == before:
                return
        if change.type == "DELETED":
            return
        if resource is PODS:
            bound_now = node_of(change.object) and (change.previous is None or not node_of(change.previous))
            if bound_now and dig(change.object, "spec", "resourceClaims"):
                self.mark(PODS, key(change.object))
        elif resource is RESOURCE_CLAIMS:
            if dig(change.object, "status", "reservedFor"):
                self.mark(resource, key(change.object))
        else:
            for claim in self.store.listed(RESOURCE_CLAIMS):
                if dig(claim, "status", "reservedFor"):
                    self.mark(RESOURCE_CLAIMS, key(claim))

    def reconcile(self, resource: Resource, key: Key) -> None:
        if resource is PODS:
            pod = self.get(PODS, key)
            for name in claim_names(pod).values() if pod else ():
                if name:
                    self._check(Key(key.namespace, name))
        else:
            self._check(key)

    def _check(self, claim_key: Key) -> None:
        claim = self.get(RESOURCE_CLAIMS, claim_key)
        when = self._deadline(claim) if claim is not None else None
        if claim is None or when is None:
            return
        if when > self.now:
            self.at(when, RESOURCE_CLAIMS, claim_key)
            return
        for consumer in dig(claim, "status", "reservedFor") or ():
            pod = self.get(PODS, Key(claim_key.namespace, consumer["name"]))
            if pod is not None and uid(pod) == consumer["uid"] and self._evictable(pod, claim):
                self.delete(PODS, pod)

    def _evictable(self, pod: Object, claim: Object) -> bool:
        return bool(node_of(pod)) and not deleting(pod) and not terminal(pod) and reserved_for(claim, uid(pod))

    def _learn_rule(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        before = self._rules.pop(name, None)
        if change.type != "DELETED":
            with contextlib.suppress(InvalidObject):
                rule = DeviceTaintRule.from_dict(change.object)
                added = self._added(dig(change.object, "spec", "taint"))
                if before is not None and before[0].taint.effect != rule.taint.effect and before[1] == added:
                    added = self.now  # the API server does so in the object
                self._rules[name] = rule, added

    def _learn_slice(self, change: Change) -> dict[Device, dict[Taint, float]]:
        """Taints that the driver itself puts on devices, and since when."""
        name = change.object["metadata"]["name"]
        before = self._published.pop(name, {})
        found: dict[Device, dict[Taint, float]] = {}
        if change.type != "DELETED":
            with contextlib.suppress(InvalidObject):
                item = ResourceSlice.from_dict(change.object)
                for device in dig(change.object, "spec", "devices") or ():
                    place = item.driver, item.pool, device["name"]
                    known = before.get(place, {})
                    taints = {
                        (taint := Taint.from_dict(entry)): self._added(entry, known.get(taint))
                        for entry in device.get("taints") or ()
                    }
                    if taints:
                        found[place] = taints
        if found:
            self._published[name] = found
        return found

    def _added(self, taint: Object, known: float | None = None) -> float:
        """When the taint was put there: as it says, else when it was first seen."""
        with contextlib.suppress(InvalidField):
            if (added := parse_time(taint.get("timeAdded"))) is not None:
                return added
        return self.now if known is None else known

    def _deadline(self, claim: Object) -> float | None:
        """When the claim's consumers must go because of taints on its devices; None = never."""
        if not self._rules and not self._published:
            return None
        times: list[float] = []
        for result in dig(claim, "status", "allocation", "devices", "results") or ():
            # Unlike kube-scheduler, who evicts does not take an empty effect in a toleration for all of them.
            tolerations = [
                item
                for item in map(Toleration.from_dict, result.get("tolerations") or ())
                if item.effect == "NoExecute"
            ]
            times += [added + _tolerated_for(taint, tolerations) for taint, added in self._taints(result)]
        when = min(times, default=inf)
        return None if when == inf else when

    def _taints(self, result: Object) -> Iterator[tuple[Taint, float]]:
        """The NoExecute taints of a device, and since when it has them."""
        device = result.get("driver"), result.get("pool"), result.get("device")
        for rule, added in self._rules.values():
            wanted = rule.driver, rule.pool, rule.device
            if rule.selects and all(part in (None, mine) for part, mine in zip(wanted, device, strict=True)):
                if rule.taint.effect == "NoExecute":
                    yield rule.taint, added
        for found in self._published.values():
            yield from ((taint, added) for taint, added in found.get(device, {}).items() if taint.effect == "NoExecute")
