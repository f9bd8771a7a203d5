"""The selector dialect against the API server's own code: same answer, or an error at the same stage.

Where Go iterates over a map its order is random, so a different answer of ours is right if Go gives it as well when asked again.
Where the Go code is at fault, being right is right; those cases are named in `KNOWN`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dra_operator.api.semver import Semver
from dra_operator.cel import CelFeatures, CompileError, EvaluationError, compile_derived
from dra_operator.cli.cel import _device, answer
from tests.differential.expressions import choose_case, choose_derived_case
from tests.differential.gobuild import Peer, Unavailable
from tests.drawing import drawn

_EXPRESSIONS = int(os.environ.get("DRA_DIFFERENTIAL_EXPRESSIONS", "5200"))

# Expressions that cel-go itself gets wrong, by what is wrong.
KNOWN = {
    # A sum of quantities on the right is a pointer there, which `==` does not know.
    'quantity("3") == quantity("1").add(2)': True,
    # The least int64 is negated to subtract it, which gives itself.
    'quantity("0").sub(-9223372036854775808).isGreaterThan(quantity("0"))': True,
    # A version looked up in a set of constants is a hash of an unhashable Go type: "internal error".
    'dyn(semver("1.0.0")) in ["1.0.0"]': False,
    # An optional element of unknown type panics while compiling.
    "size([?dyn(optional.of(1)), ?dyn(optional.of(2))]) == 2": True,
    # As a branch of a conditional, has() on an optional gives an optional instead of a bool.
    'true ? has({"a": {"b": 1}}.?a.b) : false': True,
}


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    try:
        running = Peer("cel")
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield running
    running.close()


#: `has()` as a branch of a conditional.
_HAS_AS_BRANCH = re.compile(r"[?:] ?\(*has\(")


def outcome(reply: dict[str, Any]) -> Any:
    """What two answers are compared by."""
    if "match" in reply:
        return reply["match"]
    return "does not compile" if reply.get("compileError") else "fails"


def at_fault(case: dict[str, Any], reply: dict[str, Any]) -> bool:
    """Whether the Go program failed in itself, not in the expression."""
    error, expression = reply.get("error", ""), case["expression"]
    pointer = error == "no such overload" and any(part in expression for part in (".add(", ".sub("))
    negated = ".sub(" in expression and "-9223372036854775808" in expression
    branch = bool(_HAS_AS_BRANCH.search(expression)) and any(part in expression for part in (".?", "[?", "optional."))
    return pointer or negated or branch or "panic:" in error or "internal error" in error


def disagreement(peer: Peer, case: dict[str, Any]) -> str | None:
    """What the two sides answer, if they differ."""
    ours = answer(case, "case")
    theirs = peer.ask(case)
    for _ in range(8):
        if outcome(ours) == outcome(theirs) or at_fault(case, theirs):
            return None
        theirs = peer.ask(case)
    return f"{case['expression']}\n  features {case['features']} {case['envType']}\n  device {case['device']}\n  Go {theirs}\n  we {ours}"


@given(case=drawn(choose_case))
@settings(max_examples=_EXPRESSIONS, suppress_health_check=list(HealthCheck))
def test_random_expressions(peer: Peer, case: dict[str, Any]) -> None:
    found = disagreement(peer, case)
    if found is not None:
        pytest.fail(found, pytrace=False)


def derived(case: dict[str, Any]) -> Any:
    """Our answer for a derived attribute, in the form of the API."""
    features = CelFeatures(case["features"]["EnableListTypeAttributes"], case["features"]["EnableConsumableCapacity"])
    try:
        value, _ = compile_derived(case["expression"], features, case["envType"]).evaluate(_device(case["device"]))
    except CompileError:
        return "does not compile"
    except EvaluationError:
        return "fails"
    kinds: dict[type, str] = {bool: "bool", int: "int", str: "string", Semver: "version"}
    if not isinstance(value, tuple):
        return {kinds[type(value)]: str(value) if isinstance(value, Semver) else value}
    if not value:
        return {}  # the API leaves out an empty list
    kind = kinds[type(value[0])]
    return {f"{kind}s": [str(item) if isinstance(item, Semver) else item for item in value]}


@given(case=drawn(choose_derived_case))
@settings(max_examples=_EXPRESSIONS // 5, suppress_health_check=list(HealthCheck))
def test_random_derived_attributes(peer: Peer, case: dict[str, Any]) -> None:
    ours, reply = derived(case), peer.ask(case)
    theirs = reply.get("value", "does not compile" if reply.get("compileError") else "fails")
    for _ in range(8):
        if ours == theirs or at_fault(case, reply):
            break
        theirs = peer.ask(case).get("value", "fails")
    else:
        pytest.fail(f"{case['expression']}\n  {case}\n  Go {theirs}\n  we {ours}", pytrace=False)


@pytest.mark.parametrize("expression", KNOWN)
def test_where_go_is_wrong(peer: Peer, expression: str) -> None:
    case = {
        "expression": expression,
        "device": {"driver": "gpu.example.com"},
        "features": {},
        "envType": "StoredExpressions",
    }
    assert answer(case, "case") == {"name": "case", "match": KNOWN[expression]}
    assert outcome(peer.ask(case)) != KNOWN[expression], "Go has it right now: take it off the list"
