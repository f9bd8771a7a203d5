"""The problems of `tests/allocator/nasty.py` and `differences.py` against the in-tree allocator, the validator and every combination of devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dra_operator.allocator import Failed, Problem, Result, Solved, Strategy, solve, validate
from dra_operator.allocator.document import Document, read_document
from tests.allocator import brute
from tests.allocator.differences import DIFFERENCES, Difference
from tests.allocator.nasty import ERRORS, RULES, Nasty
from tests.differential.allocators import compare
from tests.differential.gobuild import Peer, Unavailable

AGREED = {**ERRORS, **RULES}
ALL: dict[str, Nasty | Difference] = {**AGREED, **DIFFERENCES}


@pytest.fixture(scope="module")
def in_tree() -> Iterator[Peer]:
    try:
        running = Peer("allocator")
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield running
    running.close()


def said(result: Result) -> list[str] | str | None:
    """An answer of ours as the rows write it; an error with all its words."""
    if isinstance(result, Failed):
        return result.message
    if not isinstance(result, Solved):
        return None
    return [item.device for allocation in result.allocations for item in allocation.results]


def said_in_tree(answer: dict[str, Any]) -> list[str] | str | None:
    if answer.get("error"):
        return str(answer["error"])
    if answer["results"] is None:
        return None
    return [item["device"] for allocation in answer["results"] for item in allocation["devices"]["results"]]


def same(found: list[str] | str | None, wanted: list[str] | str | None) -> bool:
    return wanted in found if isinstance(wanted, str) and isinstance(found, str) else found == wanted


def solved(document: Document, strategy: Strategy) -> Result:
    return solve(Problem(document.claims, document.nodes, strategy=strategy), document.inventory.snapshot())


@pytest.mark.parametrize("name", ALL)
def test_ours(name: str) -> None:
    """FirstFit gives what the row says, the others what is as good; what there is no solution of, no combination solves."""
    row = ALL[name]
    document = read_document(row.problem)
    for strategy in Strategy:
        result = solved(document, strategy)
        if strategy is Strategy.FirstFit:
            assert same(said(result), row.devices), said(result)
        if not isinstance(row.devices, str):
            # FirstFit ends with the first error it reaches; the others may go around it.
            assert isinstance(result, Solved) == isinstance(row.devices, list), (strategy, result)
        if isinstance(result, Solved):
            assert not validate(document.inventory.snapshot(), document.claims, result.allocations, result.node)
    if row.devices is None:
        assert brute.solution(document) is None


@pytest.mark.parametrize("name", AGREED)
def test_in_tree_agrees(in_tree: Peer, name: str) -> None:
    verdict = compare(AGREED[name].problem, in_tree.ask(AGREED[name].problem))
    assert verdict.agreed, verdict


@pytest.mark.parametrize("name", DIFFERENCES)
def test_in_tree_differs(in_tree: Peer, name: str) -> None:
    """As the row says, and no otherwise: once in-tree says what ours does, the row has to move."""
    row = DIFFERENCES[name]
    answer = in_tree.ask(row.problem)
    assert same(said_in_tree(answer), row.in_tree), answer
    verdict = compare(row.problem, answer)
    assert not verdict.agreed
    assert str(verdict.ours).startswith(row.verdict), f"{verdict}; the row's reason: {row.why}"
