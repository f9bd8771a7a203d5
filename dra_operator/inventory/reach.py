"""Reach: for which nodes slices and their devices are.

Node selectors are matched against all nodes once and kept up to date node by node. Nothing here knows pools or generations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dra_operator.api.selectors import NodeSelector
from dra_operator.api.slices import Device, ResourceSlice
from dra_operator.inventory.features import Features
from dra_operator.inventory.views import NodeRecord


class Reach:
    """`nodes` is the inventory's own map, read and never changed here."""

    def __init__(self, nodes: Mapping[str, NodeRecord], features: Features) -> None:
        self._nodes = nodes
        self._per_device = features.partitionable_devices
        self._selected: dict[NodeSelector, set[str]] = {}

    def node_changed(self, record: NodeRecord) -> None:
        """A node appeared, went, or has other labels."""
        name = record.name
        for selector, names in self._selected.items():
            names.discard(name)
            if record.node is not None and selector.matches(name, record.node.labels):
                names.add(name)

    def of_slice(self, resource_slice: ResourceSlice) -> set[str]:
        """The names of the nodes that a slice, or any of its devices, is for. Do not change it."""
        if resource_slice.shared_counters and not self._per_device:
            return set()
        if resource_slice.node_name is not None:
            return {resource_slice.node_name}
        if resource_slice.all_nodes:
            return self._everywhere()
        if resource_slice.node_selector is not None:
            return self._where(resource_slice.node_selector)
        if not resource_slice.per_device_node_selection or not self._per_device:
            return set()
        reach: set[str] = set()
        for device in resource_slice.devices:
            if device.node_name is not None:
                reach.add(device.node_name)
            elif device.all_nodes:
                return self._everywhere()
            elif device.node_selector is not None:
                reach |= self._where(device.node_selector)
        return reach

    def _everywhere(self) -> set[str]:
        return {name for name, record in self._nodes.items() if record.node is not None}

    def _where(self, selector: NodeSelector) -> set[str]:
        found = self._selected.get(selector)
        if found is None:
            found = self._selected[selector] = {
                name
                for name, record in self._nodes.items()
                if record.node is not None and selector.matches(name, record.node.labels)
            }
        return found

    def includes(self, resource_slice: ResourceSlice, record: NodeRecord) -> bool:
        """Is any device of the slice for this node?"""
        if resource_slice.shared_counters and not self._per_device:
            return False
        sources: Iterable[ResourceSlice | Device] = (resource_slice,)
        if resource_slice.per_device_node_selection:
            sources = resource_slice.devices if self._per_device else ()
        return any(source.node_name == record.name or self.selects(source, record) for source in sources)

    def selects(self, source: ResourceSlice | Device, record: NodeRecord) -> bool:
        """Does a slice or device that does not name one node select this one?"""
        if record.node is None:
            return False
        return source.all_nodes or (
            source.node_selector is not None and record.name in self._where(source.node_selector)
        )
