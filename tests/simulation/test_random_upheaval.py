"""Random lives under a careless administrator: the same holds at every step and in the end. A failing seed plays again exactly."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import Rates, SeededFaults
from tests.simulation.upheaval import Upheaval


@pytest.mark.parametrize("seed", range(6))
def test_without_faults(seed: int) -> None:
    assert Upheaval(seed).play(70).calm().rest() == []


@pytest.mark.parametrize("seed", range(6))
def test_with_faults_and_denials(seed: int) -> None:
    assert Upheaval(seed, SeededFaults(seed, Rates(denied=0.03))).play(70).calm().rest() == []
