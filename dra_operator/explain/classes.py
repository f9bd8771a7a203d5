"""What there is of each device class and how it is used: the numbers of a DeviceClassReport.

Counted pool by pool and kept, so that looking again costs the pools of which something changed. Which devices of a pool match is found
out when it is published anew; usage and taints are looked at with every change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from dra_operator.api.taints import BLOCKING_EFFECTS
from dra_operator.cel import CompileError, Device, EvaluationError, Selector, bind_device, compile_selector
from dra_operator.inventory import DeviceId, Inventory, PoolId
from dra_operator.inventory.pools import Offer, Pool

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Devices that match the class. total = allocated + free + tainted + incomplete.

    `largest_free_group`: the most free devices on one node. `fragmentation`: the percentage of the free devices that are on nodes
    with fewer free ones than the largest power of two that some node's devices of this class could serve when empty.
    """

    total: int = 0
    allocated: int = 0
    free: int = 0
    tainted: int = 0
    incomplete: int = 0
    largest_free_group: int = 0
    fragmentation: int = 0
    message: str = ""


class ClassCounts:
    """Every published device counts once; one on which a selector errors does not match, and is mentioned."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._tallies: dict[str, _Tally] = {}

    def of(self, name: str) -> ClassCount:
        """As of now. The class must be in the inventory."""
        return self._upheld(name).count()

    def free(self, name: str) -> Iterator[DeviceId]:
        """The devices of the class that `of` counts as free."""
        return self._upheld(name).free()

    def forget(self, name: str) -> None:
        self._tallies.pop(name, None)

    def _upheld(self, name: str) -> _Tally:
        self._inventory.refresh()
        expressions = self._inventory.classes[name].selectors
        tally = self._tallies.get(name)
        if tally is None or tally.expressions != expressions:
            tally = self._tallies[name] = _Tally(self._inventory, expressions)
        tally.catch_up()
        return tally


@dataclass(frozen=True, slots=True)
class _Matches:
    """What of a pool matches, as it was published with `version`: usable devices, and how many of those that cannot be used for the
    pool's sake."""

    version: int
    offers: tuple[Offer, ...] = ()
    incomplete: int = 0
    message: str = ""


@dataclass(slots=True)
class _Share:
    """What one pool adds to the numbers of a class. `sizes` and `free_at`: devices, and free ones, by the node that they are on."""

    matches: _Matches
    allocated: int = 0
    tainted: int = 0
    sizes: Counter[str] = field(default_factory=Counter)
    free_at: Counter[str] = field(default_factory=Counter)


class _Groups:
    """How many devices there are by node; "" stands for those that several nodes reach. `nodes`: how many nodes have so many."""

    __slots__ = ("at", "nodes")

    def __init__(self) -> None:
        self.at: Counter[str] = Counter()
        self.nodes: Counter[int] = Counter()

    def add(self, more: Counter[str], sign: int) -> None:
        for place, count in more.items():
            before = self.at[place]
            after = before + sign * count
            _shift(self.at, place, after - before)
            if place:
                _shift(self.nodes, before, -1 if before else 0)
                _shift(self.nodes, after, 1 if after else 0)

    @property
    def largest(self) -> int | None:
        """On one node; None if no node has any."""
        return max(self.nodes, default=None)


def _shift(counts: Counter[H], key: H, by: int) -> None:
    """Without keeping what is there no more."""
    counts[key] += by
    if not counts[key]:
        del counts[key]


