"""The accounts of quotas and reservations: which are in force, which claims count to them, what is used and what is free.

Follows the state by itself whenever it is asked (`follow`). It judges nothing: that is `budgeting`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.queue.budgets import DEVICES, Budget, BudgetKey, Draw, Scope, Tallies, draw_of, make_budget
from dra_operator.queue.freedevices import FreeDevices
from dra_operator.queue.policies import classes_of, selects
from dra_operator.queue.validity import (
    Flaw,
    entries,
    flaw_of_entry,
    flaw_of_selectors,
    flaw_of_size,
    unknown_classes,
)


class Accounts:
    """`budgets`: all in force, those of one policy together. `version` grows whenever they are read anew."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rules: tuple[int, ...] = ()
        self._layout: tuple[int, ...] = ()
        self._plugin_version = -1
        self._policies: list[tuple[AllocationPolicySpec, tuple[Budget, ...]]] = []
        self._freed: set[Scope] = set()
        self._headroom: dict[BudgetKey, int] = {}
        self.budgets: tuple[Budget, ...] = ()
        self.reserves: tuple[Budget, ...] = ()
        self.flaws: dict[str, tuple[Flaw, ...]] = {}
        self.tallies = Tallies()
        self.free = FreeDevices(state.inventory)
        self.version = 0

    # -- keeping up

    def follow(self) -> None:
        """Take in what changed since the last time."""
        state = self._state
        state.inventory.refresh()
        rules = (state.term_changes, state.inventory.class_version)
        relaid = self._layout != (state.layout, state.inventory.published)
        if relaid or rules != self._rules:
            other = self._read_policies()
            if other or rules != self._rules:
                self._count_all()
            # Reading selectors can make the inventory tell more devices apart.
            self._rules, self._layout = rules, (state.layout, state.inventory.published)
        if not self.budgets:
            state.usage.touched.clear()
            return
        self._count_touched()
        if relaid or self._plugin_version != state.plugins.version:
            self._count_plugins()
            self._read_free()

    def _read_policies(self) -> bool:
        """Which entries of which policies are in force, and what is wrong with the others; returns whether others are in force now."""
        inventory = self._state.inventory
        before, flaws_before = {budget.key: budget for budget in self.budgets}, self.flaws
        self._policies.clear()
        self.flaws = {}
        for policy in self._state.policies:
            flaws = unknown_classes(policy, inventory)
            budgets = []
            for key, terms in entries(policy):
                flaw = flaw_of_entry(key, terms, inventory)
                if flaw is None:
                    budget = make_budget(key, terms, inventory)
                    old = before.get(key)
                    if old is not None and old.terms == terms and old.filter is budget.filter:
                        budget = old
                    inventory.refresh()
                    flaw = flaw_of_size(budget, inventory)
                    if flaw is None:
                        budgets.append(budget)
                        flaw = flaw_of_selectors(budget, inventory)
                if flaw is not None:
                    flaws.append(flaw)
            self.flaws[policy.name] = tuple(flaws)
            if budgets:
                self._policies.append((policy.spec, tuple(budgets)))
        self.budgets = tuple(budget for _, budgets in self._policies for budget in budgets)
        self.reserves = tuple(budget for budget in self.budgets if budget.key.field == "reserve")
        if self.flaws != flaws_before:
            self.version += 1
        return self.budgets != tuple(before.values())

    def _count_all(self) -> None:
        state = self._state
        self.version += 1
        self.tallies.clear()
        self._plugin_version = -1
        self._headroom = {}
        if self.budgets:
            for seen in state.view.claims.values():
                self._count(seen)

    def _count_touched(self) -> None:
        state = self._state
        touched, state.usage.touched = state.usage.touched, {}
        for uid, before in touched.items():
            seen = state.view.claim_by_uid(uid)
            if seen is None:
                self._freed |= self.tallies.put(uid, {})
            else:
                self._count(seen)
            self.free.note(before)
            self.free.note(use.device for use in state.inventory.usage.by_claim.get(uid, ()))

    def _count(self, seen: SeenClaim) -> None:
        uses = self._state.inventory.usage.by_claim.get(seen.uid)
        allocation = self._state.allocation_of(seen) if uses else None
        draws: dict[Scope, Draw] = {}
        if allocation is not None:
            for budget in self.budgets_of(seen):
                draw = draw_of(budget, seen.claim.spec, allocation, self._state.inventory)
                if draw.devices:
                    draws[budget.scope(seen.key.namespace)] = draw
        self._freed |= self.tallies.put(seen.uid, draws)

    def _count_plugins(self) -> None:
        state = self._state
        self._plugin_version = state.plugins.version
        counts: Counter[Scope] = Counter()
        for spec, budgets in self._policies:
            for budget in budgets:
                name = budget.terms.device_class_name
                resource = state.served_resources.get(name)
                # What a plugin hands out has no attributes, and no capacity.
                if resource is None or budget.selective or budget.in_capacity:
                    continue
                for share in state.plugins.of(resource, state.ledger.nodes):
                    if selects(spec, {}, (name,), self._labels(share.namespace)):
                        counts[budget.scope(share.namespace)] += share.devices
        self._freed |= self.tallies.put_plugin(counts)

    def _read_free(self) -> None:
        state = self._state
        plugged: dict[str, dict[int, int]] = {}
        for number, budget in enumerate(self.reserves):
            resource = state.served_resources.get(budget.terms.device_class_name)
            if resource is None or budget.selective:
                continue
            for share in state.plugins.of(resource, state.ledger.nodes):
                there = plugged.setdefault(share.node, {})
                there[number] = there.get(number, 0) + share.devices
        self.free.rebuild(self.reserves, self._takes_pods, plugged)

    def _takes_pods(self, node: str) -> bool:
        found = self._state.ledger.nodes.get(node)
        return found is not None and not found.unschedulable

    def _labels(self, namespace: str) -> Mapping[str, str]:
        found = self._state.view.namespaces.get(namespace)
        return {} if found is None else found.meta.labels

    # -- reading

    def budgets_of(self, seen: SeenClaim) -> list[Budget]:
        """The budgets of every policy that selects the claim."""
        if not self._policies:
            return []
        labels, claim_labels = self._labels(seen.key.namespace), seen.claim.meta.labels
        classes = classes_of(seen.claim)
        return [
            budget
            for spec, budgets in self._policies
            if selects(spec, claim_labels, classes, labels)
            for budget in budgets
        ]

    def kept(self, number: int) -> int:
        """How many free devices a reservation still keeps: less by what its own claims use."""
        budget = self.reserves[number]
        used = self.tallies.of(budget.scope("")).amounts(budget)[DEVICES]
        return max(0, budget.limits[DEVICES] - used)

    def all_kept(self) -> list[int]:
        return [self.kept(number) for number in range(len(self.reserves))]

    @contextmanager
    def released(self, uids: Collection[str]) -> Iterator[None]:
        """As if these claims used nothing; free devices are not touched by it."""
        before = {uid: self.tallies.draws(uid) for uid in uids}
        for uid in before:
            self.tallies.put(uid, {})
        try:
            yield
        finally:
            for uid, draws in before.items():
                self.tallies.put(uid, draws)

    def freed(self) -> set[Scope]:
        """The scopes in which something came free since the last call."""
        self.follow()
        free = self.free.free()
        for number, budget in enumerate(self.reserves):
            now = sum(count for mask, count in free.items() if mask >> number & 1) - self.kept(number)
            if now > self._headroom.get(budget.key, now):
                self._freed.add(budget.scope(""))
            self._headroom[budget.key] = now
        freed, self._freed = self._freed, set()
        return freed
