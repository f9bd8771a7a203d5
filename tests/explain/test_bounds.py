"""However much there is to say, a ClaimReport stays small, and what it leaves out is counted."""

from __future__ import annotations

import orjson

from dra_operator.explain.explanation import (
    REPORT,
    WHYS,
    Cause,
    ConjunctCount,
    Edit,
    Explanation,
    Fix,
    NearNode,
    RequestExplanation,
    Step,
    explanation_dict,
)

LONG = "x" * 20_000


def request(number: int) -> RequestExplanation:
    details = tuple((f"{index} {LONG}", 3) for index in range(1000))
    steps = tuple(Step(why, 3000, LONG, None, details) for why in WHYS)
    terms = tuple(ConjunctCount(LONG, "request", 0, 10, 5, only=1, best="40Gi") for _ in range(100))
    return RequestExplanation("default/c", f"r{number}", "gpu", 1, 42_000, steps, 0, 0, terms)


def test_a_report_stays_small() -> None:
    nodes = tuple(f"node-{number}" for number in range(5000))
    fixes = (
        *(Fix("bound", LONG, tuple(Edit("Pod default/p", "spec.x", number) for number in range(5000)), nodes),) * 50,
    )
    told = explanation_dict(
        Explanation(
            summary=LONG,
            requests=tuple(request(number) for number in range(64)),
            causes=(Cause("allocated", LONG),) * 100,
            nodes=(NearNode(nodes[:5], 5000, (LONG,)),) * 100,
            fixes=fixes,
            warnings=(LONG,) * 100,
        ),
        REPORT,
    )
    size = len(orjson.dumps(told))
    assert size < 400_000, size
    step = told["requests"][0]["steps"][0]
    assert step["devices"] == sum(item["devices"] for item in step["details"]) + step["more"] == 3000
    (fix, *_) = told["fixes"]
    assert "edits" not in fix, "a part of the edits would do no good"
    assert len(fix["nodes"]) + fix["moreNodes"] == 5000


def test_what_fits_is_told_whole() -> None:
    fix = Fix(
        "bound", "lower it", (Edit("ResourceClaim default/c", "spec.devices.requests[0].exactly.count", 1),), ("n1",)
    )
    told = explanation_dict(Explanation("short", fixes=(fix,)), REPORT)
    assert told == {"summary": "short", "requests": [], "fixes": [fix.to_dict()]}
    assert told["fixes"][0]["node"] == "n1"
