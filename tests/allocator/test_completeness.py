"""Every strategy finds a solution exactly when there is one, on small problems where all combinations can be tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, solve, validate
from dra_operator.allocator.document import read_document
from tests.allocator import brute
from tests.allocator.problems import make_problem

STRATEGIES = (Strategy.Fragmentation, Strategy.Pack, Strategy.Spread)
_BATCH = 40

#: Problems that a solver once got wrong; a file's name says what was wrong.
FOUND = sorted(Path(__file__).with_name("found").glob("*.json"))


@pytest.mark.parametrize("batch", range(10))
def test_solvable_exactly_when_a_solution_exists(batch: int) -> None:
    for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
        check(make_problem(seed), f"seed {seed}")


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_found(file: Path) -> None:
    check(json.loads(file.read_text()), file.stem)


def check(problem: dict[str, Any], name: str) -> None:
    document = read_document(problem)
    solved = set()
    for strategy in STRATEGIES:
        snapshot = document.inventory.snapshot()
        result = solve(Problem(document.claims, document.nodes, strategy=strategy), snapshot)
        if isinstance(result, Solved):
            assert not validate(snapshot, document.claims, result.allocations, result.node), f"{name}, {strategy}"
        solved.add(isinstance(result, Solved))
    assert len(solved) == 1, f"{name}: the strategies disagree"
    if solved == {True}:
        return
    try:
        found = brute.solution(document)
    except brute.TooLarge:
        return
    assert found is None, f"{name}: {found}"
