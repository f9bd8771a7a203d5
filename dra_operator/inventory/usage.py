"""Usage: what the allocated claims take of the devices, whoever allocated them.

Counts and sums only. Whether a device could take more is the allocator's question; admin access never counts
(`adminAccess` in the API documentation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dra_operator.api.claims import Allocation
from dra_operator.api.quantity import Quantity
from dra_operator.inventory.identity import DeviceId

if TYPE_CHECKING:
    from dra_operator.inventory.pools import Offer


class Use(NamedTuple):
    """One device one claim takes: whole (`share` None), or a share of it that consumes capacity."""

    device: DeviceId
    share: Mapping[str, Quantity] | None


#: Of devices without shares; replaced before the first share is added.
_NO_SHARES: list[str] = []
_NOTHING: dict[str, int] = {}


class Occupancy:
    """Who takes one device. `consumed` sums the shares, in 10^-9, by capacity name."""

    __slots__ = ("consumed", "shares", "whole")

    def __init__(self) -> None:
        self.whole: tuple[str, ...] = ()
        self.shares: list[str] = _NO_SHARES
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
        by_device = self.by_device
        for device, share in uses:
            occupancy = by_device.get(device)
            if occupancy is None:
                occupancy = by_device[device] = Occupancy()
            if share is None:
                occupancy.whole += (uid,)
                continue
            if occupancy.shares is _NO_SHARES:
                occupancy.shares, occupancy.consumed = [], {}
            occupancy.shares.append(uid)
            for name, amount in share.items():
                occupancy.consumed[name] = occupancy.consumed.get(name, 0) + amount.nano

    def remove(self, uid: str) -> tuple[Use, ...]:
        """Forget what a claim takes; returns what that was."""
        uses = self.by_claim.pop(uid, ())
        for device, share in uses:
            occupancy = self.by_device[device]
            if share is None:
                at = occupancy.whole.index(uid)
                occupancy.whole = occupancy.whole[:at] + occupancy.whole[at + 1 :]
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


def uses_of(allocation: Allocation, published: Mapping[DeviceId, Offer]) -> tuple[Use, ...]:
    """What an allocation takes. A result is a share if it has a share ID or consumed capacity."""
    uses: list[Use] = []
    for result in allocation.results:
        if result.admin_access:
            continue
        names = result.driver, result.pool, result.device
        if result.share_id is not None or result.consumed_capacity:
            uses.append(Use(DeviceId(*names), result.consumed_capacity))
            continue
        # A plain tuple finds what the ID does, and is made sooner.
        offer = published.get(names)  # type: ignore[call-overload]
        uses.append(Use(DeviceId(*names), None) if offer is None else offer.whole)
    return tuple(uses)
