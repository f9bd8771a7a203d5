"""Random clusters, random lives, with and without faults: what must hold holds at every step and in the end.

A failing seed plays again exactly: `Story(seed)` with the same faults.
"""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import SeededFaults
from dra_operator.engine.settings import EngineSettings
from tests.simulation.story import Story


@pytest.mark.parametrize("seed", range(30))
def test_without_faults(seed: int) -> None:
    assert Story(seed).play(25).calm().rest() == []


@pytest.mark.parametrize("seed", range(30))
def test_with_faults(seed: int) -> None:
    assert Story(seed, SeededFaults(seed)).play(25).calm().rest() == []


@pytest.mark.parametrize("seed", range(3))
def test_observe_mode_writes_nothing_but_reports(seed: int) -> None:
    story = Story(seed, settings=EngineSettings(mode="observe"))
    assert [violation for violation in story.play(15).rest(60.0) if violation.rule.startswith("observe")] == []


def test_the_same_seed_gives_the_same_run() -> None:
    def told() -> list[str]:
        story = Story(5, SeededFaults(5)).play(15)
        story.rest(100.0)
        return [f"{done.at:.6f} {done.decision}" for done in story.runner.executed]

    assert told() == told()
