"""FirstFit against the in-tree allocator on random problems over all features.

`allocators.compare` says who is right where they differ; being right for a wrong reason does not count.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.allocator.problems import make_capacities, make_partitions, make_problem
from tests.differential.allocators import compare
from tests.differential.gobuild import Unavailable, ask_all

_BATCH = 250
_BATCHES = int(os.environ.get("DRA_DIFFERENTIAL_PROBLEMS", "2250")) // _BATCH
#: Where fuzzing starts; another number gives other problems.
_FIRST = int(os.environ.get("DRA_DIFFERENTIAL_SEED", "0"))

#: Problems on which the two once differed, by what was wrong with ours.
FOUND = {
    "equal_devices_used_and_free_are_not_alike_to_admin_access": 15166,
    "admin_access_on_a_free_device_before_an_ordinary_request": 6864,
    "a_shared_device_taken_once_is_not_passed_over": 14440,
    "a_pool_comes_last_for_a_binding_device_of_another_node": 649,
    "a_further_share_takes_no_counters": 244,
    "selectors_with_computed_domains_read_everything": 796,
    "counters_come_before_constraints_under_all": 3626,
    "counter_slices_without_the_feature_are_no_pool": 9437,
    "all_with_an_invalid_pool_names_the_claim": 2639,
    "a_full_shared_device_under_all_still_breaks_the_constraint": 2205,
}


def answers(
    seeds: range | list[int], make: Callable[[int], dict[str, Any]] = make_problem
) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Seed, problem and in-tree answer."""
    problems = [make(seed) for seed in seeds]
    try:
        return list(zip(seeds, problems, ask_all("allocator", problems), strict=True))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("batch", range(_BATCHES))
def test_random_problems(batch: int) -> None:
    start = _FIRST + batch * _BATCH
    outcomes: Counter[str] = Counter()
    for seed, problem, answer in answers(range(start, start + _BATCH)):
        verdict = compare(problem, answer)
        assert verdict.acceptable, f"seed {seed}: {verdict.why}"
        outcomes["agreed" if verdict.agreed else "ours"] += 1
    assert outcomes["agreed"] >= 0.95 * _BATCH, outcomes


@pytest.mark.parametrize("easy", [1, 64])
def test_partitions(easy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of copies; also with the search's bounds at work from the first step on."""
    monkeypatch.setattr("dra_operator.allocator.search._EASY", easy)
    for seed, problem, answer in answers(range(_FIRST, _FIRST + _BATCH), make_partitions):
        verdict = compare(problem, answer)
        assert verdict.acceptable, f"seed {seed}: {verdict.why}"


def test_capacities() -> None:
    for seed, problem, answer in answers(range(_FIRST, _FIRST + 2 * _BATCH), make_capacities):
        verdict = compare(problem, answer)
        assert verdict.acceptable, f"seed {seed}: {verdict.why}"


def test_random_problems_with_bounds_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dra_operator.allocator.search._EASY", 1)
    for seed, problem, answer in answers(range(_FIRST + 100_000, _FIRST + 100_000 + _BATCH)):
        verdict = compare(problem, answer)
        assert verdict.acceptable, f"seed {seed}: {verdict.why}"


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    for seed, problem, answer in answers([FOUND[name]]):
        verdict = compare(problem, answer)
        assert verdict.acceptable, f"seed {seed}: {verdict.why}"
