"""Devices that a unit must leave alone so that a budget holds, as sets that stay the same object for as long as they hold.

The allocator takes one set of forbidden devices and remembers answers by it, so equal questions must get the identical set. Devices
that consume shared counters are left out unless asked for: a forbidden device counts as used, and its counters with it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer
from dra_operator.queue.budgets import Budget, taken_of

Devices = frozenset[DeviceId]
_NONE: Devices = frozenset()
#: A set over a large cluster takes some megabytes.
_KEPT = 32


class Bars:
    """Forget with `forget` when the budgets change; what is published is followed."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._published = -1
        self._sets: dict[Hashable, Devices] = {}
        self._unions: dict[tuple[int, ...], tuple[tuple[Devices, ...], Devices]] = {}

    def forget(self) -> None:
        self._sets.clear()
        self._unions.clear()

    def all_of(self, budget: Budget, spared: Collection[DeviceId] = (), *, consuming: bool = False) -> Devices:
        """Every device that matches, but those `spared` that can be shared: another share of them costs nothing."""
        self._catch_up()
        kept = frozenset(device for device in spared if self._shareable(device))
        key = ("all", budget, kept, consuming)
        known = self._sets.get(key)
        if known is None:
            known = self._keep(key, (offer.id for offer in self._matching(budget, consuming) if offer.id not in kept))
        return known

    def shareable(self, budget: Budget) -> bool:
        """Is any device that matches shared between claims?"""
        self._catch_up()
        views = {state.view: None for state in self._inventory.states.populated()}
        return any(kind.device.allow_multiple and budget.matches(kind) for view in views for kind in view.kinds)

    def larger(self, budget: Budget, left: Mapping[str, int]) -> Devices:
        """The devices that cannot be shared and are too large for what is left of a capacity."""
        self._catch_up()
        key = ("larger", budget, tuple(sorted(left.items())))
        known = self._sets.get(key)
        if known is None:
            verdicts: dict[Kind, bool] = {}

            def too_large(kind: Kind) -> bool:
                if kind not in verdicts:
                    taken = taken_of(left, kind.device.capacity, kind.driver)
                    verdicts[kind] = not kind.device.allow_multiple and any(taken[name] > left[name] for name in taken)
                return verdicts[kind]

            found = (offer.id for offer in self._matching(budget, False) if offer.kind is not None and too_large(offer.kind))
            known = self._keep(key, found)
        return known

    def beyond(self, budget: Budget, allowed: int, usable: Collection[DeviceId] | None = None) -> Devices:
        """All but `allowed` of the matching devices of every node, so that no solution on one node can take more.

        `usable`: the devices that can be had at all (None: those nobody uses). Not remembered: it changes with every use.
        """
        self._catch_up()
        chosen: dict[str | None, int] = {}
        barred: list[DeviceId] = []
        for offer in sorted(self._matching(budget, True), key=lambda offer: (offer.home is None, offer.id)):
            if usable is not None and offer.id not in usable:
                continue
            if usable is None and self._inventory.users(offer.id):
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
            known = self._unions[key] = parts, frozenset().union(*parts)
        return known[1]

    def _catch_up(self) -> None:
        self._inventory.refresh()
        if self._published != self._inventory.published:
            self._published = self._inventory.published
            self.forget()

    def _matching(self, budget: Budget, consuming: bool) -> Iterable[Offer]:
        for offer in self._inventory.offers():
            if offer.kind is not None and (consuming or not offer.device.consumes) and budget.matches(offer.kind):
                yield offer

    def _shareable(self, device: DeviceId) -> bool:
        offer = self._inventory.offer(device)
        return offer is not None and offer.device.allow_multiple

    def _keep(self, key: Hashable, devices: Iterable[DeviceId]) -> Devices:
        if len(self._sets) >= _KEPT:
            self._sets.clear()
        found = self._sets[key] = frozenset(devices)
        return found
