"""What in a policy is accepted by the schema and means nothing: it is left out, the rest of the policy stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.selection import Broken
from dra_operator.api.policy import AllocationPolicy, Quota, Reservation
from dra_operator.cel import CompileError
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.views import View
from dra_operator.queue.budgets import Budget, BudgetKey


@dataclass(frozen=True, slots=True)
class Flaw:
    """`path` is the field in the spec, `reason` one word for programs, `message` says what is wrong and what becomes of it."""

    path: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def entries(policy: AllocationPolicy) -> Iterator[tuple[BudgetKey, Quota | Reservation]]:
    """The quotas and reservations of a policy, in order."""
    for index, quota in enumerate(policy.spec.quota):
        yield BudgetKey(policy.name, "quota", index), quota
    for index, reservation in enumerate(policy.spec.reserve):
        yield BudgetKey(policy.name, "reserve", index), reservation


def unknown_classes(policy: AllocationPolicy, inventory: Inventory) -> list[Flaw]:
    """Names in the policy's own selector that select nothing."""
    return [
        Flaw(f"deviceClassNames[{index}]", "UnknownClass", f'there is no DeviceClass "{name}"; it selects no claim')
        for index, name in enumerate(policy.spec.device_class_names)
        if name not in inventory.classes
    ]


def flaw_of_entry(key: BudgetKey, terms: Quota | Reservation, inventory: Inventory) -> Flaw | None:
    """Why a quota or reservation cannot be in force at all."""
    what = "quota" if key.field == "quota" else "reservation"
    device_class = inventory.classes.get(terms.device_class_name)
    if device_class is None:
        text = f'there is no DeviceClass "{terms.device_class_name}"; the {what} is ignored'
        return Flaw(f"{key}.deviceClassName", "UnknownClass", text)
    selectors = memory_of(inventory).selectors
    for index, expression in enumerate(device_class.selectors):
        found = None if expression is None else selectors.compiled(expression)
        if isinstance(found, CompileError):
            text = (
                f"selector {index} of DeviceClass {device_class.name} does not compile ({found}); the {what} is ignored"
            )
            return Flaw(f"{key}.deviceClassName", "InvalidSelector", text)
    for index, selector in enumerate(terms.selectors):
        found = selectors.compiled(selector.cel.expression)
        if isinstance(found, CompileError):
            text = f"does not compile ({found}); the {what} is ignored"
            return Flaw(f"{key}.selectors[{index}]", "InvalidSelector", text)
    return None


def flaw_of_selectors(budget: Budget, inventory: Inventory) -> Flaw | None:
    """A selector of the entry that fails on devices of its class: these are not counted."""
    views = {state.view: None for state in inventory.states.populated()}
    for kind in dict.fromkeys(kind for view in views for kind in view.kinds):
        outcome = budget.filter.outcome(kind)
        if isinstance(outcome, Broken) and not outcome.by_class:
            text = f"fails on some devices ({outcome.message}), which do not count; guard what they do not have"
            return Flaw(f"{budget.key}.selectors[{outcome.index}]", "SelectorError", text)
    return None


def flaw_of_size(budget: Budget, inventory: Inventory) -> Flaw | None:
    """A reservation of more devices than are published, tainted and used ones included."""
    if not isinstance(budget.terms, Reservation):
        return None
    there = published(budget, inventory)
    if there >= budget.terms.devices:
        return None
    text = f"{budget.terms.devices} devices are to be kept, but only {there} match; the reservation is ignored"
    return Flaw(f"{budget.key}.devices", "ReservationTooLarge", text)


def published(budget: Budget, inventory: Inventory) -> int:
    """How many devices match, also in pools that are being updated right now."""
    count = 0
    in_view: dict[View, int] = {}
    shared: dict[DeviceId, None] = {}
    for state in inventory.states.populated():
        if state.view not in in_view:
            matching = [
                offer for offer, kind in zip(state.view.offers, state.view.kinds, strict=True) if budget.matches(kind)
            ]
            in_view[state.view] = sum(offer.home is not None for offer in matching)
            shared.update(dict.fromkeys(offer.id for offer in matching if offer.home is None))
        count += in_view[state.view] * len(state.nodes)
    count += len(shared)
    for pool in inventory.pools.values():
        if pool.content.usable:
            continue
        known: dict[str, Kind] = {}
        for published_slice in sorted(pool.slices.values(), key=lambda item: item.generation):
            for device in published_slice.devices:
                skips = bool(published_slice.skip_node_operations)
                known[device.name] = inventory.kinds.of(pool.id.driver, device, (), skips)
        count += sum(map(budget.matches, known.values()))
    return count
