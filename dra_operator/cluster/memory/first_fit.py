"""kube-scheduler's own allocator: what becomes of claims that are not the operator's (exempt namespaces, extended resources).

Our allocator with the strategy FirstFit, which takes the devices the in-tree one takes, on an inventory of its own that follows
the store. The engine has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra_operator.allocator import Failed, Problem, Solved, Strategy, solve
from dra_operator.api.claims import ResourceClaim
from dra_operator.api.errors import InvalidObject
from dra_operator.cluster.memory.actors.scheduling_errors import ClaimError
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.memory.store_inventory import StoreInventory
from dra_operator.cluster.memory.values import Object
from dra_operator.inventory import Inventory


class InTreeAllocator:
    """A `FirstFit` for one world. Reads the store when first asked, and follows it from then on."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._devices: StoreInventory | None = None

    def __call__(self, store: Store, claims: Sequence[Object], node: Object) -> list[Object] | None:
        """One `status.allocation` a claim, None where they do not all fit on the node. Raises ClaimError."""
        inventory = self._follow(store)
        try:
            wanted = tuple(ResourceClaim.from_dict(claim) for claim in claims)
        except InvalidObject as error:
            raise ClaimError(str(error)) from None
        problem = Problem(wanted, nodes=(node["metadata"]["name"],), strategy=Strategy.FirstFit)
        match solve(problem, inventory.snapshot()):
            case Solved(allocations=allocations):
                return [allocation.to_dict() for allocation in allocations]
            case Failed(message=message):
                raise ClaimError(message)
            case _:
                return None

    def _follow(self, store: Store) -> Inventory:
        if store is not self._store:
            self._store, self._devices = store, StoreInventory(store)
        assert self._devices is not None
        return self._devices.inventory
