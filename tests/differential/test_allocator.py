"""FirstFit against the in-tree allocator on random problems over all features, drawn and shrunk by Hypothesis.

`allocators.compare` says who is right where they differ; being right for a wrong reason does not count.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.allocator.problems import choose_problem
from tests.allocator.shapes import choose_capacities, choose_partitions
from tests.differential.allocators import compare
from tests.differential.gobuild import Peer, Unavailable
from tests.drawing import drawn

_PROBLEMS = int(os.environ.get("DRA_DIFFERENTIAL_PROBLEMS", "2250"))
#: Problems on which the two once differed, or that a strategy once got wrong; a file's name says what was wrong with ours.
FOUND = sorted(Path(__file__).parents[1].joinpath("allocator", "found").glob("*.json"))


@pytest.fixture(scope="module")
def in_tree() -> Iterator[Peer]:
    try:
        running = Peer("allocator")
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield running
    running.close()


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Counter[str]]:
    """How often who was right. If the in-tree allocator seems wrong too often, it is our judgement that is wrong."""
    found: Counter[str] = Counter()
    yield found
    assert found["agreed"] >= 0.95 * found.total(), found


def examples(count: int) -> settings:
    return settings(max_examples=count, suppress_health_check=list(HealthCheck))


def check(in_tree: Peer, problem: dict[str, Any]) -> str:
    """Who was right: "agreed", or why ours was."""
    answer = in_tree.ask(problem)
    verdict = compare(problem, answer)
    if not verdict.acceptable:
        # The problem as `kubectl-dra solve --strategy FirstFit` reads it, and as a file for `found/`.
        pytest.fail(f"{verdict.why}\nproblem: {json.dumps(problem)}\nin-tree: {json.dumps(answer)}", pytrace=False)
    return "agreed" if verdict.agreed else str(verdict.ours).partition(":")[0]


@given(problem=drawn(choose_problem))
@examples(_PROBLEMS)
def test_random_problems(in_tree: Peer, outcomes: Counter[str], problem: dict[str, Any]) -> None:
    outcomes[check(in_tree, problem)] += 1


@given(problem=drawn(choose_problem))
@examples(_PROBLEMS // 10)
def test_random_problems_with_bounds_from_the_start(
    in_tree: Peer, monkeypatch: pytest.MonkeyPatch, problem: dict[str, Any]
) -> None:
    monkeypatch.setattr("dra_operator.allocator.search._EASY", 1)
    check(in_tree, problem)


@pytest.mark.parametrize("easy", [1, 64])
@given(problem=drawn(choose_partitions))
@examples(_PROBLEMS // 10)
def test_partitions(in_tree: Peer, easy: int, monkeypatch: pytest.MonkeyPatch, problem: dict[str, Any]) -> None:
    """Copies of copies; also with the search's bounds at work from the first step on."""
    monkeypatch.setattr("dra_operator.allocator.search._EASY", easy)
    check(in_tree, problem)


@given(problem=drawn(choose_capacities))
@examples(_PROBLEMS // 5)
def test_capacities(in_tree: Peer, problem: dict[str, Any]) -> None:
    check(in_tree, problem)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_found(in_tree: Peer, file: Path) -> None:
    check(in_tree, json.loads(file.read_text()))
