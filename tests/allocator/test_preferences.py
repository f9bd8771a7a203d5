"""Preferences score: the best connected set is taken, and nothing becomes solvable or unsolvable for them."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, UnitConstraint, solve, validate
from dra_operator.allocator.document import read_document
from dra_operator.api.claims import Allocation, DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from tests.allocator.problems import make_problem

HALF = UnitConstraint((), ("d.example.com/half",), required=False)


def machine(name: str, halves: str, used: str = "", inventory: Inventory | None = None) -> Inventory:
    """A node with a GPU a letter, which names its half; `used`: one more letter each, `x` where it is in use."""
    inventory = inventory or Inventory()
    inventory.apply_node(Node.from_dict({"metadata": {"name": name, "labels": {"rack": name[0]}}}))
    devices = [{"name": f"g{at}", "attributes": {"half": _value(half)}} for at, half in enumerate(halves)]
    spec = {
        "driver": "d.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
    }
    inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": name}, "spec": {**spec, "devices": devices}}))
    inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
    results = [
        {"request": "r", "driver": "d.example.com", "pool": name, "device": f"g{at}"}
        for at, letter in enumerate(used)
        if letter == "x"
    ]
    if results:
        inventory.use(f"used-{name}", Allocation.from_dict({"devices": {"results": results}}))
    return inventory


def _value(half: str) -> Any:
    """`*`: a device on both halves, as a list says it."""
    return {"strings": ["a", "b"]} if half == "*" else {"string": half}


def claim(count: int) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    return ResourceClaim.from_dict(
        {"metadata": {"name": "c", "namespace": "d", "uid": "c"}, "spec": {"devices": {"requests": [request]}}}
    )


def taken(inventory: Inventory, count: int, *constraints: UnitConstraint, **fields: Any) -> tuple[str | None, str]:
    """The node, and the halves of the devices in order."""
    claims = (claim(count),)
    result = solve(Problem(claims, constraints=constraints, **fields), inventory.snapshot())
    assert isinstance(result, Solved), result
    assert not validate(inventory.snapshot(), claims, result.allocations, result.node)
    halves = []
    for item in result.allocations[0].results:
        record = inventory.nodes[item.pool]
        offer = next(offer for offer in record.offers if offer.id.device == item.device)
        value = offer.device.attributes["half"]
        halves.append("*" if isinstance(value, tuple) else str(value))
    return result.node, "".join(sorted(halves))


@pytest.mark.parametrize("strategy", [Strategy.Fragmentation, Strategy.Pack, Strategy.Spread])
@pytest.mark.parametrize(
    ("halves", "used", "count", "expected"),
    [
        ("aaaabbbb", "        ", 4, "aaaa"),
        ("abababab", "        ", 4, "aaaa"),
        ("aaaabbbb", "x       ", 4, "bbbb"),
        ("aaaabbbb", "        ", 6, "aaaabb"),
        ("abababab", "        ", 6, "aaaabb"),
        ("aaaabbbb", "xx      ", 5, "abbbb"),
        ("aaaabbbb", "xx  x   ", 5, "aabbb"),
        ("aaaabbbb", "        ", 8, "aaaabbbb"),
        # of two halves that suffice, the one with less left
        ("aaaabbbb", "x       ", 2, "aa"),
        ("aaaabbbb", "    xx  ", 2, "bb"),
        # a device on both counts with either
        ("aaa*bbbb", "x       ", 3, "*aa"),
    ],
)
def test_the_best_connected_set(strategy: Strategy, halves: str, used: str, count: int, expected: str) -> None:
    assert taken(machine("n", halves, used), count, HALF, strategy=strategy)[1] == expected


def test_a_node_with_a_connected_set_comes_before_the_strategy() -> None:
    inventory = machine("full", "aabb", "x x ")
    machine("whole", "aabb", inventory=inventory)
    assert taken(inventory, 2, strategy=Strategy.Pack)[0] == "full"
    assert taken(inventory, 2, HALF, strategy=Strategy.Pack)[0] == "whole"


def test_first_fit_takes_what_the_in_tree_allocator_takes() -> None:
    assert taken(machine("n", "abab"), 2, HALF, strategy=Strategy.FirstFit)[1] == "ab"


@pytest.mark.parametrize("strategy", [Strategy.Fragmentation, Strategy.Pack, Strategy.Spread])
def test_a_welcome_node_comes_before_the_strategy(strategy: Strategy) -> None:
    inventory = Inventory()
    for name in ("r1", "r2", "s1", "s2"):
        machine(name, "aabb", "x   " if name == "r1" else "", inventory)
    wish = {"wish": lambda name: 2.0 if name == "s2" else 1.0 if name == "r2" else 0.0, "wish_most": 2.0}
    assert taken(inventory, 2, strategy=strategy, **wish)[0] == "s2"
    fits = {"fits": lambda name: name != "s2"}
    assert taken(inventory, 2, strategy=strategy, **wish, **fits)[0] == "r2"


@pytest.mark.parametrize("batch", range(4))
def test_what_fits_stays_the_same(batch: int) -> None:
    """Random problems over every feature, with wishes and without."""
    wished = (
        UnitConstraint((), ("a.example.com/numa", "b.example.com/numa"), required=False, weight=3),
        UnitConstraint((), ("a.example.com/index",), required=False),
        UnitConstraint((), ("b.example.com/index",), distinct=True, required=False),
    )
    for seed in range(batch * 50, (batch + 1) * 50):
        document = read_document(make_problem(seed))
        plain = solve(Problem(document.claims, document.nodes), document.inventory.snapshot())
        for strategy in (Strategy.Fragmentation, Strategy.Spread):
            problem = Problem(
                document.claims,
                document.nodes,
                strategy=strategy,
                constraints=wished,
                wish=lambda name: float(name.endswith("1")),
                wish_most=1.0,
            )
            snapshot = document.inventory.snapshot()
            result = solve(problem, snapshot)
            assert isinstance(result, Solved) is isinstance(plain, Solved), f"seed {seed}, {strategy}"
            if isinstance(result, Solved):
                broken = validate(snapshot, document.claims, result.allocations, result.node)
                assert not broken, f"seed {seed}, {strategy}: {broken}"
