"""The selector dialect against the API server's own code: same answer, or an error at the same stage.

Where Go iterates over a map its order is random, so a different answer of ours is right if Go gives it as well when asked again.
Where the Go code is at fault, being right is right; those cases are named in `KNOWN`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dra_operator.api.semver import Semver
from dra_operator.cel import CelFeatures, CompileError, EvaluationError, compile_derived
from dra_operator.cli.cel import _device, answer
from tests.differential.expressions import devices, expressions
from tests.differential.gobuild import Peer, Unavailable

_FEATURES = [
    {"EnableConsumableCapacity": sharing, "EnableListTypeAttributes": lists}
    for sharing in (True, False)
    for lists in (True, False)
]
# Expressions a run compares: 20 an example.
_EXAMPLES = int(os.environ.get("DRA_DIFFERENTIAL_EXAMPLES", "260"))
_BATCH = 20
_DERIVED = ("bool", "int", "string", "semver", "ints", "strings", "dyn", "double", "map")

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
}


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    try:
        running = Peer("cel")
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield running
    running.close()


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
    return pointer or negated or "panic:" in error or "internal error" in error


def disagreement(peer: Peer, case: dict[str, Any]) -> str | None:
    """What the two sides answer, if they differ."""
    ours = answer(case, "case")
    theirs = peer.ask(case)
    for _ in range(8):
        if outcome(ours) == outcome(theirs) or at_fault(case, theirs):
            return None
        theirs = peer.ask(case)
    return f"{case['expression']}\n  features {case['features']} {case['envType']}\n  device {case['device']}\n  Go {theirs}\n  we {ours}"


@given(st.data())
@settings(
    max_examples=_EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
def test_random_expressions(peer: Peer, data: st.DataObject) -> None:
    device = data.draw(devices())
    features = data.draw(st.sampled_from(_FEATURES))
    environment = data.draw(st.sampled_from(["StoredExpressions", "NewExpressions"]))
    for _ in range(_BATCH):
        expression = data.draw(expressions())
        case = {"expression": expression, "device": device, "features": features, "envType": environment}
        found = disagreement(peer, case)
        assert found is None, found


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


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
def test_random_derived_attributes(peer: Peer, data: st.DataObject) -> None:
    for _ in range(_BATCH):
        case = {
            "expression": data.draw(expressions(data.draw(st.sampled_from(_DERIVED)))),
            "device": data.draw(devices()),
            "features": data.draw(st.sampled_from(_FEATURES)),
            "envType": data.draw(st.sampled_from(["StoredExpressions", "NewExpressions"])),
            "derived": True,
        }
        ours, reply = derived(case), peer.ask(case)
        theirs = reply.get("value", "does not compile" if reply.get("compileError") else "fails")
        for _ in range(8):
            if ours == theirs or at_fault(case, reply):
                break
            theirs = peer.ask(case).get("value", "fails")
        else:
            assert ours == theirs, case


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
