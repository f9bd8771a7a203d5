"""Random lives as if every queue were long: of units that are alike only the first that does not fit is tried, however few they are."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import SeededFaults
from dra_operator.engine import line
from tests.simulation.gangs import GangStory
from tests.simulation.preemption import PreemptionStory
from tests.simulation.story import Story
from tests.simulation.upheaval import Upheaval


@pytest.fixture(autouse=True)
def long_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "FEW", 0)
    monkeypatch.setattr(line, "SHORT", 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("life", [Story, GangStory, PreemptionStory, Upheaval])
def test_what_fits_does_not_wait(life: type[Story], seed: int) -> None:
    assert life(seed, SeededFaults(seed)).play(40).calm().rest() == []
