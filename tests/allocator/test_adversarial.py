"""Shapes on which a plain search explodes. Each must be answered in few steps; a step is some microseconds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Failed, Problem, Solved, Strategy, Unsolved, solve, validate
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory

DRIVER = "d.example.com"


def device(number: int, **attributes: Any) -> dict[str, Any]:
    kinds = {int: "int", bool: "bool", str: "string", list: "ints"}
    values = {name: {kinds[type(value)]: value} for name, value in attributes.items()}
    return {"name": f"x{number}", "attributes": values}


def taking(name: str, counter_set: str, amounts: dict[str, int], **attributes: Any) -> dict[str, Any]:
    counters = {counter: {"value": str(amount)} for counter, amount in amounts.items()}
    return {
        **device(0, **attributes),
        "name": name,
        "consumesCounters": [{"counterSet": counter_set, "counters": counters}],
    }


def inventory(devices: list[dict[str, Any]], counters: list[dict[str, Any]] | None = None) -> Inventory:
    found = Inventory()
    found.apply_node(Node.from_dict({"metadata": {"name": "n"}}))
    found.apply_class(DeviceClass.from_dict({"metadata": {"name": "any"}, "spec": {}}))
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool}
    found.apply_slice(ResourceSlice.from_dict({"metadata": {"name": "devices"}, "spec": {**spec, "devices": devices}}))
    if counters:
        found.apply_slice(
            ResourceSlice.from_dict({"metadata": {"name": "counters"}, "spec": {**spec, "sharedCounters": counters}})
        )
    return found


def claim(requests: list[dict[str, Any]], *constraints: tuple[str, str]) -> ResourceClaim:
    rules = [{f"{kind}Attribute": f"{DRIVER}/{name}"} for kind, name in constraints]
    return ResourceClaim.from_dict(
        {
            "metadata": {"name": "c", "namespace": "d", "uid": "u"},
            "spec": {"devices": {"requests": requests, "constraints": rules}},
        }
    )


def ask(name: str, count: int, selector: str | None = None) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": "any", "count": count}
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"name": name, "exactly": exactly}


def groups(size: int, count: int) -> list[dict[str, Any]]:
    """`count` groups of `size` devices: the group is `g`, the place in it `h`; every device has a `u` of its own."""
    return [device(i, g=i // size, h=i % size, u=f"u{i}") for i in range(size * count)]


def partitions(gpus: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """GPUs of 7 units, each offered as 7 small partitions of 1 and 3 big ones of 3."""
    devices = [taking(f"s{g}-{i}", f"set{g}", {"u": 1}) for g in range(gpus) for i in range(7)]
    devices += [taking(f"b{g}-{i}", f"set{g}", {"u": 3}, big=True) for g in range(gpus) for i in range(3)]
    return devices, [{"name": f"set{g}", "counters": {"u": {"value": "7"}}} for g in range(gpus)]


def mixed(room: int) -> Inventory:
    """40 devices that take anything from 1 to 9 of either of two counters, and `room` of both."""
    random = Random(3)
    devices = [taking(f"x{i}", "s", {"u": random.randint(1, 9), "v": random.randint(1, 9)}) for i in range(40)]
    return inventory(devices, [{"name": "s", "counters": {name: {"value": str(room)} for name in "uv"}}])


G = f'device.attributes["{DRIVER}"].g'
BIG = f'"big" in device.attributes["{DRIVER}"]'
MATCH_G, MATCH_H = ("match", "g"), ("match", "h")
DISTINCT_G, DISTINCT_H = ("distinct", "g"), ("distinct", "h")

Row = tuple[Callable[[], Inventory], Callable[[], ResourceClaim], bool, int]

#: name: inventory, claim, solvable, steps.
ROWS: dict[str, Row] = {
    "9_of_32_in_groups_of_8": (lambda: inventory(groups(8, 4)), lambda: claim([ask("r", 9)], MATCH_G), False, 200),
    "9_of_64_in_groups_of_8": (lambda: inventory(groups(8, 8)), lambda: claim([ask("r", 9)], MATCH_G), False, 200),
    "9_requests_of_64_in_groups_of_8": (
        lambda: inventory(groups(8, 8)),
        lambda: claim([ask(f"r{i}", 1) for i in range(9)], MATCH_G),
        False,
        500,
    ),
    "8_of_64_in_groups_of_8": (lambda: inventory(groups(8, 8)), lambda: claim([ask("r", 8)], MATCH_G), True, 400),
    "two_requests_of_5_in_groups_of_8": (
        lambda: inventory(groups(8, 8)),
        lambda: claim([ask("r", 5), ask("q", 5)], MATCH_G),
        False,
        500,
    ),
    "one_group_and_one_place": (
        lambda: inventory(groups(8, 8)),
        lambda: claim([ask("r", 1), ask("q", 1)], MATCH_G, MATCH_H),
        False,
        1_000,
    ),
    "17_different_of_16_values": (
        lambda: inventory(groups(4, 16)),
        lambda: claim([ask("r", 17)], DISTINCT_G),
        False,
        200,
    ),
    "17_requests_with_different_values_of_16": (
        lambda: inventory(groups(4, 16)),
        lambda: claim([ask(f"r{i}", 1) for i in range(17)], DISTINCT_G),
        False,
        500,
    ),
    "8_rooks_on_a_chessboard": (
        lambda: inventory(groups(8, 8)),
        lambda: claim([ask("r", 8)], DISTINCT_G, DISTINCT_H),
        True,
        3_000,
    ),
    "10_requests_for_9_devices": (
        lambda: inventory(groups(1, 29)),
        lambda: claim([ask(f"r{i}", 1, f"{G} < 9") for i in range(10)]),
        False,
        2_000,
    ),
    "requests_that_leave_each_other_too_little": (
        lambda: inventory(groups(1, 24)),
        lambda: claim([*(ask(f"r{i}", 1, f"{G} <= {23 - i}") for i in range(24)), ask("z", 1, f"{G} == 0")]),
        False,
        500,
    ),
    "17_big_partitions_of_8_gpus": (
        lambda: inventory(*partitions(8)),
        lambda: claim([ask("r", 17, BIG)]),
        False,
        2_000,
    ),
    "small_partitions_before_big_ones": (
        lambda: inventory(*partitions(8)),
        lambda: claim([ask("s", 9, f"!({BIG})"), ask("r", 16, BIG)]),
        False,
        5_000,
    ),
    "small_partitions_before_as_many_big_ones_as_fit": (
        lambda: inventory(*partitions(8)),
        lambda: claim([ask("s", 8, f"!({BIG})"), ask("r", 16, BIG)]),
        True,
        5_000,
    ),
    "two_counters_that_pull_apart": (
        lambda: inventory(
            [taking(f"x{i}", "s", {"u": 3 + i % 5, "v": 7 - i % 5}) for i in range(40)],
            [{"name": "s", "counters": {"u": {"value": "40"}, "v": {"value": "40"}}}],
        ),
        lambda: claim([ask("r", 9)]),
        False,
        5_000,
    ),
    "enough_of_either_counter_but_not_of_both": (lambda: mixed(30), lambda: claim([ask("r", 11)]), False, 200),
    "just_enough_of_both_counters": (lambda: mixed(30), lambda: claim([ask("r", 10)]), True, 500),
}


@pytest.mark.parametrize("strategy", [Strategy.FirstFit, Strategy.Fragmentation])
@pytest.mark.parametrize("name", ROWS)
def test_few_steps(name: str, strategy: Strategy) -> None:
    make_inventory, make_claim, solvable, steps = ROWS[name]
    found, wanted = make_inventory(), make_claim()
    result = solve(Problem((wanted,), strategy=strategy, work_budget=steps), found.snapshot())
    assert isinstance(result, Solved if solvable else Unsolved), result
    if isinstance(result, Solved):
        assert not validate(found.snapshot(), (wanted,), result.allocations, result.node)


def test_a_search_without_end_says_so() -> None:
    """Which devices add up stays hard, here even ones to an odd sum: the answer is then not "no"."""
    amounts = [50 + i * 37 % 51 * 2 for i in range(40)]
    devices = [taking(f"x{i}", "s", {"u": amount, "v": 200 - amount}) for i, amount in enumerate(amounts)]
    counters = {"u": {"value": "1601"}, "v": {"value": "1599"}}
    found = inventory(devices, [{"name": "s", "counters": counters}])
    wanted = claim([ask("r", 16)])
    result = solve(Problem((wanted,), work_budget=2_000), found.snapshot())
    assert isinstance(result, Failed)
    assert result.kind == "budget"
    assert result.reason == "SearchBudgetExceeded"
    assert "d/c" in result.message
