"""`examples/patterns` play as their README tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dra_operator.cli.simulation import play_files, result

PATTERNS = Path(__file__).parents[2] / "examples" / "patterns"


def after(pattern: str, seconds: float | None = None) -> dict[str, Any]:
    run = play_files([str(PATTERNS / pattern)], until=seconds)
    assert not run.bad
    return result(run)


def nodes(found: dict[str, Any]) -> dict[str, list[str]]:
    """By workload, where its pods are."""
    places: dict[str, list[str]] = {}
    for pod in found["pods"]:
        places.setdefault(pod["name"].split("-")[0], []).append(str(pod["node"]))
    return {name: sorted(each) for name, each in places.items()}


def test_inference_takes_what_is_made_for_it_first() -> None:
    found = after("inference-optimized")
    assert nodes(found) == {"model": ["infer-0", "infer-1", "train-0"], "strict": ["None"]}
    (waiting,) = [claim for claim in found["claims"] if not claim["devices"]]
    assert waiting["reason"].startswith("NoDevices")
    assert {claim["devices"][0]["request"] for claim in found["claims"] if claim["devices"]} == {
        "gpu/optimized",
        "gpu/other",
    }


def test_premium_moves_when_its_devices_are_measured_slow() -> None:
    assert nodes(after("latency-tiers", 50))["assistant"] == ["quick", "quick"]
    found = after("latency-tiers")
    assert nodes(found)["assistant"] == ["spare", "spare"]
    assert {claim["phase"] for claim in found["claims"]} == {"Reserved"}
    drifted = [
        event["message"]
        for event in found["events"]
        if event["reason"] == "Drifted" and event["object"].startswith("claim/")
    ]
    assert any("latencyP99Ms < 50, it has 130" in message for message in drifted)
    assert nodes(found)["search"] == nodes(after("latency-tiers", 50))["search"], "standard claims stay where they are"


def test_critical_work_finds_its_devices() -> None:
    before = nodes(after("reserved-critical", 20))
    assert sorted(before["batch"]) == ["None", "gpu-1", "gpu-1", "gpu-2"], "one is kept free"
    found = after("reserved-critical")
    assert nodes(found)["alarm"] == ["gpu-reserved-1"]
    assert nodes(found)["fallback"] == ["gpu-2"]
    (sneaky,) = [claim for claim in found["claims"] if claim["name"].startswith("sneaky")]
    assert sneaky["phase"] == "QuotaExceeded"
