"""The published cases of the in-tree compiler: answers, errors, and the cost estimate to the unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cel import CelFeatures, CompileError, EvaluationError, compile_selector
from dra_operator.cli.cel import _device, answer

CASES = Path(__file__).parents[2].parent / "shared" / "conformance" / "cel"
if not CASES.is_dir():
    pytest.skip("the conformance cases are not beside the repository", allow_module_level=True)

ENVIRONMENTS = ("StoredExpressions", "NewExpressions")
SETTINGS = [
    {"EnableConsumableCapacity": sharing, "EnableListTypeAttributes": lists}
    for sharing in (True, False)
    for lists in (True, False)
]


def variants() -> list[Any]:
    """Each case under every setting it holds for."""
    found = []
    for file in sorted(CASES.glob("*.json")):
        case = json.loads(file.read_text())
        for features in [case["features"]] if "features" in case else SETTINGS:
            for environment in [case["envType"]] if "envType" in case else ENVIRONMENTS:
                variant = case | {"features": features, "envType": environment}
                found.append(pytest.param(variant, id=f"{case['name']}-{environment}-{sum(features.values())}"))
    return found


@pytest.mark.parametrize("case", variants())
def test_case(case: dict[str, Any]) -> None:
    want = case["want"]
    got = answer(case, case["name"])
    if "match" in want:
        assert got == {"name": case["name"], "match": want["match"]}
    elif "compileError" in want:
        assert want["compileError"] in got["compileError"]
    else:
        assert want["error"] in got["error"]


@pytest.mark.parametrize("case", variants())
def test_cost(case: dict[str, Any]) -> None:
    features = CelFeatures(
        list_type_attributes=case["features"]["EnableListTypeAttributes"],
        consumable_capacity=case["features"]["EnableConsumableCapacity"],
    )
    try:
        selector = compile_selector(case["expression"], features, case["envType"])
    except CompileError:
        assert case["want"]["estimatedCost"] == 0
        return
    assert selector.estimated_cost == case["want"]["estimatedCost"]
    try:
        _, cost = selector.measure(_device(case["device"]))
    except EvaluationError:
        return
    assert cost <= selector.estimated_cost
