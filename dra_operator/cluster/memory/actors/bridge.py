"""The bridge, as the operator runs it with `--bridge`: slices for labelled nodes that have a device plugin and no driver."""

from __future__ import annotations

from dra_operator.api.meta import Key
from dra_operator.bridge.reconciling import is_ours, pool_of, wanted_writes
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.identity import OPERATOR
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.rest import NODES, RESOURCE_SLICES, Request, Resource

_METHODS = {"create": "POST", "replace": "PUT", "delete": "DELETE"}


class Bridge(Reconciler):
    """Does nothing where no node is labelled."""

    user = OPERATOR
    watches = {NODES: 0.01, RESOURCE_SLICES: 0.01}  # noqa: RUF012

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is NODES:
            self.mark(NODES, Key("", change.object["metadata"]["name"]))
        elif is_ours(change.object):
            self.mark(NODES, Key("", pool_of(change.object)))

    def reconcile(self, resource: Resource, key: Key) -> None:
        published = [item for item in self.store.listed(RESOURCE_SLICES) if is_ours(item) and pool_of(item) == key.name]
        for write in wanted_writes(key.name, self.get(NODES, key), published):
            path = RESOURCE_SLICES.path("", "" if write.action == "create" else write.name)
            self.send(Request(_METHODS[write.action], path, write.body))
