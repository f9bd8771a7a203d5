"""Every allocation of a managed claim passes the independent validator at the moment it is written."""

from __future__ import annotations

from collections.abc import Callable

from dra_operator.allocator import validate
from dra_operator.api.claims import ResourceClaim
from dra_operator.api.errors import InvalidObject
from dra_operator.cluster.memory.admission import allocation, managed
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.store_inventory import StoreInventory
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

_OFFER = (NODES, DEVICE_CLASSES, RESOURCE_SLICES, DEVICE_TAINT_RULES)

#: An allocation may have been decided on what was offered this many seconds ago: slower answers are injected faults.
_STALE = 15.0


class Validity:
    """`report(claim, message)` is called for each broken rule. Allocations that may rest on an older offer are let pass."""

    def __init__(self, world: World, report: Callable[[str, str], None]) -> None:
        self._world = world
        self._report = report
        self._devices = StoreInventory(world.server.store)
        self._changed = float("-inf")
        world.server.store.subscribe(self._on_change)

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource in _OFFER:
            self._changed = self._world.now
        if resource is not RESOURCE_CLAIMS or change.type == "DELETED" or not managed(change.object):
            return
        before = allocation(change.previous) if change.previous is not None else None
        if before is None and allocation(change.object) is not None and self._world.now > self._changed + _STALE:
            self._check(change)

    def _check(self, change: Change) -> None:
        try:
            claim = ResourceClaim.from_dict(change.object)
        except InvalidObject as error:
            self._report(str(error.name), str(error))
            return
        assert claim.allocation is not None
        selector = claim.allocation.node_selector
        node = None if selector is None else selector.only_node()
        with self._devices.inventory.snapshot() as view:
            for uid in self._foreign(claim):
                view.release(uid)
            for violation in validate(view, [claim], [claim.allocation], node):
                self._report(violation.claim, violation.message)

    def _foreign(self, claim: ResourceClaim) -> list[str]:
        """Unmanaged claims on the same devices: kube-scheduler may have been a moment faster, which is resolved afterwards."""
        assert claim.allocation is not None
        taken = {(result.driver, result.pool, result.device) for result in claim.allocation.results}
        return [
            item["metadata"]["uid"]
            for item in self._world.server.store.listed(RESOURCE_CLAIMS)
            if not managed(item)
            and any(
                (result["driver"], result["pool"], result["device"]) in taken
                for result in ((allocation(item) or {}).get("devices") or {}).get("results") or ()
            )
        ]
