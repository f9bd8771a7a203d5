"""Usage: what the allocated claims take of the devices, whoever allocated them.

Counts and sums only. Whether a device could take more is the allocator's question; admin access never counts
(`adminAccess` in the API documentation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dra_operator.api.claims import Allocation
from dra_operator.api.quantity import Quantity
from dra_operator.inventory.identity import DeviceId


class Use(NamedTuple):
    """One device one claim takes: whole (`share` None), or a share of it that consumes capacity."""

    device: DeviceId
    share: Mapping[str, Quantity] | None


#: Shared by all devices that are taken whole; replaced before the first share is added.
_NOTHING: dict[str, int] = {}


class Occupancy:
    """Who takes one device. `consumed` sums the shares, in 10^-9, by capacity name."""

    __slots__ = ("consumed", "shares", "whole")

    def __init__(self) -> None:
        self.whole: list[str] = []
        self.shares: list[str] = []
        self.consumed: dict[str, int] = _NOTHING

    @property
    def users(self) -> tuple[str, ...]:
        """UIDs of claims, those taking it whole first; one that takes two shares appears once."""
        return tuple(dict.fromkeys((*self.whole, *self.shares)))

    @property
    def key(self) -> tuple[tuple[str, int], ...] | None:
        """The shares as far as they matter to another one; None without shares."""
        return tuple(sorted(self.consumed.items())) if self.shares else None


class Usage:
    """All uses, by claim and by device."""

    __slots__ = ("by_claim", "by_device")

    def __init__(self) -> None:
        self.by_claim: dict[str, tuple[Use, ...]] = {}
        self.by_device: dict[DeviceId, Occupancy] = {}

    def add(self, uid: str, uses: tuple[Use, ...]) -> None:
        """Record what a claim takes; it must not have anything yet."""
        self.by_claim[uid] = uses
        for device, share in uses:
            occupancy = self.by_device.get(device)
            if occupancy is None:
                occupancy = self.by_device[device] = Occupancy()
            if share is None:
                occupancy.whole.append(uid)
                continue
            occupancy.shares.append(uid)
            if occupancy.consumed is _NOTHING:
                occupancy.consumed = {}
            for name, amount in share.items():
                occupancy.consumed[name] = occupancy.consumed.get(name, 0) + amount.nano

    def remove(self, uid: str) -> tuple[Use, ...]:
        """Forget what a claim takes; returns what that was."""
        uses = self.by_claim.pop(uid, ())
        for device, share in uses:
            occupancy = self.by_device[device]
            if share is None:
                occupancy.whole.remove(uid)
            else:
                occupancy.shares.remove(uid)
                for name, amount in share.items():
                    left = occupancy.consumed[name] - amount.nano
                    if left:
                        occupancy.consumed[name] = left
                    else:
                        del occupancy.consumed[name]
            if not occupancy.whole and not occupancy.shares:
                del self.by_device[device]
        return uses


def uses_of(allocation: Allocation) -> tuple[Use, ...]:
    """What an allocation takes. A result is a share if it has a share ID or consumed capacity."""
    return tuple(
        [
            Use(
                DeviceId(result.driver, result.pool, result.device),
                result.consumed_capacity if result.share_id is not None or result.consumed_capacity else None,
            )
            for result in allocation.results
            if not result.admin_access
        ]
    )
