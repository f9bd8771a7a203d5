"""`examples/churn` plays as its README tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dra_operator.cli.simulation import play_files, result

CHURN = Path(__file__).parents[2] / "examples" / "churn"


def claims(seconds: float) -> dict[str, list[tuple[str, str]]]:
    """By namespace, phase and node of the claims."""
    run = play_files([str(CHURN)], until=seconds)
    assert not run.bad
    found: dict[str, list[tuple[str, str]]] = {}
    entries: list[dict[str, Any]] = result(run)["claims"]
    for entry in entries:
        found.setdefault(entry["namespace"], []).append((entry["phase"], entry["node"]))
    return {name: sorted(places) for name, places in found.items()}


@pytest.mark.parametrize(
    ("seconds", "notebook", "chat"),
    [
        (20, ("Reserved", "node-40"), [("Reserved", "node-40"), ("Reserved", "node-40")]),
        (50, ("Drifted", "node-40"), [("Drifted", "node-40"), ("Drifted", "node-40")]),
        (180, ("Drifted", "node-40"), [("Reserved", "node-80"), ("Reserved", "node-80")]),
    ],
)
def test_who_has_what(seconds: float, notebook: tuple[str, str], chat: list[tuple[str, str]]) -> None:
    assert claims(seconds) == {"research": [notebook], "serving": chat}


def test_the_pods_are_restarted_one_after_the_other() -> None:
    run = play_files([str(CHURN)])
    restarted = [event["at"] for event in result(run)["events"] if event["reason"] == "Reallocating"]
    assert len(restarted) == 2
    assert restarted[1] - restarted[0] >= 30, "the first one has ended before the second is asked to"
