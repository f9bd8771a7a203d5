"""How many claims of a shape the devices of a node serve, and that this is counted once for each condition they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dra_operator.allocator import Demand, Expected, Problem, attempt
from dra_operator.allocator.counting import Counting
from dra_operator.allocator.memory import memory_of
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory

HALF = {0: (50,), 1: (50,), 2: (50,)}
WHOLE = {0: (100,), 1: (100,), 2: (100,)}


@dataclass(frozen=True)
class Case:
    """Claims for `count` devices out of one of `groups`, each of them or a part of it, where `free` are free."""

    free: int
    serves: int
    count: int = 1
    groups: tuple[int, ...] = (0b111,)
    takes: dict[int, tuple[int, ...]] | None = None
    left: dict[int, tuple[int, ...]] | None = None


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(free=0b101, serves=2), id="whole devices"),
        pytest.param(Case(free=0b111, count=2, serves=1), id="two of three"),
        pytest.param(Case(free=0b1111, count=2, groups=(0b0111, 0b1000), serves=1), id="each group by itself"),
        pytest.param(Case(free=0b11, takes=HALF, left={0: (100,), 1: (70,)}, serves=3), id="shares"),
        pytest.param(Case(free=0b11, takes=HALF, left={0: (100,), 1: (49,)}, serves=2), id="too little is nothing"),
        pytest.param(Case(free=0b11, takes=HALF, left={0: (100,), 1: (-60,)}, serves=2), id="nor is less than nothing"),
        pytest.param(Case(free=0b111, count=2, takes=HALF, left=WHOLE, serves=1), id="shares of distinct devices"),
        pytest.param(Case(free=0b111, takes={0: (50,)}, left={0: (100,)}, serves=4), id="beside whole ones"),
    ],
)
def test_what_free_devices_serve(case: Case) -> None:
    counting = Counting()
    shape = counting.shape(case.count, case.groups, case.takes or {}, WHOLE)
    stock = counting.counted(counting.stock(case.free, case.left or {}))
    assert stock.counts[shape.number] == case.serves


def test_a_shape_that_comes_later_is_counted_as_well() -> None:
    counting = Counting()
    stock = counting.stock(0b11, {0: (100,), 1: (70,)})
    one = counting.shape(1, (0b11,), HALF, WHOLE)
    assert counting.counted(stock).counts[one.number] == 3
    pair = counting.shape(2, (0b11,), HALF, WHOLE)
    assert [counting.counted(stock).counts[shape.number] for shape in (one, pair)] == [3, 1]
    assert counting.looks == 2


def shared(nodes: int) -> Inventory:
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
    policy = {"default": "100", "validRange": {"min": "1"}}
    devices = [
        {
            "name": f"d{at}",
            "allowMultipleAllocations": True,
            "capacity": {"parts": {"value": "100", "requestPolicy": policy}},
        }
        for at in range(4)
    ]
    for name in (f"n{number}" for number in range(nodes)):
        inventory.apply_node(Node.from_dict({"metadata": {"name": name}}))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": name, "pool": pool, "devices": devices}
        inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec}))
    return inventory


def claim(number: int, parts: int) -> ResourceClaim:
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "capacity": {"requests": {"parts": str(parts)}}}
    metadata = {"name": f"c{number}", "namespace": "default", "uid": f"u{number}"}
    return ResourceClaim.from_dict(
        {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    )


KINDS = [claim(number, parts) for number, parts in enumerate((10, 20, 25, 50))]


def counted(inventory: Inventory) -> int:
    """Work: how often what some free devices serve was counted."""
    views = {state.view for state in inventory.states.populated()}
    return sum(memory_of(inventory).counting(view).looks for view in views)


def place(inventory: Inventory, number: int, demand: Demand) -> None:
    item = claim(number, (10, 20, 25, 50)[number % 4])
    answer = attempt(Problem((item,), demand=demand), inventory.snapshot())
    assert answer is not None
    inventory.use(item.meta.uid, answer.allocations[0])


def expecting(*weights: float) -> Demand:
    return Demand(tuple(Expected(kind.spec, weight) for kind, weight in zip(KINDS, weights, strict=True)), 1_000.0)


def ask(inventory: Inventory, demand: Demand) -> None:
    for kind in KINDS:
        assert attempt(Problem((kind,), demand=demand), inventory.snapshot()) is not None


def test_nothing_is_counted_again_when_the_demand_changes() -> None:
    inventory = shared(nodes=20)
    demand = expecting(0.4, 0.3, 0.2, 0.1)
    for number in range(8):
        place(inventory, 10 + number, demand)
    # Shapes that came later are counted in earlier conditions once somebody asks.
    ask(inventory, expecting(0.1, 0.2, 0.3, 0.4))
    before = counted(inventory)
    for turn in range(5):
        ask(inventory, expecting(0.1 * turn, 0.2, 0.3, 0.5 - 0.1 * turn))
    assert counted(inventory) == before


def test_a_placed_claim_costs_few_counts() -> None:
    """Each kind that is asked for looks at the condition that came up, and at those it would lead to."""
    inventory = shared(nodes=50)
    demand = expecting(0.4, 0.3, 0.2, 0.1)
    for number in range(20):
        place(inventory, 10 + number, demand)
    before = counted(inventory)
    for number in range(40):
        place(inventory, 40 + number, demand)
    assert counted(inventory) - before <= 40 * (1 + 2 * len(KINDS))
