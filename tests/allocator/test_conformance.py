"""The shared conformance cases: the in-tree allocator's own table, as data.

FirstFit must give the in-tree devices, configuration and node selector, or fail over the same object. The other strategies must
solve what can be solved, with results the validator accepts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.allocator import Failed, Problem, Solved, Strategy, Unsolved, solve, validate
from dra_operator.allocator.document import Document, read_document

CASES = Path(__file__).parents[2].parent / "shared" / "conformance" / "allocator"
FILES = sorted(CASES.glob("*.json")) if CASES.is_dir() else []

#: Where the in-tree allocator is wrong by the API documentation, and why.
EXCEPTIONS: dict[str, str] = {
    "multi-host-resource-pool-incomplete-update-from-node-1-to-node-2": (
        "in-tree takes a device of generation 1 although generation 2 is published elsewhere; "
        "ResourcePool: consumers should only consider the highest generation"
    ),
}

pytestmark = pytest.mark.skipif(not FILES, reason="the shared conformance cases are not there (../shared)")


def load(path: Path) -> tuple[dict[str, Any], Document]:
    data = json.loads(path.read_text())
    return data, read_document(data)


def wanted(data: dict[str, Any]) -> dict[str, Any]:
    """What the first in-tree variant that has the features says: the one a cluster would run."""
    for variant in ("incubating", "stable", "experimental"):
        if variant in data["want"]:
            return data["want"][variant]
    raise AssertionError("no variant")


def comparable(allocation: dict[str, Any]) -> dict[str, Any]:
    devices = allocation.get("devices") or {}
    results = [{**item, "shareID": bool(item.get("shareID"))} for item in devices.get("results") or ()]
    return {
        "results": sorted(results, key=lambda item: json.dumps(item, sort_keys=True)),
        "config": devices.get("config") or [],
        "nodeSelector": allocation.get("nodeSelector"),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_first_fit(path: Path) -> None:
    data, document = load(path)
    want = wanted(data)
    result = solve(Problem(document.claims, document.nodes, strategy=Strategy.FirstFit), document.inventory.snapshot())
    if path.stem in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[path.stem])
    if "error" in want:
        assert isinstance(result, Failed), result
        for word in named(want["error"]):
            assert word in result.message
    elif want["results"] is None:
        assert isinstance(result, Unsolved), result
    else:
        assert isinstance(result, Solved), result
        got = [comparable(item.to_dict()) for item in result.allocations]
        assert got == [comparable(item) for item in want["results"]]
        assert not validate(document.inventory.snapshot(), document.claims, result.allocations, result.node)


def named(error: str) -> list[str]:
    """The objects an in-tree message names."""
    words = error.replace(":", " ").replace(",", " ").split()
    return [
        f"{kind} {words[index + 1]}"
        for index, kind in enumerate(words[:-1])
        if kind in ("claim", "class", "request") and words[index + 1].partition("-")[0] in ("claim", "class", "req")
    ]


@pytest.mark.parametrize("strategy", [Strategy.Pack, Strategy.Spread, Strategy.Fragmentation])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_strategies(path: Path, strategy: Strategy) -> None:
    data, document = load(path)
    want = wanted(data)
    if path.stem in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[path.stem])
    result = solve(Problem(document.claims, document.nodes, strategy=strategy), document.inventory.snapshot())
    if isinstance(result, Solved):
        assert not validate(document.inventory.snapshot(), document.claims, result.allocations, result.node)
    if "error" not in want:
        assert isinstance(result, Solved) == (want["results"] is not None)
