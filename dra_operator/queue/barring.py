"""What a search must leave alone so that a budget holds: kinds of devices for single claims, or devices for the whole unit.

Kinds do where everything of a budget is barred: nodes in one state still share their answers, and shared counters are not touched.
Devices do where some may be taken and others not: all but so many on each node, or all that are not shared with the unit already.
The allocator remembers answers by these objects, so equal questions must get identical ones.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from dra_operator.allocator import Bar
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer
from dra_operator.queue.budgets import Amounts, Budget, taken_of

Devices = frozenset[DeviceId]
_NONE: Devices = frozenset()
#: A set over a large cluster takes some megabytes.
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Fence:
    """`forbidden` and `barred` as in `allocator.Problem`."""

    forbidden: Devices = _NONE
    barred: tuple[tuple[int, Bar], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TooLarge:
    """Kinds of which one device is more than is left of a capacity."""

    kinds: frozenset[Kind]

    def bars(self, kind: Kind) -> bool:
        return kind in self.kinds


class Bars:
    """Forget with `forget` when the budgets change; what is published is followed."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._published = -1
        self._kinds: dict[Budget, tuple[Kind, ...]] = {}
        self._sets: dict[Hashable, Devices] = {}
        self._unions: dict[tuple[int, ...], tuple[tuple[Devices, ...], Devices]] = {}
        self._too_large: dict[tuple[Budget, frozenset[Kind]], TooLarge] = {}

    def forget(self) -> None:
        self._kinds.clear()
        self._sets.clear()
        self._unions.clear()
        self._too_large.clear()

    def shareable(self, budget: Budget) -> bool:
        """Are any devices of it shared between claims?"""
        return any(kind.device.allow_multiple for kind in self._kinds_of(budget))

    def too_large(self, budget: Budget, left: Amounts) -> TooLarge | None:
        """Kinds that cannot be shared and of which one device is too much."""
        found = set()
        for kind in self._kinds_of(budget):
            if not kind.device.allow_multiple:
                taken = taken_of(left, kind.device.capacity, kind.driver)
                if any(amount > left[name] for name, amount in taken.items()):
                    found.add(kind)
        if not found:
            return None
        kinds = frozenset(found)
        return self._too_large.setdefault((budget, kinds), TooLarge(kinds))

    def all_of(self, budget: Budget, spared: Collection[DeviceId]) -> Devices:
        """Every device that matches, but those `spared` that can be shared: another share of them costs nothing."""
        self._catch_up()
        kept = frozenset(device for device in spared if self._shareable(device))
        key = (budget, kept)
        known = self._sets.get(key)
        if known is None:
            if len(self._sets) >= _KEPT:
                self._sets.clear()
            known = frozenset(offer.id for offer in self._matching(budget) if offer.id not in kept)
            self._sets[key] = known
        return known

    def beyond(self, budget: Budget, allowed: int, usable: Collection[DeviceId] | None = None) -> Devices:
        """All but `allowed` of the matching devices of every node, so that no solution on one node can take more.

        `usable`: the devices that can be had at all (None: those nobody uses). Not remembered: it changes with every use.
        """
        self._catch_up()
        chosen: dict[str | None, int] = {}
        barred: list[DeviceId] = []
        for offer in sorted(self._matching(budget), key=lambda offer: (offer.home is None, offer.id)):
            if offer.id not in usable if usable is not None else self._inventory.users(offer.id):
                continue
            # A device that several nodes reach would come on top on each of them.
            most = max(chosen.values(), default=0) if offer.home is None else chosen.get(offer.home, 0)
            if most < allowed:
                chosen[offer.home] = most + 1
            else:
                barred.append(offer.id)
        return frozenset(barred)

    def union(self, sets: Iterable[Devices]) -> Devices:
        """The same object for the same sets (by identity)."""
        parts = tuple(item for item in sets if item)
        if len(parts) <= 1:
            return parts[0] if parts else _NONE
        key = tuple(sorted(set(map(id, parts))))
        known = self._unions.get(key)
        if known is None:
            if len(self._unions) >= _KEPT:
                self._unions.clear()
            # The parts are kept so that their ids stay theirs.
            known = self._unions[key] = parts, frozenset[DeviceId]().union(*parts)
        return known[1]

    def _catch_up(self) -> None:
        self._inventory.refresh()
        if self._published != self._inventory.published:
            self._published = self._inventory.published
            self.forget()

    def _kinds_of(self, budget: Budget) -> tuple[Kind, ...]:
        """The kinds there are that match."""
        self._catch_up()
        known = self._kinds.get(budget)
        if known is None:
            views = {state.view: None for state in self._inventory.states.populated()}
            kinds = dict.fromkeys(kind for view in views for kind in view.kinds)
            known = self._kinds[budget] = tuple(kind for kind in kinds if budget.matches(kind))
        return known

    def _matching(self, budget: Budget) -> Iterable[Offer]:
        for offer in self._inventory.offers():
            if offer.kind is not None and budget.matches(offer.kind):
                yield offer

    def _shareable(self, device: DeviceId) -> bool:
        offer = self._inventory.offer(device)
        return offer is not None and offer.device.allow_multiple


def gather(parts: Iterable[Fence], bars: Bars, more: Devices = _NONE) -> Fence:
    """All of them together, and the devices `more`."""
    fences = list(parts)
    barred = dict.fromkeys(entry for fence in fences for entry in fence.barred)
    return Fence(bars.union([more, *(fence.forbidden for fence in fences)]), tuple(barred))


def on_claims(claims: Iterable[int], bar: Bar) -> Fence:
    """A bar for some claims (indexes)."""
    return Fence(barred=tuple((claim, bar) for claim in sorted(claims)))
