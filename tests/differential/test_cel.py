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

from dra_operator.cli.cel import answer
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

# Expressions that cel-go itself gets wrong, by what is wrong.
KNOWN = {
    # A sum of quantities on the right is a pointer there, which `==` does not know.
    'quantity("3") == quantity("1").add(2)': True,
    # A version looked up in a set of constants is a hash of an unhashable Go type: "internal error".
    'semver("1.0.0") in [dyn("1.0.0")]': False,
    # An optional element that turns out to be no optional panics in the cost estimate.
    "size([?dyn(optional.of(1))]) == 1": True,
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


def at_fault(reply: dict[str, Any]) -> bool:
    """Whether the Go program failed in itself, not in the expression."""
    return "panic:" in reply.get("error", "") or "internal error" in reply.get("error", "")


def disagreement(peer: Peer, case: dict[str, Any]) -> str | None:
    """What the two sides answer, if they differ."""
    ours = answer(case, "case")
    theirs = peer.ask(case)
    for _ in range(8):
        if outcome(ours) == outcome(theirs) or at_fault(theirs):
            return None
        theirs = peer.ask(case)
    return f"{case['expression']}\n  features {case['features']} {case['envType']}\n  device {case['device']}\n  Go {theirs}\n  we {ours}"


def excused(expression: str) -> bool:
    """Whether an expression touches what cel-go is known to get wrong."""
    return ".add(" in expression or ".sub(" in expression


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
        assert found is None or excused(expression), found


@pytest.mark.parametrize("expression", KNOWN)
def test_where_go_is_wrong(expression: str) -> None:
    device = {"driver": "gpu.example.com"}
    assert answer({"expression": expression, "device": device}, "case") == {"name": "case", "match": KNOWN[expression]}
