"""The funnel again, by brute force: every published device asked for every way on every node, with nothing shared between them.

Shares no code with `explain.looking` but the order of the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from dra_operator.allocator import Problem
from dra_operator.allocator.capacity import CapacityError, consumption
from dra_operator.api.claims import RequestDetail
from dra_operator.api.taints import BLOCKING_EFFECTS
from dra_operator.cel import CompileError, EvaluationError, bind_device, compile_derived, compile_selector
from dra_operator.explain.explanation import WHYS
from dra_operator.inventory import Inventory
from dra_operator.inventory.pools import Offer

Step = tuple[str, int | None]
USABLE: Step = ("usable", None)


def recount(
    inventory: Inventory, problem: Problem, misfit: Callable[[str], bool] = lambda name: False
) -> dict[tuple[int, str], Counter[Step]]:
    """(claim, request or request/subrequest) → how many devices fall out at which step. `misfit`: nodes out of the question."""
    inventory.refresh()
    found: dict[tuple[int, str], Counter[Step]] = {}
    for number, claim in enumerate(problem.claims):
        for request in claim.spec.requests:
            for detail in request.details:
                name = request.name if request.exactly is not None else f"{request.name}/{detail.name}"
                rules = [
                    (item.match_attribute or item.distinct_attribute or "",)
                    for item in claim.spec.constraints
                    if not item.requests or {request.name, name} & set(item.requests)
                ]
                counter = _Counter(inventory, problem, detail, rules, misfit)
                found[number, name] = Counter(counter.steps())
    return found


class _Counter:
    def __init__(
        self,
        inventory: Inventory,
        problem: Problem,
        detail: RequestDetail,
        rules: list[tuple[str, ...]],
        misfit: Callable[[str], bool],
    ) -> None:
        self.inventory, self.problem, self.detail, self.rules, self.misfit = inventory, problem, detail, rules, misfit
        self.features = inventory.features
        self.derived = {item.name: item.expression for item in detail.derived_attributes}

    def steps(self) -> list[Step]:
        found: list[Step] = []
        for pool in self.inventory.pools.values():
            if pool.content.usable:
                found += [self._step(offer) for offer in pool.content.offers]
                continue
            for published in pool.content.slices:
                for device in published.devices:
                    found.append(self._selected(pool.id.driver, device) or ("pool", None))
        return found

    def _step(self, offer: Offer) -> Step:
        selected = self._selected(offer.id.driver, offer.device)
        if selected is not None:
            return selected
        reached = [
            self._on_node(offer, name)
            for name, record in self.inventory.nodes.items()
            if record.node is not None and any(item.id == offer.id for item in record.offers)
        ]
        return max(reached, key=_depth) if reached else ("node", None)

    def _selected(self, driver: str, device: Any) -> Step | None:
        bound = bind_device(driver, device.attributes, device.capacity, device.allow_multiple)
        device_class = self.inventory.classes[self.detail.device_class_name]
        for why, expressions in (("class", device_class.selectors), ("request", self.detail.selectors)):
            for index, expression in enumerate(expressions):
                try:
                    if any(value is None for value in device.attributes.values()):
                        return ("error", None)
                    if not compile_selector(expression or "").matches(bound):
                        return (why, index)
                except (CompileError, EvaluationError):
                    return ("error", None)
        return None

    def _on_node(self, offer: Offer, name: str) -> Step:
        features, device = self.features, offer.device
        node = self.inventory.nodes[name].node
        assert node is not None
        if device.binding_conditions and not features.device_binding_and_status:
            return ("unsupported", None)
        skips_allowed = features.optional_node_operations and "DRAOptionalNodeOperations" in node.declared_features
        if offer.slice.skip_node_operations and not skips_allowed:
            return ("unsupported", None)
        if device.consumes and not features.partitionable_devices:
            return ("unsupported", None)
        taken: dict[str, Any] = {}
        if features.consumable_capacity:
            try:
                amounts = consumption(self.detail.capacity, device, features.fractional_capacity_range)
            except CapacityError:
                return ("error", None)
            if amounts is None:
                return ("size", None)
            taken = amounts
        if features.device_taints and any(
            taint.effect in BLOCKING_EFFECTS and not any(item.tolerates(taint) for item in self.detail.tolerations)
            for taint in offer.taints
        ):
            return ("taint", None)
        for rule in self.rules:
            step = self._attribute(offer, rule)
            if step is not None:
                return step
        if self.misfit(name):
            return ("node", None)
        if self.detail.admin_access:
            return USABLE
        return self._taken(offer, taken)

    def _attribute(self, offer: Offer, names: tuple[str, ...]) -> Step | None:
        device, driver = offer.device, offer.id.driver
        expression = self.derived.get(names[0])
        if expression is not None:
            try:
                value, _ = compile_derived(expression).evaluate(
                    bind_device(driver, device.attributes, device.capacity, device.allow_multiple)
                )
            except (CompileError, EvaluationError):
                return ("error", None)
            return ("attribute", None) if value == () and self.features.list_type_attributes else None
        for name in names:
            domain, _, bare = name.partition("/")
            value = device.attributes.get(name)
            if value is None and domain == driver:
                value = device.attributes.get(bare)
            if value is not None:
                return ("attribute", None) if value == () and self.features.list_type_attributes else None
        return ("attribute", None)

    def _taken(self, offer: Offer, amounts: dict[str, Any]) -> Step:
        occupancy = self.inventory.occupancy(offer.id)
        multiple = offer.device.allow_multiple and self.features.consumable_capacity
        if occupancy is not None and (occupancy.whole or not multiple):
            return ("allocated", None)
        if offer.id in self.problem.forbidden:
            return ("held", None)
        if multiple and occupancy is not None:
            for name, amount in amounts.items():
                if occupancy.consumed.get(name, 0) + amount.nano > offer.device.capacity[name].nano:
                    return ("capacity", None)
        if (occupancy is None or not occupancy.shares) and self._lacks_counters(offer):
            return ("counters", None)
        return USABLE

    def _lacks_counters(self, offer: Offer) -> bool:
        content = offer.pool.content
        for use in offer.device.consumes:
            total = next(item.counters for item in content.counter_sets if item.name == use.counter_set)
            for name, amount in use.counters.items():
                used = sum(
                    item.counters[name].nano
                    for other in content.offers
                    if self.inventory.users(other.id) or other.id in self.problem.forbidden
                    for item in other.device.consumes
                    if item.counter_set == use.counter_set and name in item.counters
                )
                if amount.nano > 0 and used + amount.nano > total[name].nano:
                    return True
        return False


def _depth(step: Step) -> tuple[int, int]:
    return (len(WHYS), 0) if step == USABLE else (WHYS.index(step[0]), step[1] or 0)
