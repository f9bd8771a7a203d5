"""The least that a unit takes of a budget, whichever devices it gets: what can be said without looking for a solution.

A claim that asks for devices of a class takes that many of the class's quota; one that would also accept others takes none for sure.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from dra_operator.allocator.capacity import CapacityError, consumption
from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Failed, Problem
from dra_operator.api.claims import ResourceClaim
from dra_operator.api.taints import untolerated
from dra_operator.inventory import Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.queue.budgets import DEVICES, Amounts, Budget, taken_of

_KEPT = 10_000


class Asking:
    """Answers are remembered until what is published changes, or the budgets (`forget`)."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._published = -1
        self._kinds: tuple[Kind, ...] = ()
        self._known: dict[Hashable, Amounts] = {}

    def forget(self) -> None:
        self._known.clear()

    def least(self, budget: Budget, claims: Sequence[ResourceClaim], members: Collection[int]) -> Amounts:
        """What those of the claims (indexes) that count against the budget take of it at the least.

        Nothing where the claims cannot be planned: that is for the allocator to say.
        """
        self._catch_up()
        known = memory_of(self._inventory).known(Problem(claims=tuple(claims)))
        self._catch_up()
        total = dict.fromkeys(budget.limits, 0)
        if isinstance(known, Failed):
            return total
        for requirement in known.plan.requirements:
            if requirement.claim in members:
                ways = [self._of(budget, way) for way in requirement.ways]
                for name in total:
                    total[name] += min((way[name] for way in ways), default=0)
        return total

    def _catch_up(self) -> None:
        """Planning a claim can make the inventory tell more devices apart."""
        self._inventory.refresh()
        if self._published != self._inventory.published:
            self._published = self._inventory.published
            self._known.clear()
            views = {state.view: None for state in self._inventory.states.populated()}
            self._kinds = tuple(dict.fromkeys(kind for view in views for kind in view.kinds))

    def _of(self, budget: Budget, way: Way) -> Amounts:
        key = (budget, way)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _KEPT:
                self._known.clear()
            known = self._known[key] = self._work_out(budget, way)
        return known

    def _work_out(self, budget: Budget, way: Way) -> Amounts:
        nothing = dict.fromkeys(budget.limits, 0)
        if way.admin:
            return nothing
        count = 1 if way.all else way.count
        accepted = [
            kind
            for kind in self._kinds
            if way.filter.outcome(kind) is None and untolerated(kind.taints, way.detail.tolerations) is None
        ]
        if not accepted:
            same_class = way.detail.device_class_name == budget.terms.device_class_name and not budget.selective
            return {DEVICES: count} if same_class and not budget.in_capacity else nothing
        each = [self._one(budget, way, kind) for kind in accepted]
        return {name: count * min(taken.get(name, 0) for taken in each) for name in nothing}

    def _one(self, budget: Budget, way: Way, kind: Kind) -> Amounts:
        """What one device of a kind adds. A share of a device that counts already adds none."""
        if not budget.matches(kind):
            return {}
        if not budget.in_capacity:
            return {DEVICES: 0 if kind.device.allow_multiple else 1}
        if not kind.device.allow_multiple:
            return taken_of(budget.limits, kind.device.capacity, kind.driver)
        try:
            taken = consumption(way.detail.capacity, kind.device, self._inventory.features.fractional_capacity_range)
        except CapacityError:
            return {}
        return taken_of(budget.limits, taken or {}, kind.driver)
