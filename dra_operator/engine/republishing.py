"""Tells a pool that its driver publishes anew from one that changes, so that an upgrade of the driver wakes and alarms nobody needlessly.

With a new generation the slices come one by one, and until the last has come the pool offers nothing (`ResourcePool.generation`). That is
no news about what there is: the queue is asked again once, when the pool is complete, and not at all where one slice is all of it and
nothing but the generation is new.
"""

from __future__ import annotations

from dataclasses import fields

from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory, PoolId
from dra_operator.inventory.pools import Pool


class Republishing:
    """Takes slices in for the inventory. `under_way`: pools that were complete and are on their way to the next generation."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.under_way: set[PoolId] = set()

    def apply(self, found: ResourceSlice) -> bool:
        """Returns whether what is waiting has to be looked at again."""
        pool_id = PoolId(found.driver, found.pool)
        pool = self._inventory.pools.get(pool_id)
        renewed = pool is not None and _is_complete(pool) and found.generation > _generation(pool)
        same = renewed and pool is not None and _is_same(pool, found)
        self._inventory.apply_slice(found)
        if _is_complete(self._inventory.pools[pool_id]):
            self.under_way.discard(pool_id)
            return not same
        if renewed:
            self.under_way.add(pool_id)
        return pool_id not in self.under_way

    def remove(self, name: str) -> bool:
        """As `apply`: a slice of an older generation offered nothing."""
        found = self._inventory.slice(name)
        if found is None:
            return False
        pool_id = PoolId(found.driver, found.pool)
        outdated = found.generation < _generation(self._inventory.pools[pool_id])
        self._inventory.remove_slice(name)
        left = self._inventory.pools.get(pool_id)
        if left is None or not left.slices or _is_complete(left):
            self.under_way.discard(pool_id)
        return not outdated


def _generation(pool: Pool) -> int:
    return max((item.generation for item in pool.slices.values()), default=0)


def _is_complete(pool: Pool) -> bool:
    generation = _generation(pool)
    current = [item for item in pool.slices.values() if item.generation == generation]
    return bool(current) and len(current) == current[0].slice_count


def _is_same(pool: Pool, found: ResourceSlice) -> bool:
    """Is the slice all of the pool, as before but for its generation?"""
    known = pool.slices.get(found.name)
    return (
        found.slice_count == 1
        and known is not None
        and all(
            getattr(known, item.name) == getattr(found, item.name)
            for item in fields(found)
            if item.name not in _RENEWED
        )
    )


_RENEWED = frozenset({"meta", "generation"})
