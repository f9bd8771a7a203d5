"""Devices that pods have from a device plugin instead of by a claim.

Where a node offers a class's `extendedResourceName` in its allocatable, a device plugin serves it there, and what running pods ask for
of it is used like devices of that class. What the scheduler made a claim for instead (KEP-5004) counts by that claim, also on a node
whose device plugin came later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dra_operator.api.core import Node, Pod


class PluginShare(NamedTuple):
    """How many devices one pod has on one node."""

    namespace: str
    node: str
    devices: int


class PluginUse:
    """Running pods by the extended resources they ask for. `version` grows with every change."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PluginShare]] = {}
        self._resources: dict[str, tuple[str, ...]] = {}
        self._without_claim: dict[str, dict[str, str]] = {}
        self.version = 0

    def runs(self, pod: Pod, node: str) -> None:
        """The pod is bound to the node and not finished."""
        shares = {
            name: PluginShare(pod.meta.namespace, node, count)
            for name, count in pod.requests.items()
            if count and "/" in name and not name.startswith("kubernetes.io/") and name not in pod.claimed_resources
        }
        if self._resources.get(pod.meta.uid, ()) == tuple(shares):
            return  # neither its node nor how much it asks for can change
        self.ends(pod.meta.uid)
        if not shares:
            return
        self._resources[pod.meta.uid] = tuple(shares)
        for name, share in shares.items():
            self._pods.setdefault(name, {})[pod.meta.uid] = share
            # The scheduler notes the claim that it made for them before it binds the pod.
            if pod.extended_resource_claim is None:
                self._without_claim.setdefault(name, {})[pod.meta.uid] = node
        self.version += 1

    def ends(self, uid: str) -> None:
        for name in self._resources.pop(uid, ()):
            del self._pods[name][uid]
            self._without_claim.get(name, {}).pop(uid, None)
            self.version += 1

    def nodes(self, resource: str) -> set[str]:
        """Where pods have it from a device plugin, even if the plugin has left and the node offers none any more."""
        return set(self._without_claim.get(resource, {}).values())

    def of(self, resource: str, nodes: Mapping[str, Node]) -> Iterator[PluginShare]:
        """What pods have of it from device plugins."""
        for share in self._pods.get(resource, {}).values():
            node = nodes.get(share.node)
            if node is not None and node.allocatable.get(resource, 0) > 0:
                yield share
