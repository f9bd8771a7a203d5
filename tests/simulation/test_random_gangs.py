"""Random lives with gangs, with and without faults. `GangStory(seed)` with the same faults plays a failing seed again."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import SeededFaults
from tests.simulation.gangs import EarlyClaimsStory, GangStory


#: 700151: later members that were placed one right after the other did not go by each other's rack.
@pytest.mark.parametrize("seed", [*range(25), 700151])
def test_without_faults(seed: int) -> None:
    assert GangStory(seed).play(25).calm().rest() == []


#: Found faults once: one member could not run any more while the others were let go; a member's room was forgotten in a restart; a
#: member's claim was deleted before it was let go.
FOUND = [102, 281, 700120]


@pytest.mark.parametrize("seed", [*range(25), *FOUND])
def test_with_faults(seed: int) -> None:
    assert GangStory(seed, SeededFaults(seed)).play(25).calm().rest() == []


@pytest.mark.parametrize("seed", range(10))
def test_with_claims_that_were_there_before(seed: int) -> None:
    assert EarlyClaimsStory(seed).play(25).calm().rest() == []


#: 280: a group that does not exist kept devices; 374: members that share a claim could not all run where it was.
@pytest.mark.parametrize("seed", [*range(10), 280, 374])
def test_with_claims_that_were_there_before_and_faults(seed: int) -> None:
    assert EarlyClaimsStory(seed, SeededFaults(seed)).play(25).calm().rest() == []
