"""Random lives with preemption, with and without faults. `PreemptionStory(seed)` with the same faults plays a failing seed again."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import SeededFaults
from tests.simulation.preemption import PreemptionStory

#: A preemptor that others of higher priority overtake twice; one overtaken by pods that share a claim, of which the lowest is reserved
#: first; a gang whose Job is deleted while it waits; one that is served, and evicted itself; one on a node that a unit of higher
#: priority holds.
KNOWN = (5049, 5059, 5075, 5044, 700078)


@pytest.mark.parametrize("seed", [*range(12), *KNOWN])
def test_without_faults(seed: int) -> None:
    assert PreemptionStory(seed).play(30).rest() == []


@pytest.mark.parametrize("seed", range(12))
def test_with_faults(seed: int) -> None:
    assert PreemptionStory(seed, SeededFaults(seed)).play(30).rest() == []


def test_there_is_something_to_judge() -> None:
    assert sum(len(victims) for seed in range(5) for victims in PreemptionStory(seed).play(30).evicted.values()) >= 10
