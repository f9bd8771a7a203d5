"""The inventory: everything published and everything taken, kept up to date object by object.

Changes are recorded when they arrive and worked out when somebody next looks (`refresh`), so that a burst of changes to one pool or
node costs one computation. Nothing here decides who gets a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dra_operator.api.claims import Allocation, DeviceClass
from dra_operator.api.core import Node
from dra_operator.api.slices import Device, DeviceTaintRule, ResourceSlice
from dra_operator.cel import compile_ahead
from dra_operator.inventory.collisions import Collision, find_collisions
from dra_operator.inventory.features import DEFAULT_1_37, Features
from dra_operator.inventory.identity import DeviceId, PoolId
from dra_operator.inventory.kinds import Attribute, Kinds
from dra_operator.inventory.layout import lay_out, settle
from dra_operator.inventory.pools import Offer, Pool, read_pool
from dra_operator.inventory.reach import Reach
from dra_operator.inventory.snapshot import Snapshot
from dra_operator.inventory.taintrules import Selection, TaintRules
from dra_operator.inventory.trail import Trail
from dra_operator.inventory.usage import Occupancy, Usage, Use, uses_of
from dra_operator.inventory.views import NodeRecord, States


class Inventory:
    """`version` grows with every change that could matter to an allocation.

    Not for use from several threads. Between `snapshot()` and the next change everything read from it is one instant.
    """

    def __init__(self, features: Features = DEFAULT_1_37) -> None:
        self.features = features
        self.version = 0
        #: Grows when a class changes.
        self.class_version = 0
        #: Grows when devices may have got other positions or homes.
        self.published = 0
        self.classes: dict[str, DeviceClass] = {}
        self.pools: dict[PoolId, Pool] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.usage = Usage()
        self.states = States()
        #: Pools of which something was published, tainted, taken or given back.
        self.touched = Trail[PoolId]()
        self.kinds = Kinds()
        #: For what the layers above derive from this inventory and want to keep as long as it lives.
        self.memo: dict[str, object] = {}
        self._offers: dict[DeviceId, Offer] = {}
        self._slices: dict[str, PoolId] = {}
        self._rules = TaintRules()
        self._linked: tuple[str, ...] = ()
        self._pools_at: dict[str, set[PoolId]] = {}
        #: Pools with a slice that is not for one node by name.
        self._by_label: dict[PoolId, Pool] = {}
        self._reach = Reach(self.nodes, features)
        self._stale_pools: set[PoolId] = set()
        self._stale_nodes: set[str] = set()
        self._names: list[str] | None = None

    # -- published objects ---------------------------------------------------------------------------------------------------

    def apply_slice(self, resource_slice: ResourceSlice) -> None:
        pool_id = PoolId(resource_slice.driver, resource_slice.pool)
        if self._slices.get(resource_slice.name, pool_id) != pool_id:
            self.remove_slice(resource_slice.name)
        self._slices[resource_slice.name] = pool_id
        pool = self.pools.get(pool_id)
        if pool is None:
            pool = self.pools[pool_id] = Pool(pool_id)
        pool.slices[resource_slice.name] = resource_slice
        self._stale_pools.add(pool_id)
        self.version += 1

    def remove_slice(self, name: str) -> None:
        pool_id = self._slices.pop(name, None)
        if pool_id is not None:
            del self.pools[pool_id].slices[name]
            self._stale_pools.add(pool_id)
            self.version += 1

    def apply_taint_rule(self, rule: DeviceTaintRule) -> None:
        self._retaint(self._rules.put(rule))

    def remove_taint_rule(self, name: str) -> None:
        self._retaint(self._rules.drop(name))

    def apply_node(self, node: Node) -> None:
        record = self.nodes.get(node.name)
        if record is None:
            record = self.nodes[node.name] = NodeRecord(node.name)
        old, record.node = record.node, node
        if old is not None and old.labels == node.labels and old.declared_features == node.declared_features:
            return
        self._node_changed(record)

    def remove_node(self, name: str) -> None:
        record = self.nodes.get(name)
        if record is None or record.node is None:
            return
        record.node = None
        self._node_changed(record)

    def apply_class(self, device_class: DeviceClass) -> None:
        known = self.classes.get(device_class.name)
        if known is not None and known.selectors == device_class.selectors and known.config == device_class.config:
            return
        compile_ahead(device_class.selectors)  # nothing waits for it now; later a claim would
        self.classes[device_class.name] = device_class
        self.class_version += 1
        self.version += 1

    def remove_class(self, name: str) -> None:
        if self.classes.pop(name, None) is not None:
            self.class_version += 1
            self.version += 1

    # -- usage ---------------------------------------------------------------------------------------------------------------

    def use(self, uid: str, allocation: Allocation) -> None:
        """Record what the claim `uid` takes; replaces what it took before."""
        self.use_devices(uid, uses_of(allocation, self._offers))

    def use_devices(self, uid: str, uses: tuple[Use, ...]) -> None:
        """As `use`, from what `uses_of` returns."""
        old: tuple[Use, ...] = ()
        if uid in self.usage.by_claim:
            if self.usage.by_claim[uid] == uses:
                return
            old = self.usage.remove(uid)
        self.usage.add(uid, uses)
        self._occupied((*old, *uses) if old else uses)

    def release(self, uid: str) -> None:
        if uid in self.usage.by_claim:
            self._occupied(self.usage.remove(uid))

    def users(self, device: DeviceId) -> tuple[str, ...]:
        """UIDs of the claims that use a device, published or not."""
        occupancy = self.usage.by_device.get(device)
        return () if occupancy is None else occupancy.users

    def occupancy(self, device: DeviceId) -> Occupancy | None:
        return self.usage.by_device.get(device)

    def collisions(self) -> list[Collision]:
        """Devices and counters taken beyond what sharing allows."""
        self.refresh()
        return find_collisions(self.usage, self._offers, self.usage.by_device)

    def collisions_of(self, uid: str) -> list[Collision]:
        """Those of `collisions` that the claim takes part in."""
        self.refresh()
        devices = [use.device for use in self.usage.by_claim.get(uid, ())]
        return [item for item in find_collisions(self.usage, self._offers, devices) if uid in item.claims]

    # -- reading -------------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """This instant. Valid until the inventory changes by other means than the snapshot."""
        self.refresh()
        return Snapshot(self)

    def device(self, device_id: DeviceId) -> Device | None:
        """A device as currently published, with the taints of rules; None if it is gone or its pool not usable."""
        self.refresh()
        offer = self._offers.get(device_id)
        if offer is None:
            return None
        return offer.device if offer.taints == offer.device.taints else replace(offer.device, taints=offer.taints)

    def slice(self, name: str) -> ResourceSlice | None:
        pool_id = self._slices.get(name)
        return None if pool_id is None else self.pools[pool_id].slices[name]

    def devices_of(self, slice_name: str) -> list[DeviceId]:
        """What a slice publishes, usable or not."""
        pool_id = self._slices.get(slice_name)
        if pool_id is None:
            return []
        devices = self.pools[pool_id].slices[slice_name].devices
        return [DeviceId(pool_id.driver, pool_id.pool, device.name) for device in devices]

    def pool_devices(self, slice_name: str) -> list[DeviceId]:
        """What the pool of a slice publishes, of any generation, usable or not: a change of one slice concerns all of it."""
        pool_id = self._slices.get(slice_name)
        if pool_id is None:
            return []
        names = dict.fromkeys(device.name for item in self.pools[pool_id].slices.values() for device in item.devices)
        return [DeviceId(pool_id.driver, pool_id.pool, name) for name in names]

    def offer(self, device_id: DeviceId) -> Offer | None:
        return self._offers.get(device_id)

    def offers(self) -> Iterable[Offer]:
        """Everything published that is usable, pool by pool."""
        self.refresh()
        return self._offers.values()

    @property
    def device_count(self) -> int:
        """How many devices are published and usable."""
        return len(self._offers)

    @property
    def node_names(self) -> list[str]:
        """All nodes that exist, by name."""
        if self._names is None:
            self._names = sorted(name for name, record in self.nodes.items() if record.node is not None)
        return self._names

    @property
    def linked(self) -> tuple[str, ...]:
        """The attributes that constraints read so far, fully qualified."""
        return self._linked

    def require(self, attributes: Iterable[Attribute] | None, linked: Iterable[str] = ()) -> None:
        """Tell apart devices by these attributes from now on: those that expressions read (None: all), and fully qualified names
        that constraints read."""
        wider = self.kinds.require(attributes)
        missing = sorted(set(linked) - set(self._linked))
        if missing:
            self._linked = tuple(sorted((*self._linked, *missing)))
        if wider:
            self._forget_kinds()
        elif missing and not all(self.kinds.covers(name) for name in missing):
            self._stale_nodes.update(self.node_names)
        self.refresh()

    def _forget_kinds(self) -> None:
        """The projection changed: every device may be of another kind."""
        for offer in self._offers.values():
            offer.kind = None
        self._stale_nodes.update(self.node_names)

    # -- working out changes -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Work out all changes since the last time."""
        if not self._stale_pools and not self._stale_nodes:
            return
        if self._stale_pools:
            for pool_id in self._stale_pools:
                self._read_pool(self.pools[pool_id])
            self._stale_pools.clear()
        if self.kinds.outgrown():
            self._forget_kinds()
        if self._stale_nodes:
            alike: dict[frozenset[PoolId], NodeRecord] = {}
            for name in self._stale_nodes:
                self._view_node(name, alike)
            self._stale_nodes.clear()
            self.published += 1

    def _node_changed(self, record: NodeRecord) -> None:
        """A node appeared, went, or has other labels: look again at what it can reach, and at nothing else."""
        name = record.name
        self._names = None
        self._reach.node_changed(record)
        for pool_id, pool in self._by_label.items():
            if pool_id in self._stale_pools:
                continue
            reached = any(self._reach.includes(resource_slice, record) for resource_slice in pool.content.slices)
            if reached != (name in pool.reach):
                (pool.reach.add if reached else pool.reach.discard)(name)
                (self._pools_at.setdefault(name, set()).add if reached else self._pools_at[name].discard)(pool_id)
        self._stale_nodes.add(name)
        self.version += 1

    def _read_pool(self, pool: Pool) -> None:
        for offer in pool.content.offers:
            self._offers.pop(offer.id, None)
        old_reach = pool.reach
        pool.content = content = read_pool(pool, self.features)
        pool.version += 1
        self.touched.note(pool.id)
        settle(pool)
        if any(resource_slice.node_name is None for resource_slice in content.slices):
            self._by_label[pool.id] = pool
        else:
            self._by_label.pop(pool.id, None)
        reach: set[str] = set()
        for resource_slice in content.slices:
            reach |= self._reach.of_slice(resource_slice)
        for offer in content.offers:
            self._offers[offer.id] = offer
            self.kinds.observe(offer.id.driver, offer.device)
            offer.taints = offer.device.taints + self._rules.taints(offer.id)
        pool.reach = reach
        for name in old_reach - reach:
            self._pools_at[name].discard(pool.id)
        for name in reach - old_reach:
            self._pools_at.setdefault(name, set()).add(pool.id)
        self._stale_nodes |= old_reach | reach
        if not pool.slices:
            del self.pools[pool.id]

    def _view_node(self, name: str, alike: dict[frozenset[PoolId], NodeRecord]) -> None:
        """`alike`: by pools, a node that sees nothing but these, all of them open to every node; so it sees what others with them see."""
        record = self.nodes.get(name)
        if record is None:
            # Slices may arrive before their node does.
            record = self.nodes[name] = NodeRecord(name)
        if record.node is None:
            record.view = None
            self.states.move(record)
            if not self._pools_at.get(name):
                del self.nodes[name]
                self._pools_at.pop(name, None)
            return
        pools = [self.pools[pool_id] for pool_id in self._pools_at.get(name, ()) if pool_id in self.pools]
        if pools and all(pool.common for pool in pools):
            twin = alike.setdefault(frozenset([pool.id for pool in pools]), record)
            if twin is not record and twin.skips_allowed == record.skips_allowed:
                record.offers, record.sections, record.view = twin.offers, twin.sections, twin.view
                record.used, record.shares = 0, {}
                self.states.move(record)
                return
        lay_out(record, pools, self._reach)
        record.used, record.shares = 0, {}
        for position, offer in enumerate(record.offers):
            if offer.kind is None:
                offer.kind = self.kinds.of(
                    offer.id.driver, offer.device, offer.taints, bool(offer.slice.skip_node_operations)
                )
            if offer.home is not None:
                offer.position = position
                self._mark(record, offer)
        record.view = self.states.view(record, [name for name in self._linked if not self.kinds.covers(name)])
        self.states.move(record)

    def _retaint(self, selections: Iterable[Selection]) -> None:
        self.refresh()
        for driver, pool_name, device in selections:
            self.version += 1
            for pool in self._selected_pools(driver, pool_name):
                self.touched.note(pool.id)
                for offer in pool.content.offers:
                    if device is None or offer.id.device == device:
                        offer.taints = offer.device.taints + self._rules.taints(offer.id)
                        offer.kind = None
                self._stale_nodes |= pool.reach

    def _selected_pools(self, driver: str | None, pool: str | None) -> list[Pool]:
        if driver is not None and pool is not None:
            found = self.pools.get(PoolId(driver, pool))
            return [] if found is None else [found]
        return [
            item
            for pool_id, item in self.pools.items()
            if driver in (None, pool_id.driver) and pool in (None, pool_id.pool)
        ]

    def _occupied(self, uses: Iterable[Use]) -> None:
        """The occupancy of these devices changed."""
        self.version += 1
        moved: list[NodeRecord] = []
        # Most claims take devices of one pool and one node.
        pool, record = None, None
        for device, _ in uses:
            offer = self._offers.get(device)
            if offer is None:
                continue
            if offer.pool is not pool:
                pool = offer.pool
                self.touched.note(pool.id)
            home = offer.home
            if home is None:
                self.states.note(offer.pool)
                self.states.shared_uses.note(device)
                continue
            if record is None or record.name != home:
                record = self.nodes.get(home)
                if record is None:
                    continue
                if record not in moved:
                    moved.append(record)
            if record.view is not None and offer.position >= 0:
                self._mark(record, offer)
        for record in moved:
            if record.view is not None:
                self.states.move(record)

    def _mark(self, record: NodeRecord, offer: Offer) -> None:
        """Bring a node's own record of a device up to date."""
        position = offer.position
        occupancy = self.usage.by_device.get(offer.id)
        if occupancy is not None and (occupancy.whole or not offer.device.allow_multiple):
            record.used |= 1 << position
        else:
            record.used &= ~(1 << position)
        key = None if occupancy is None else occupancy.key
        if key is not None:
            record.shares[position] = key
        elif record.shares:
            record.shares.pop(position, None)
