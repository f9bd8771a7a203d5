"""Collisions: devices and counters that allocated claims take beyond what can be shared.

They arise when two allocators write at once; the engine resolves them by giving up one of its own claims. Nothing here prevents them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dra_operator.inventory.identity import DeviceId, PoolId
from dra_operator.inventory.pools import Offer, Pool
from dra_operator.inventory.usage import Occupancy, Usage


@dataclass(frozen=True, slots=True)
class Collision:
    """`claims` are the UIDs that take part; `reason` names what is taken twice."""

    device: DeviceId
    claims: tuple[str, ...]
    reason: str


def find_collisions(usage: Usage, offers: Mapping[DeviceId, Offer], devices: Iterable[DeviceId]) -> list[Collision]:
    """The collisions these devices take part in."""
    found: list[Collision] = []
    pools: dict[PoolId, Pool] = {}
    for device_id in dict.fromkeys(devices):
        occupancy = usage.by_device.get(device_id)
        if occupancy is None:
            continue
        offer = offers.get(device_id)
        reason = _overused(occupancy, offer)
        if reason is not None:
            found.append(Collision(device_id, occupancy.users, f"device {device_id} {reason}"))
        if offer is not None and offer.device.consumes:
            pools[offer.pool.id] = offer.pool
    for pool in pools.values():
        found += _overdrawn(usage, pool)
    return found


def _overused(occupancy: Occupancy, offer: Offer | None) -> str | None:
    if len(occupancy.whole) > 1:
        return "is allocated twice"
    if occupancy.whole and occupancy.shares:
        return "is allocated whole and shared at once"
    if offer is None or not occupancy.shares:
        return None
    if not offer.device.allow_multiple:
        return "is shared but does not allow multiple allocations" if len(occupancy.shares) > 1 else None
    for name, amount in occupancy.consumed.items():
        value = offer.device.capacity.get(name)
        if value is not None and amount > value.nano:
            return f"gives out more {name} than its {value}"
    return None


def _overdrawn(usage: Usage, pool: Pool) -> list[Collision]:
    takers: dict[tuple[str, str], list[tuple[Offer, int]]] = {}
    for offer in pool.content.offers:
        if offer.device.consumes and offer.id in usage.by_device:
            for item in offer.device.consumes:
                for name, amount in item.counters.items():
                    takers.setdefault((item.counter_set, name), []).append((offer, amount.nano))
    values = {(item.name, name): amount for item in pool.content.counter_sets for name, amount in item.counters.items()}
    found = []
    for (counter_set, name), taken in takers.items():
        value = values.get((counter_set, name))
        if value is not None and sum(amount for _, amount in taken) > value.nano:
            claims = tuple(dict.fromkeys(uid for offer, _ in taken for uid in usage.by_device[offer.id].users))
            text = f"counter {counter_set}/{name} of pool {pool.id} is overdrawn"
            found.append(Collision(taken[0][0].id, claims, text))
    return found
