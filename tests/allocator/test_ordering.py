"""What Fragmentation makes of the CPU and memory beside devices, and how much of the cluster it looks at for a claim."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from dra_operator.allocator import Demand, Expected, Problem, Solved, kinds_of, solve
from dra_operator.allocator.memory import Known, memory_of
from dra_operator.allocator.ordering import Ordering, orderings_of
from dra_operator.allocator.situations import Situations
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.inventory.trail import Trail

DRIVER = "d.example.com"
Amounts = dict[str, tuple[int, int]]


class Ledger:
    """CPU and memory by node, as `Rooms` wants it."""

    def __init__(self, rooms: Amounts) -> None:
        self.rooms, self.changes = rooms, Trail[str]()

    def room(self, node: str) -> tuple[int, int]:
        return self.rooms[node]

    def take(self, node: str, beside: tuple[int, int]) -> None:
        cpu, memory = self.rooms[node]
        self.rooms[node] = cpu - beside[0], memory - beside[1]
        self.changes.note(node)


def cluster(devices: int | dict[str, int], rooms: Amounts) -> tuple[Inventory, Ledger]:
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
    for name in rooms:
        inventory.apply_node(Node.from_dict({"metadata": {"name": name}}))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": pool,
            "devices": [{"name": f"d{at}"} for at in range(devices if isinstance(devices, int) else devices[name])],
        }
        inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec}))
    return inventory, Ledger(rooms)


def claim(number: int, count: int = 1, **fields: Any) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, **fields}}
    metadata = {"name": f"c{number}", "namespace": "default", "uid": f"u{number}"}
    return ResourceClaim.from_dict({"metadata": metadata, "spec": {"devices": {"requests": [request]}}})


def place(
    inventory: Inventory, ledger: Ledger, item: ResourceClaim, beside: tuple[int, int], demand: Demand | None
) -> str:
    answer = solve(Problem((item,), rooms=ledger, beside=beside, demand=demand), inventory.snapshot())
    assert isinstance(answer, Solved)
    assert answer.node is not None
    inventory.use(item.meta.uid, answer.allocations[0])
    ledger.take(answer.node, beside)
    return answer.node


@pytest.mark.parametrize(
    ("rooms", "beside", "on"),
    [
        pytest.param({"a": (64, 64), "b": (8, 64)}, (2, 2), "b", id="where all its devices can be used no more"),
        pytest.param({"a": (64, 64), "b": (64, 8)}, (2, 2), "b", id="memory counts like CPU"),
        pytest.param({"a": (20, 64), "b": (64, 64)}, (17, 2), "b", id="what strands three devices goes elsewhere"),
    ],
)
def test_devices_are_kept_with_the_cpu_and_memory_they_need(rooms: Amounts, beside: tuple[int, int], on: str) -> None:
    inventory, ledger = cluster(4, rooms)
    demand = Demand((Expected(claim(0).spec, 1.0, (4, 4)),), 1_000.0)
    assert place(inventory, ledger, claim(1), beside, demand) == on


def test_a_node_that_still_takes_a_whole_claim_is_kept_for_it() -> None:
    """Of claims for several devices half a one is worth nothing: node a serves none any more, for lack of CPU."""
    inventory, ledger = cluster(4, {"a": (15, 64), "b": (16, 64)})
    demand = Demand((Expected(claim(0, 4).spec, 1.0, (16, 16)),), 1_000.0)
    assert place(inventory, ledger, claim(1), (1, 1), demand) == "a"


FOUR_SEEN = Demand((Expected(claim(0).spec, 1.0, (14, 14)),), 4.0)


@pytest.mark.parametrize(
    ("devices", "rooms", "demand", "item", "beside", "on"),
    [
        pytest.param(
            {"a": 8, "b": 2, "c": 2},
            {"a": (96, 96), "b": (64, 64), "c": (64, 64)},
            FOUR_SEEN,
            claim(1),
            (14, 14),
            "b",
            id="eight times what single claims take is more than a has beside its eight devices, and they stay together all the same",
        ),
        pytest.param(
            {"a": 4, "b": 1},
            {"a": (64, 64), "b": (64, 64)},
            None,
            claim(1, adminAccess=True),
            (32, 32),
            "b",
            id="nothing asked for yet: CPU is taken where there is most of it for each device",
        ),
    ],
)
def test_little_is_known_at_first(
    devices: dict[str, int],
    rooms: Amounts,
    demand: Demand | None,
    item: ResourceClaim,
    beside: tuple[int, int],
    on: str,
) -> None:
    inventory, ledger = cluster(devices, rooms)
    assert place(inventory, ledger, item, beside, demand) == on


def only(inventory: Inventory) -> Ordering:
    (found,) = orderings_of(inventory)._kept.values()
    return found


@pytest.mark.parametrize("nodes", [20, 80])
def test_a_claim_costs_a_look_at_what_changed(nodes: int) -> None:
    """Work: situations looked at do not grow with the cluster once all were seen."""
    inventory, ledger = cluster(4, {f"n{number:02}": (100 + number, 64) for number in range(nodes)})
    first = claim(0)
    demand = Demand((Expected(first.spec, 1.0, (4, 4)),), 1_000.0)
    place(inventory, ledger, first, (4, 4), demand)
    before = only(inventory).looked_at
    assert before == nodes
    for number in range(1, 11):
        place(inventory, ledger, claim(number), (4, 4), demand)
    assert only(inventory).looked_at - before <= 11


def test_nodes_that_are_alike_are_looked_at_once() -> None:
    inventory, ledger = cluster(4, {f"n{number:02}": (64, 64) for number in range(50)})
    first = claim(0)
    place(inventory, ledger, first, (4, 4), Demand((Expected(first.spec, 1.0, (4, 4)),), 1_000.0))
    assert only(inventory).looked_at == 1


def test_one_kind_of_claim_counts_in_two_halves_by_cpu() -> None:
    spec = claim(0).spec
    found = kinds_of([(spec, {(1, 10): 2.0, (3, 30): 2.0, (8, 20): 4.0})])
    assert [(item.weight, item.beside) for item in found] == [(0.5, (2, 20)), (0.5, (8, 20))]


def test_pods_that_take_the_same_are_one_kind() -> None:
    found = kinds_of([(claim(0).spec, {(4, 4): 3.0})])
    assert [(item.weight, item.beside) for item in found] == [(1.0, (4, 4))]


def test_a_reader_too_far_behind_is_told_so() -> None:
    trail = Trail[str]()
    for number in range(70_000):
        trail.note(str(number))
    assert trail.since(0) is None
    assert trail.since(trail.end - 2) == ["69998", "69999"]


def test_situations_that_are_over_are_not_kept() -> None:
    """A node that pods come to and go from is in a new situation each time; whoever has not read for long looks at all there are."""
    rooms = {"a": (1_000_000, 1_000_000), "b": (500_000, 500_000)}
    inventory, ledger = cluster(8, rooms)
    inventory.snapshot()
    situations = Situations(inventory, ledger)
    situations.catch_up()
    behind = situations.journal_end
    for _ in range(10_000):
        ledger.take("a", (1, 1))
        situations.catch_up()
        assert [item.nodes for item in situations.journal[-1:]] == [["a"]]
    assert len(situations.journal) < 100
    assert behind < situations.journal_start
    assert situations.journal_end == situations.journal_start + len(situations.journal)
    assert sorted(item.nodes for item in situations.populated()) == [["a"], ["b"]]
    assert len(ledger.changes.since(ledger.changes.end - 1) or ()) == 1
    assert ledger.changes.since(0) is None


def test_what_was_worked_out_for_another_demand_is_not_kept() -> None:
    """States without nodes tell an index that waits for them; they do not keep it when nobody asks it any more."""
    inventory, ledger = cluster(8, {"a": (1_000, 1_000)})
    spec = claim(0).spec
    indexes = []
    for number in range(7):
        item = ResourceClaim(claim(number).meta, spec)
        place(inventory, ledger, item, (1, 1), Demand((Expected(spec, 1.0, (4, 4)),), 1_000.0))
        known = memory_of(inventory).known(Problem((item,)))
        assert isinstance(known, Known)
        assert known.index is not None
        indexes.append(ref(known.index))
    gc.collect()
    assert [index() is None for index in indexes[:4]] == [True] * 4
