"""For `validate`: what is published about a device, and what is taken of it. Recomputed from the slices as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dra_operator.api.claims import DeviceResult
from dra_operator.api.core import Node
from dra_operator.api.quantity import Quantity
from dra_operator.api.slices import CounterConsumption, Device, ResourceSlice
from dra_operator.api.taints import Taint
from dra_operator.inventory import DeviceId, Features, Inventory, PoolId


@dataclass(frozen=True, slots=True)
class Published:
    """A device of its pool's current generation, and its taints with those of rules."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    taints: tuple[Taint, ...]

    def reaches(self, node: Node) -> bool:
        """ResourceSliceSpec: nodeName, nodeSelector, allNodes, or each device's own with perDeviceNodeSelection."""
        where = self.device if self.slice.per_device_node_selection else self.slice
        if where.node_name is not None:
            return where.node_name == node.name
        if where.node_selector is not None:
            return where.node_selector.matches(node.name, node.labels)
        return where.all_nodes


def current_slices(inventory: Inventory, pool_id: PoolId) -> list[ResourceSlice] | str:
    """The slices of a pool's highest generation, or why the pool cannot be used.

    ResourcePool.generation: "Consumers of ResourceSlices should only consider resources from the pool with the highest generation
    number"; resourceSliceCount: the pool is incomplete while there are fewer.
    """
    pool = inventory.pools.get(pool_id)
    if pool is None or not pool.slices:
        return "is of a pool that does not exist"
    highest = max(resource_slice.generation for resource_slice in pool.slices.values())
    slices = [resource_slice for resource_slice in pool.slices.values() if resource_slice.generation == highest]
    if not inventory.features.compatibility_groups and any(
        item.compatibility_groups
        for resource_slice in slices
        for device in resource_slice.devices
        for item in device.consumes
    ):
        return "is of a pool with compatibility groups, which are not supported"
    if any(resource_slice.slice_count != len(slices) for resource_slice in slices):
        return f"is of an incomplete pool ({len(slices)} slices of generation {highest})"
    names = [
        device.name
        for resource_slice in slices
        if not resource_slice.shared_counters
        for device in resource_slice.devices
    ]
    if len(set(names)) != len(names):
        return "is of a pool with duplicate device names"
    return slices


def published_device(inventory: Inventory, device_id: DeviceId, node: Node | None) -> Published | str:
    """A device as the node can use it, or why it cannot."""
    slices = current_slices(inventory, PoolId(device_id.driver, device_id.pool))
    if isinstance(slices, str):
        return slices
    for resource_slice in slices:
        if resource_slice.shared_counters:
            continue
        for device in resource_slice.devices:
            if device.name != device_id.device:
                continue
            current = inventory.device(device_id)
            found = Published(device_id, device, resource_slice, device.taints if current is None else current.taints)
            if node is not None and not found.reaches(node):
                return f"is not for node {node.name}"
            return found
    return "is not published in the pool's current generation"


@dataclass(slots=True)
class Taken:
    """What others take of devices, to which results are added one after another. `own`: claims whose usage does not count."""

    inventory: Inventory
    own: set[str]
    whole: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, dict[str, int]] = field(default_factory=dict)
    pools: dict[PoolId, set[DeviceId]] = field(default_factory=dict)

    def add(self, device: Published, result: DeviceResult, features: Features) -> Iterator[str]:
        """Take a device; yields what is wrong with that."""
        device_id = device.id
        shared = device.device.allow_multiple and features.consumable_capacity
        others = [use for use in self._uses(device_id) if use is None]
        if device_id in self.whole or others or (not shared and self._uses(device_id)):
            yield f"device {device_id} is in use already"
        if not shared:
            self.whole.add(device_id)
        else:
            sums = self.consumed.get(device_id)
            if sums is None:
                sums = self.consumed[device_id] = {}
                for use in self._uses(device_id):
                    for name, amount in (use or {}).items():
                        sums[name] = sums.get(name, 0) + amount.nano
            for name, amount in result.consumed_capacity.items():
                sums[name] = sums.get(name, 0) + amount.nano
                value = device.device.capacity.get(name)
                if value is None:
                    yield f"device {device_id} has no capacity {name}"
                elif sums[name] > value.nano:
                    yield f"device {device_id} gives out more {name} than its {value}"
        self.pools.setdefault(PoolId(device_id.driver, device_id.pool), set()).add(device_id)

    def counter_faults(self, features: Features) -> Iterator[str]:
        """Counters that what was added, with what others have, overdraws; and compatibility groups that do not go together."""
        if not features.partitionable_devices:
            return
        for pool_id, added in self.pools.items():
            slices = current_slices(self.inventory, pool_id)
            if isinstance(slices, str):
                continue
            users = list(self._users(pool_id, slices, added))
            # A further share of a device in use takes no counters: they were taken with the first.
            mine = [consumption for device, consumption in users if device in added and not self._uses(device)]
            for counter_set in {item.counter_set for item in mine}:
                yield from self._set_faults(pool_id, counter_set, slices, users, mine, features)

    def _set_faults(
        self,
        pool_id: PoolId,
        counter_set: str,
        slices: list[ResourceSlice],
        users: list[tuple[DeviceId, CounterConsumption]],
        mine: list[CounterConsumption],
        features: Features,
    ) -> Iterator[str]:
        totals = {
            name: amount.nano
            for resource_slice in slices
            for item in resource_slice.shared_counters
            if item.name == counter_set
            for name, amount in item.counters.items()
        }
        members = [item for _, item in users if item.counter_set == counter_set]
        wanted = {
            name
            for item in mine
            if item.counter_set == counter_set
            for name, amount in item.counters.items()
            if amount.nano > 0
        }
        for name in sorted(wanted):
            total = sum(item.counters[name].nano for item in members if name in item.counters)
            if total > totals.get(name, 0):
                yield f"counter {counter_set}/{name} of pool {pool_id} is overdrawn"
        if features.compatibility_groups and len(members) > 1:
            groups = [set(item.compatibility_groups) for item in members]
            if any(groups) and not set.intersection(*groups):
                yield f"devices without a compatibility group in common use counter set {counter_set} of pool {pool_id}"

    def _users(
        self, pool_id: PoolId, slices: list[ResourceSlice], added: set[DeviceId]
    ) -> Iterator[tuple[DeviceId, CounterConsumption]]:
        """Consumption of every device of a pool that is in use. A shared device counts once."""
        for resource_slice in slices:
            if resource_slice.shared_counters:
                continue
            for device in resource_slice.devices:
                name = DeviceId(pool_id.driver, pool_id.pool, device.name)
                if device.consumes and (name in added or self._uses(name)):
                    for item in device.consumes:
                        yield name, item

    def _uses(self, device_id: DeviceId) -> list[dict[str, Quantity] | None]:
        """What claims other than the own have of a device: None = all of it, else the consumed capacity."""
        found: list[dict[str, Quantity] | None] = []
        for uid in self.inventory.users(device_id):
            if uid in self.own:
                continue
            for use in self.inventory.usage.by_claim.get(uid, ()):
                if use.device == device_id:
                    found.append(None if use.share is None else dict(use.share))
        return found
