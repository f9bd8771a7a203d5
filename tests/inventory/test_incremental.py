"""Whatever the order in which objects arrive, change and go, the inventory ends as if it had been made from the last state of each."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, solve
from dra_operator.allocator.document import read_document
from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.quantity import Quantity
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.inventory import Features, Inventory
from tests.allocator.problems import make_problem


class World:
    """The objects as they are now, and an inventory that was told of every change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.problem = make_problem(seed)
        self.features = Features.named(self.problem["features"])
        self.live = Inventory(self.features)
        self.slices: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.classes: dict[str, dict[str, Any]] = {}
        self.rules: dict[str, dict[str, Any]] = {}
        self.usage: dict[str, Allocation] = {}

    def step(self) -> None:
        """One change, often to what is there already."""
        change = self.random.choice(
            (
                self.change_slice,
                self.change_slice,
                self.change_node,
                self.change_class,
                self.change_rule,
                self.change_usage,
                self.change_usage,
            )
        )
        change()

    def change_slice(self) -> None:
        raw = deepcopy(self.random.choice(self.problem["slices"]))
        name = raw["metadata"]["name"]
        if name in self.slices and self.random.random() < 0.3:
            del self.slices[name]
            self.live.remove_slice(name)
            return
        spec = raw["spec"]
        if self.random.random() < 0.2:
            spec["pool"] = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
        for device in spec.get("devices") or ():
            if self.random.random() < 0.2:
                device["attributes"]["numa"] = {"int": self.random.randrange(3)}
        self.slices[name] = raw
        self.live.apply_slice(ResourceSlice.from_dict(raw))

    def change_node(self) -> None:
        name = self.random.choice(("node-0", "node-1", "node-2"))
        if name in self.nodes and self.random.random() < 0.3:
            del self.nodes[name]
            self.live.remove_node(name)
            return
        labels = {"zone": self.random.choice("xy"), "rack": self.random.choice("12")}
        status = {"declaredFeatures": ["DRAOptionalNodeOperations"]} if self.random.random() < 0.5 else {}
        self.nodes[name] = {"metadata": {"name": name, "labels": labels}, "status": status}
        self.live.apply_node(Node.from_dict(self.nodes[name]))

    def change_class(self) -> None:
        raw = self.random.choice(self.problem["classes"])
        self.classes[raw["metadata"]["name"]] = raw
        self.live.apply_class(DeviceClass.from_dict(raw))

    def change_rule(self) -> None:
        name = self.random.choice(("rule-a", "rule-b"))
        if name in self.rules and self.random.random() < 0.5:
            del self.rules[name]
            self.live.remove_taint_rule(name)
            return
        selectors: tuple[dict[str, str], ...] = (
            {},
            {"driver": "a.example.com"},
            {"pool": "pool-0"},
            {"device": "dev-0-0"},
        )
        selector = self.random.choice(selectors)
        taint = {"key": "rule", "effect": self.random.choice(("NoSchedule", "None"))}
        self.rules[name] = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
        self.live.apply_taint_rule(DeviceTaintRule.from_dict(self.rules[name]))

    def change_usage(self) -> None:
        uid = f"claim-{self.random.randrange(5)}"
        if uid in self.usage and self.random.random() < 0.5:
            del self.usage[uid]
            self.live.release(uid)
            return
        raw = self.random.choice(self.problem["slices"])["spec"]
        results = []
        for device in raw.get("devices") or ():
            if self.random.random() < 0.5:
                share = f"share-{self.random.randrange(9)}" if device.get("allowMultipleAllocations") else None
                taken = {"memory": Quantity.parse("1Gi")} if share and device.get("capacity") else {}
                results.append(
                    DeviceResult(
                        "r",
                        raw["driver"],
                        raw["pool"]["name"],
                        device["name"],
                        admin_access=self.random.random() < 0.1,
                        share_id=share,
                        consumed_capacity=taken,
                    )
                )
        self.usage[uid] = Allocation(results=tuple(results))
        self.live.use(uid, self.usage[uid])

    def rebuilt(self) -> Inventory:
        """An inventory made at once from what there is."""
        fresh = Inventory(self.features)
        for uid, allocation in sorted(self.usage.items()):
            fresh.use(uid, allocation)
        for raw in self.rules.values():
            fresh.apply_taint_rule(DeviceTaintRule.from_dict(raw))
        for raw in self.classes.values():
            fresh.apply_class(DeviceClass.from_dict(raw))
        for raw in self.slices.values():
            fresh.apply_slice(ResourceSlice.from_dict(raw))
        for raw in self.nodes.values():
            fresh.apply_node(Node.from_dict(raw))
        return fresh


def describe(inventory: Inventory) -> dict[str, Any]:
    """Everything that can be told of an inventory from outside."""
    inventory.refresh()
    nodes = {}
    for name in inventory.node_names:
        record = inventory.nodes[name]
        nodes[name] = {
            "devices": [(str(offer.id), offer.home, tuple(map(str, offer.taints))) for offer in record.offers],
            "used": record.used,
            "shares": record.shares,
            "pools": [
                (str(section.pool.id), section.status, section.start, section.stop) for section in record.sections
            ],
        }
    states = {frozenset(state.nodes) for state in inventory.states.populated()}
    return {
        "nodes": nodes,
        "one state each": len([name for names in states for name in names]) == len(nodes),
        "users": {str(offer.id): set(inventory.users(offer.id)) for offer in inventory.offers()},
        "collisions": {(str(item.device), frozenset(item.claims)) for item in inventory.collisions()},
    }


def answers(inventory: Inventory, problem: dict[str, Any]) -> list[Any]:
    claims = tuple(ResourceClaim.from_dict(raw) for raw in problem["claims"])
    found = []
    for strategy in (Strategy.FirstFit, Strategy.Pack):
        result = solve(Problem(claims, strategy=strategy), inventory.snapshot())
        found.append((type(result), result.node, result.allocations) if isinstance(result, Solved) else type(result))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_changes(seed: int) -> None:
    world = World(seed)
    for number in range(60):
        world.step()
        if number % 10 == 9:
            fresh = world.rebuilt()
            assert describe(world.live) == describe(fresh), number
            # Asking also makes the inventory tell devices apart by what the claims read.
            assert answers(world.live, world.problem) == answers(fresh, world.problem), number


@pytest.mark.parametrize("seed", range(40))
def test_simulations_leave_no_trace(seed: int) -> None:
    document = read_document(make_problem(seed))
    inventory = document.inventory
    problem = Problem(document.claims, document.nodes, strategy=Strategy.Pack)
    before, first = describe(inventory), solve(problem, inventory.snapshot())
    with inventory.snapshot() as view:
        for uid in list(inventory.usage.by_claim):
            view.release(uid)
        result = solve(problem, view)
        if isinstance(result, Solved):
            for claim, allocation in zip(document.claims, result.allocations, strict=True):
                revert = view.use(claim.meta.uid, allocation)
            revert()
            assert isinstance(solve(problem, view), Solved | type(result))
    assert describe(inventory) == before
    again = solve(problem, inventory.snapshot())
    assert type(again) is type(first)
    if isinstance(again, Solved) and isinstance(first, Solved):
        assert again.allocations == first.allocations
