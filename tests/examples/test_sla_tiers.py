"""`examples/sla-tiers` plays as its README tells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cli.simulation import play_files, result

TIERS = Path(__file__).parents[2] / "examples" / "sla-tiers"


def after(seconds: float) -> dict[str, Any]:
    run = play_files([str(TIERS)], until=seconds)
    assert not run.bad
    return result(run)


def running(found: dict[str, Any]) -> dict[str, int]:
    """Running pods by Deployment."""
    names = (pod["name"].rsplit("-", 2)[0] for pod in found["pods"] if pod["phase"] == "Running")
    return dict(Counter(names))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (20, {"service": 2, "sweep": 3}),
        (50, {"service": 2, "sweep": 1, "customer": 2}),
        (80, {"service": 2, "sweep": 1, "customer": 2, "alarm": 1}),
        (600, {"service": 2, "sweep": 1, "customer": 2, "alarm": 1}),
        (720, {"service": 2, "customer": 2, "alarm": 1, "second-service": 1}),
    ],
)
def test_who_runs(seconds: float, expected: dict[str, int]) -> None:
    assert running(after(seconds)) == expected


def test_the_last_batch_pod_is_told_that_the_gpu_is_reserved() -> None:
    (waiting,) = [claim for claim in after(20)["claims"] if claim["node"] is None]
    assert waiting["phase"] == "Queued"
    assert waiting["reason"].startswith("Reserved")


def test_only_batch_pods_are_evicted_and_each_for_whom_it_should() -> None:
    preempted = [event for event in after(720)["events"] if event["reason"] == "Preempted"]
    assert [event["object"].split("/")[-1].rsplit("-", 2)[0] for event in preempted] == ["sweep"] * 3
    assert [event["message"].split("priority ")[-1] for event in preempted] == ["10000", "10000", "1000"]
