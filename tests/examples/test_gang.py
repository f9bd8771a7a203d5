"""`examples/gang` plays as its README tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dra_operator.cli.simulation import play_files, result

GANG = Path(__file__).parents[2] / "examples" / "gang"


def nodes(seconds: float) -> dict[str, list[str]]:
    """By workload, the nodes its pods are on."""
    run = play_files([str(GANG)], until=seconds)
    assert not run.bad
    found: dict[str, list[str]] = {}
    pods: list[dict[str, Any]] = result(run)["pods"]
    for pod in pods:
        found.setdefault(pod["name"].split("-")[0], []).append(pod["node"])
    return {name: sorted(map(str, places)) for name, places in found.items()}


def test_the_first_gang_takes_the_whole_domain() -> None:
    assert nodes(20) == {"notebook": ["node-a0"], "pretraining": ["node-b0", "node-b1", "node-b2", "node-b3"]}


def test_the_second_takes_nothing_until_all_of_it_fits() -> None:
    assert nodes(85)["finetuning"] == ["None"] * 4
    assert nodes(150)["finetuning"] == ["node-a0", "node-a1", "node-a2", "node-a3"]
