"""Every strategy finds a solution exactly when there is one, on small problems where all combinations can be tried."""

from __future__ import annotations

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, solve, validate
from dra_operator.allocator.document import read_document
from tests.allocator import brute
from tests.allocator.problems import make_problem

STRATEGIES = (Strategy.Fragmentation, Strategy.Pack, Strategy.Spread)
_BATCH = 40

#: Problems a solver once got wrong, by what was wrong.
FOUND = {"a_list_may_come_second_under_distinct": 2164, "groups_without_the_feature_make_a_pool_unusable": 1272}


@pytest.mark.parametrize("batch", range(10))
def test_solvable_exactly_when_a_solution_exists(batch: int) -> None:
    for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
        check(seed)


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    check(FOUND[name])


def check(seed: int) -> None:
    document = read_document(make_problem(seed))
    solved = set()
    for strategy in STRATEGIES:
        snapshot = document.inventory.snapshot()
        result = solve(Problem(document.claims, document.nodes, strategy=strategy), snapshot)
        if isinstance(result, Solved):
            assert not validate(snapshot, document.claims, result.allocations, result.node), f"seed {seed}, {strategy}"
        solved.add(isinstance(result, Solved))
    assert len(solved) == 1, f"seed {seed}: the strategies disagree"
    if solved == {True}:
        return
    try:
        found = brute.solution(document)
    except brute.TooLarge:
        return
    assert found is None, f"seed {seed}: {found}"
