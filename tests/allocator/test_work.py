"""What one claim looks at, on the shapes that `bench.allocator` measures: it must not grow with what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.allocator import shapes
from dra_operator.allocator import Problem, RecentDemand, Solved, solve
from dra_operator.allocator.document import Document, read_document
from dra_operator.allocator.index import Index
from dra_operator.allocator.memory import Known, Memory, memory_of
from dra_operator.allocator.outlook import Outlook
from dra_operator.allocator.search import Search
from dra_operator.allocator.solving import _Solver
from dra_operator.allocator.symmetry import Component
from dra_operator.allocator.tabulating import _Builder


def calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[None]:
    """One entry for each call of a method from now on."""
    seen: list[None] = []
    original: Callable[..., Any] = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        seen.append(None)
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)
    return seen


def fill(document: Document) -> int:
    """Allocate claim after claim; how many got what they ask for."""
    inventory, recent, allocated = document.inventory, RecentDemand(), 0
    for number, claim in enumerate(document.claims):
        recent.note(claim.spec)
        result = solve(Problem((claim,), demand=recent.demand), inventory.snapshot())
        if isinstance(result, Solved):
            inventory.use(f"u{number}", result.allocations[0])
            allocated += 1
    return allocated


def indexes(memory: Memory) -> list[Index]:
    return [index for known in memory._known.values() for index in known.indexes.values() if isinstance(index, Index)]


def test_kinds_are_judged_once_however_many_devices_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = calls(monkeypatch, _Builder, "_judge")
    found = []
    for devices in (600, 2_400):
        before = len(judged)
        assert fill(read_document(shapes.attached(20, devices, 20))) == 20
        found.append(len(judged) - before)
    # Three models, whatever NUMA node they are on, asked for by ones and by twos.
    assert found == [6, 6]


def test_partitions_are_judged_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = calls(monkeypatch, _Builder, "_judge")
    assert fill(read_document(shapes.partitioned(2, 20))) == 20
    # Four profiles are asked for; the partitions of a node either have that profile or have not.
    assert len(judged) == 4 * 2


def test_states_that_nodes_have_left_do_not_pile_up_among_equals() -> None:
    document = read_document(shapes.shared(20, 1_600))
    assert fill(document) == 1_600
    assert [len(index) for index in indexes(memory_of(document.inventory)) if len(index) > 60] == []


def test_of_twins_one_look_at_each_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions, keys = calls(monkeypatch, Component, "local"), calls(monkeypatch, Search, "_key")
    searches = calls(monkeypatch, Search, "run")
    assert fill(read_document(shapes.partitioned(10, 150))) == 150
    # Of eight GPUs with at most seven partitions of a kind each, at most once per search; and no key where one choice is all there is.
    assert 0 < len(conditions) <= 56 * len(searches)
    assert len(keys) == 0


def test_a_plan_looks_at_states_that_have_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = calls(monkeypatch, Index, "_consider")
    document = read_document(shapes.wide(6, 64, 200))
    assert fill(document) > 100
    # Each kind meets each of six nodes in at most one new state whenever it is asked, and not all the states since it was asked last.
    assert len(looked_at) <= 6 * 200


def test_states_of_nodes_without_a_usable_device_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    document = read_document(shapes.running_out(10, 30))
    others = read_document(shapes.aligned(10, 60)).claims
    inventory = document.inventory
    assert isinstance(solve(Problem((document.claims[0],)), inventory.snapshot()), Solved)
    judged = calls(monkeypatch, Known, "judge")
    for number, other in enumerate(others[:20]):
        # Pairs of any model: they go to other nodes than those with the model asked for, one state after another.
        result = solve(Problem((other,), nodes=("node-00000", "node-00001")), inventory.snapshot())
        if isinstance(result, Solved):
            inventory.use(f"o{number}", result.allocations[0])
    before = len(judged)
    assert len(inventory.states.known()) > 6
    assert isinstance(solve(Problem((document.claims[1],)), inventory.snapshot()), Solved)
    assert len(judged) == before


def test_supply_is_counted_once_for_claims_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = calls(monkeypatch, Outlook, "_stock")
    document = read_document(shapes.filling(100, 60))
    assert fill(document) == 60
    # Three models, and claims for 1, 2, 4 and 8 of the devices: one look at each model for each kind of claim.
    assert 0 < len(looked_at) <= 3 * len(memory_of(document.inventory)._known)


def test_no_node_is_looked_at_by_itself_where_states_say_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    closer = calls(monkeypatch, _Solver, "__init__")
    document = read_document(shapes.running_out(10, 20))
    # Six H100 groups of four, and one look at why there is no seventh.
    assert fill(document) == 6
    assert len(closer) == 1


def test_more_nodes_that_are_alike_make_no_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = calls(monkeypatch, Known, "judge")
    found = []
    for nodes in (100, 400):
        before = len(judged)
        assert fill(read_document(shapes.filling(nodes, 100))) == 100
        found.append(len(judged) - before)
    assert found[0] == found[1]
