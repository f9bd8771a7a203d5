"""The inventory of devices of an embedded cluster, kept up to date from its event log. The engine has one of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidObject
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.cluster.memory.store import Change, Store
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_operator.inventory import Inventory


class StoreInventory:
    """`inventory` shows every change as soon as it is stored. Objects that cannot be read count as absent."""

    def __init__(self, store: Store) -> None:
        self.inventory = Inventory()
        for resource in (NODES, DEVICE_CLASSES, RESOURCE_SLICES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS):
            for item in store.listed(resource):
                self._apply(resource, item)
        store.subscribe(self._on_change)

    def _on_change(self, resource: Resource, change: Change) -> None:
        if change.type == "DELETED":
            self._remove(resource, change.object)
        else:
            self._apply(resource, change.object)

    def _apply(self, resource: Resource, item: Object) -> None:
        inventory = self.inventory
        readers: dict[Resource, tuple[Callable[[Object], Any], Callable[[Any], None]]] = {
            NODES: (Node.from_dict, inventory.apply_node),
            DEVICE_CLASSES: (DeviceClass.from_dict, inventory.apply_class),
            RESOURCE_SLICES: (ResourceSlice.from_dict, inventory.apply_slice),
            DEVICE_TAINT_RULES: (DeviceTaintRule.from_dict, inventory.apply_taint_rule),
            RESOURCE_CLAIMS: (ResourceClaim.from_dict, self._apply_claim),
        }
        if resource not in readers:
            return
        read, apply = readers[resource]
        try:
            apply(read(item))
        except InvalidObject:
            self._remove(resource, item)

    def _apply_claim(self, claim: ResourceClaim) -> None:
        if claim.allocation is None:
            self.inventory.release(claim.meta.uid)
        else:
            self.inventory.use(claim.meta.uid, claim.allocation)

    def _remove(self, resource: Resource, item: Object) -> None:
        name = item["metadata"]["name"]
        if resource is NODES:
            self.inventory.remove_node(name)
        elif resource is DEVICE_CLASSES:
            self.inventory.remove_class(name)
        elif resource is RESOURCE_SLICES:
            self.inventory.remove_slice(name)
        elif resource is DEVICE_TAINT_RULES:
            self.inventory.remove_taint_rule(name)
        elif resource is RESOURCE_CLAIMS:
            self.inventory.release(item["metadata"]["uid"])
