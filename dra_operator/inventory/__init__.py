"""What the cluster offers and what is taken of it.

`Inventory` takes in slices, taint rules, nodes, classes and the allocations of claims, one object at a time; `Snapshot` is what an
allocation is decided on.
"""

from dra_operator.inventory.collisions import Collision
from dra_operator.inventory.features import DEFAULT_1_37, Features
from dra_operator.inventory.identity import DeviceId, PoolId
from dra_operator.inventory.inventory import Inventory
from dra_operator.inventory.snapshot import Snapshot, StaleSnapshot

__all__ = ["DEFAULT_1_37", "Collision", "DeviceId", "Features", "Inventory", "PoolId", "Snapshot", "StaleSnapshot"]
