"""Pools as consumers must see them: only the highest generation, only when complete, only when consistent.

A slice of an older generation offers nothing, wherever it is and whatever it is for (`ResourcePool.generation` in the API documentation).
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.slices import CounterSet, Device, ResourceSlice
from dra_operator.inventory.features import Features
from dra_operator.inventory.identity import DeviceId, PoolId
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.usage import Use


class Offer:
    """One published device of a pool's current generation, with what rules add to it.

    `home` is the one node that can use it, or None if several can (or if counters tie it to devices of other nodes).
    `position` is its place in its home's view. `rank` orders it within the pool. `named`: it is for one node by name; `plain`: that,
    and an allocation of it says nothing but its name. `whole`: what whoever takes all of it takes.
    """

    __slots__ = (
        "device",
        "home",
        "id",
        "kind",
        "named",
        "plain",
        "pool",
        "position",
        "rank",
        "slice",
        "taints",
        "whole",
    )

    def __init__(
        self, device_id: DeviceId, device: Device, resource_slice: ResourceSlice, pool: Pool, rank: int
    ) -> None:
        self.id, self.device, self.slice, self.pool, self.rank = device_id, device, resource_slice, pool, rank
        self.whole = Use(device_id, None)
        self.taints = device.taints
        self.named = source_of(self).node_name is not None
        self.plain = (
            self.named
            and not device.allow_multiple
            and not device.binding_conditions
            and not device.binding_failure_conditions
            and not resource_slice.skip_node_operations
        )
        self.home: str | None = None
        self.position = -1
        self.kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a pool's slices add up to. Exactly one of `problem` and usable `offers` is meaningful.

    `incomplete` or `invalid` say why nothing can be taken from the pool; `invalid` is the reason for a person.
    """

    generation: int
    slices: tuple[ResourceSlice, ...]
    incomplete: str | None
    invalid: str | None
    offers: tuple[Offer, ...]
    counter_sets: tuple[CounterSet, ...]

    @property
    def usable(self) -> bool:
        return self.incomplete is None and self.invalid is None


class Pool:
    """The slices of one pool, of all generations, and what they currently offer. Computed anew when a slice changes."""

    __slots__ = (
        "binding",
        "common",
        "content",
        "here",
        "id",
        "reach",
        "shared",
        "slices",
        "version",
    )

    def __init__(self, pool_id: PoolId) -> None:
        self.id = pool_id
        self.slices: dict[str, ResourceSlice] = {}
        self.content = EMPTY
        #: Offers by the one node that sees them, in order; and those that several nodes may see.
        self.here: dict[str, list[Offer]] = {}
        self.shared: list[Offer] = []
        #: Does every node see the same of it?
        self.common = False
        #: Nodes for which some slice of the current generation is meant.
        self.reach: set[str] = set()
        #: Names of slices with a device that has binding conditions.
        self.binding: set[str] = set()
        #: Grows with every reading.
        self.version = 0


EMPTY = Content(0, (), None, None, (), ())


def source_of(offer: Offer) -> ResourceSlice | Device:
    """What says for which nodes a device is: its slice, or itself."""
    return offer.device if offer.slice.per_device_node_selection else offer.slice


def read_pool(pool: Pool, features: Features) -> Content:
    """What the pool's slices currently offer."""
    if not pool.slices:
        return EMPTY
    generation = max(item.generation for item in pool.slices.values())
    published = sorted(
        (item for item in pool.slices.values() if item.generation == generation), key=lambda item: item.name
    )
    current = tuple(item for item in published if features.compatibility_groups or not _has_groups(item))
    counts = {resource_slice.slice_count for resource_slice in published}
    if len(counts) > 1:
        reason = (
            f"slices of generation {generation} disagree on resourceSliceCount ({', '.join(map(str, sorted(counts)))})"
        )
        return Content(generation, current, reason, None, (), ())
    expected = counts.pop()
    if len(current) != expected:
        reason = f"{len(current)} of {expected} slices of generation {generation}"
        return Content(generation, current, reason, None, (), ())
    counter_sets = (
        tuple(item for resource_slice in current for item in resource_slice.shared_counters)
        if features.partitionable_devices
        else ()
    )
    invalid = _duplicate_device(current) or (
        _broken_counters(current, counter_sets) if features.partitionable_devices else None
    )
    if invalid is not None:
        return Content(generation, current, None, invalid, (), ())
    offers: list[Offer] = []
    for resource_slice in current:
        if resource_slice.shared_counters or (
            resource_slice.per_device_node_selection and not features.partitionable_devices
        ):
            continue
        for device in resource_slice.devices:
            offers.append(
                Offer(DeviceId(pool.id.driver, pool.id.pool, device.name), device, resource_slice, pool, len(offers))
            )
    return Content(generation, current, None, None, tuple(offers), counter_sets)


def _has_groups(resource_slice: ResourceSlice) -> bool:
    return any(item.compatibility_groups for device in resource_slice.devices for item in device.consumes)


def _duplicate_device(slices: tuple[ResourceSlice, ...]) -> str | None:
    seen: dict[str, str] = {}
    for resource_slice in slices:
        if resource_slice.shared_counters:
            continue
        for device in resource_slice.devices:
            if device.name in seen:
                return f"device name {device.name} is used twice (slices {seen[device.name]} and {resource_slice.name})"
            seen[device.name] = resource_slice.name
    return None


def _broken_counters(slices: tuple[ResourceSlice, ...], counter_sets: tuple[CounterSet, ...]) -> str | None:
    known: dict[str, CounterSet] = {}
    for item in counter_sets:
        if item.name in known:
            return f"counter set {item.name} is defined twice"
        known[item.name] = item
    for resource_slice in slices:
        if resource_slice.shared_counters:
            continue
        for device in resource_slice.devices:
            for use in device.consumes:
                if use.counter_set not in known:
                    return f"device {device.name} consumes from counter set {use.counter_set}, which no slice defines"
                for name in use.counters:
                    if name not in known[use.counter_set].counters:
                        return f"device {device.name} consumes counter {name}, which counter set {use.counter_set} does not have"
    return None
