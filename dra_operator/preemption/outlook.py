"""The outlook: what a set of victims can cost at best on each node, before any node is looked at.

Counted from the holders and from what is free; whose going really makes room is for the search to find out, and the allocator to
say. Holds for all searches that let the same holders go: what budgets and policies add only makes sets dearer.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra_operator.allocator import Trial
from dra_operator.inventory import Inventory
from dra_operator.inventory.views import State, View
from dra_operator.preemption.criteria import Bound, bound, bound_of_singles, singles
from dra_operator.preemption.floor import Held, floor
from dra_operator.preemption.ground import Ground, ground_of
from dra_operator.preemption.holders import Holder, Holders

#: Holders of network-attached devices that a node's first bound takes one by one; of more, only the best figures.
FAR = 32


class Outlook:
    """Over the nodes a unit could go to, for holders up to the priority `limit` (`heed_preemptible`: that are preemptible).

    `bounds`: one a node, in no order. `alike`: nodes in one state where nobody has devices of his own, by the first, whose bound stands
    for all of them. `any_place`: has any node the devices, whoever holds them? `any_below`: is any of these holders there?
    """

    def __init__(
        self,
        inventory: Inventory,
        trial: Trial,
        nodes: frozenset[str] | None,
        holders: Holders,
        limit: int,
        *,
        heed_preemptible: bool,
    ) -> None:
        self._inventory, self._trial, self._nodes, self._holders = inventory, trial, nodes, holders
        self._limit, self._heed = limit, heed_preemptible
        self._grounds: dict[View, Ground | None] = {}
        self._far = self._eligible(holders.anywhere())
        self._far_by_devices: dict[frozenset[object], list[Holder]] = {}
        self.bounds: list[Bound] = []
        self.alike: dict[str, list[str]] = {}
        self.any_place = self.any_below = False
        for state in inventory.states.populated():
            ground = self.ground(state.view)
            if ground is not None:
                self._add_bounds(state, ground)

    def ground(self, view: View) -> Ground | None:
        if view not in self._grounds:
            self._grounds[view] = ground_of(self._trial, view, self._inventory)
        return self._grounds[view]

    def on(self, node: str) -> list[Holder]:
        """Who may go on the node, by rank."""
        return self._eligible(self._holders.on(node))

    def far(self, ground: Ground) -> list[Holder]:
        """Who may go of those with devices of no single node that bear on these nodes."""
        if not ground.shared or not self._far:
            return []
        key = frozenset(ground.shared)
        found = self._far_by_devices.get(key)
        if found is None:
            by_claim = self._inventory.usage.by_claim
            found = self._far_by_devices[key] = [
                holder
                for holder in self._far
                if any(use.device in ground.shared for claim in holder.claims for use in by_claim.get(claim, ()))
            ]
        return found

    def bound_of_far(self, ground: Ground, node: str) -> Bound:
        """The bound of a node on which nobody has devices of his own. There must be somebody far."""
        return (*self.far(ground)[0].rank[:5], node)

    def spares_any(self) -> bool:
        """Is there a holder of low enough priority that is only kept by not being preemptible?"""
        limit, on = self._limit, self._holders.on
        names = self._inventory.node_names if self._nodes is None else self._nodes
        for holders in (self._holders.anywhere(), *map(on, names)):
            for holder in holders:
                if not holder.preemptible and holder.priority <= limit:
                    return True
        return False

    def _first(self, holders: Sequence[Holder]) -> Holder | None:
        """The first of them who may go."""
        for holder in holders:
            if holder.priority <= self._limit and (holder.preemptible or not self._heed):
                return holder
        return None

    def _eligible(self, holders: Sequence[Holder]) -> list[Holder]:
        limit, any_kind = self._limit, not self._heed
        return [holder for holder in holders if holder.priority <= limit and (any_kind or holder.preemptible)]

    # -- bounds

    def _add_bounds(self, state: State, ground: Ground) -> None:
        """For each node that could serve the unit, the least a set of victims there can cost."""
        held = self._trial.held
        far = self.far(ground)
        usable_far = sum(ground.shared.values())
        lonely: dict[int, list[str]] = {}
        short: dict[int, int | None] = {}
        for name in state.nodes:
            if self._nodes is not None and name not in self._nodes:
                continue
            held_back = held.get(name, 0)
            if (ground.usable & ~held_back).bit_count() + usable_far < ground.need:
                continue
            self.any_place = True
            here = self._holders.on(name)
            first = self._first(here)
            if first is None:
                if far:
                    self.any_below = True
                    lonely.setdefault(held_back, []).append(name)
                continue
            self.any_below = True
            if held_back not in short:
                short[held_back] = self._short(state, ground, name, held_back)
            need = short[held_back]
            if need == 1:
                self.bounds.append((*min(first.rank, far[0].rank if far else first.rank)[:5], name))
            elif need is not None:
                low = _bound(need, self._eligible(here), far, name)
                if low is not None:
                    self.bounds.append(low)
        for names in lonely.values():
            self.alike[names[0]] = names
            self.bounds.append(self.bound_of_far(ground, names[0]))

    def _short(self, state: State, ground: Ground, name: str, held_back: int) -> int | None:
        """How many devices must come free at the least on nodes in this state; None if not even all that are in use suffice."""
        free = (ground.usable & ~held_back & ~state.used).bit_count() + ground.open
        short = max(1, ground.need - free)
        table = ground.table
        if table.plain or table.multi or ground.shared or ground.hidden:
            return short
        # Devices that overlap: as if each one in use were a pod of its own.
        used = state.used & ground.relevant
        for position, _ in state.shares:
            used |= 1 << position & ground.relevant
        each = [Held(1, {position: [None]}) for position in range(used.bit_length()) if used >> position & 1]
        least = floor(self._trial.plan, table, self._trial.start(self._inventory.nodes[name]), each)
        return None if least is None else max(short, least)


def _bound(need: int, near: list[Holder], far: list[Holder], name: str) -> Bound | None:
    """A bound from the holders alone (by rank): as if all their devices were here and of use."""
    holders = [*near, *([_paragon(far)] * need if len(far) > FAR else far)] if far else near
    amounts = [holder.devices for holder in holders]
    if not far and singles(near):
        return bound_of_singles(need, near, amounts, name)
    return bound(need, holders, amounts, name)


def _paragon(holders: list[Holder]) -> Holder:
    """The best of every figure in one."""
    fewest = min(holders, key=lambda holder: len(holder.pods))
    return Holder(
        key=(),
        uid="",
        claims=(),
        pods=fewest.pods,
        priority=min(holder.priority for holder in holders),
        since=max(holder.since for holder in holders),
        devices=max(holder.devices for holder in holders),
    )
