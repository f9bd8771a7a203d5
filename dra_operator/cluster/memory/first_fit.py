"""kube-scheduler's own allocator: what becomes of claims that are not the operator's (exempt namespaces, extended resources).

Our allocator with the strategy FirstFit, which takes the devices the in-tree one takes, on an inventory of its own that follows
the store. The engine has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dra_operator.allocator import Failed, Problem, Solved, Strategy, solve
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidObject
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.cluster.memory.actors.scheduling_errors import ClaimError
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


class InTreeAllocator:
    """A `FirstFit` for one world. Reads the store when first asked, and follows it from then on."""

    def __init__(self) -> None:
        self._inventory = Inventory()
        self._store: Store | None = None

    def __call__(self, store: Store, claims: Sequence[Object], node: Object) -> list[Object] | None:
        """One `status.allocation` a claim, None where they do not all fit on the node. Raises ClaimError."""
        self._follow(store)
        try:
            wanted = tuple(ResourceClaim.from_dict(claim) for claim in claims)
        except InvalidObject as error:
            raise ClaimError(str(error)) from None
        problem = Problem(wanted, nodes=(node["metadata"]["name"],), strategy=Strategy.FirstFit)
        match solve(problem, self._inventory.snapshot()):
            case Solved(allocations=allocations):
                return [allocation.to_dict() for allocation in allocations]
            case Failed(message=message):
                raise ClaimError(message)
            case _:
                return None

    def _follow(self, store: Store) -> None:
        if store is self._store:
            return
        self._store, self._inventory = store, Inventory()
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
        inventory = self._inventory
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
            self._inventory.release(claim.meta.uid)
        else:
            self._inventory.use(claim.meta.uid, claim.allocation)

    def _remove(self, resource: Resource, item: Object) -> None:
        name = item["metadata"]["name"]
        if resource is NODES:
            self._inventory.remove_node(name)
        elif resource is DEVICE_CLASSES:
            self._inventory.remove_class(name)
        elif resource is RESOURCE_SLICES:
            self._inventory.remove_slice(name)
        elif resource is DEVICE_TAINT_RULES:
            self._inventory.remove_taint_rule(name)
        elif resource is RESOURCE_CLAIMS:
            self._inventory.release(item["metadata"]["uid"])