class _Tally:
    """The numbers of one class, and what each pool adds to them."""

    def __init__(self, inventory: Inventory, expressions: tuple[str | None, ...]) -> None:
        self.expressions = expressions
        self._inventory = inventory
        self._selectors: list[Selector] = []
        self._shares: dict[PoolId, _Share] = {}
        self._read = -1
        self._allocated = self._tainted = self._incomplete = 0
        self._sizes, self._free_at = _Groups(), _Groups()
        self._messages: dict[PoolId, str] = {}
        self._broken = ""
        try:
            self._selectors = [compile_selector(text or "") for text in expressions]
        except CompileError as error:
            self._broken = f"a selector does not compile: {error.message}"

    def catch_up(self) -> None:
        """Count those pools anew of which something changed."""
        trail = self._inventory.touched
        touched = trail.since(self._read) if self._read >= 0 else None
        self._read = trail.end
        if not self._broken:
            verdicts: dict[object, bool | str] = {}
            for pool_id in {*self._inventory.pools, *self._shares} if touched is None else set(touched):
                self._recount(pool_id, verdicts)

    def count(self) -> ClassCount:
        if self._broken:
            return ClassCount(message=self._broken)
        free, largest = self._free_at.at.total(), self._free_at.largest
        return ClassCount(
            total=self._allocated + free + self._tainted + self._incomplete,
            allocated=self._allocated,
            free=free,
            tainted=self._tainted,
            incomplete=self._incomplete,
            largest_free_group=self._free_at.at[""] if largest is None else largest,
            fragmentation=_fragmentation(self._free_at, self._sizes.largest or 0),
            message=self._messages[min(self._messages)] if self._messages else "",
        )

    def free(self) -> Iterator[DeviceId]:
        for share in self._shares.values():
            if share.free_at:
                yield from (offer.id for offer in share.matches.offers if self._use_of(offer) == "free")

    def _recount(self, pool_id: PoolId, verdicts: dict[object, bool | str]) -> None:
        old, pool = self._shares.pop(pool_id, None), self._inventory.pools.get(pool_id)
        if old is not None:
            self._add(pool_id, old, -1)
        if pool is None:
            return
        known = old.matches if old is not None and old.matches.version == pool.version else None
        share = _Share(known or self._match(pool, verdicts))
        for offer in share.matches.offers:
            place, use = offer.home or "", self._use_of(offer)
            share.sizes[place] += 1
            if use == "free":
                share.free_at[place] += 1
            elif use == "allocated":
                share.allocated += 1
            else:
                share.tainted += 1
        self._add(pool_id, share, 1)
        self._shares[pool_id] = share

    def _add(self, pool_id: PoolId, share: _Share, sign: int) -> None:
        self._allocated += sign * share.allocated
        self._tainted += sign * share.tainted
        self._incomplete += sign * share.matches.incomplete
        self._sizes.add(share.sizes, sign)
        self._free_at.add(share.free_at, sign)
        if sign < 0:
            self._messages.pop(pool_id, None)
        elif share.matches.message:
            self._messages[pool_id] = share.matches.message

    def _use_of(self, offer: Offer) -> str:
        if self._inventory.users(offer.id):
            return "allocated"
        return "tainted" if any(taint.effect in BLOCKING_EFFECTS for taint in offer.taints) else "free"

    def _match(self, pool: Pool, verdicts: dict[object, bool | str]) -> _Matches:
        if not pool.content.usable:
            devices = [device for published in pool.content.slices for device in published.devices]
            bound = (
                bind_device(pool.id.driver, each.attributes, each.capacity, each.allow_multiple) for each in devices
            )
            return _Matches(pool.version, incomplete=sum(self._verdict(each, verdicts) is True for each in bound))
        matching, message = [], ""
        for offer in pool.content.offers:
            device = offer.device
            bound_device = bind_device(pool.id.driver, device.attributes, device.capacity, device.allow_multiple)
            verdict = self._verdict(bound_device, verdicts)
            if verdict is True:
                matching.append(offer)
            elif verdict:
                message = message or f"a selector errors on device {offer.id}: {verdict}"
        return _Matches(pool.version, tuple(matching), message=message)

    def _verdict(self, device: Device, verdicts: dict[object, bool | str]) -> bool | str:
        """Whether the class has the device, or what its selectors say instead: the same of all in which they see the same."""
        key = tuple(selector.projection(device) for selector in self._selectors)
        if key not in verdicts:
            try:
                verdicts[key] = all(selector.matches(device) for selector in self._selectors)
            except EvaluationError as error:
                verdicts[key] = str(error)
        return verdicts[key]


def _fragmentation(free_at: _Groups, largest: int) -> int:
    """`largest`: the most devices that a node has of the class, whoever uses them."""
    free = free_at.at.total() - free_at.at[""]
    if not free or largest < 2:
        return 0
    group = 1 << (largest.bit_length() - 1)
    stranded = sum(size % group * nodes for size, nodes in free_at.nodes.items())
    return round(100 * stranded / free)
