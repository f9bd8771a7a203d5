"""Random lives as if every queue were long: of units that are alike only the first that does not fit is tried, however few they are.

And of what Strict queues are told, at every pass, whether only those that something happened to are looked at or all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cluster.memory.faults import SeededFaults
from dra_operator.engine import line, lots
from dra_operator.engine.engine import Engine
from dra_operator.engine.queueing import Queue
from tests.simulation.gangs import GangStory
from tests.simulation.preemption import PreemptionStory
from tests.simulation.queues import QueueStory, in_turn
from tests.simulation.story import Story
from tests.simulation.upheaval import Upheaval


@pytest.fixture
def long_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lots, "FEW", 0)
    monkeypatch.setattr(line, "SHORT", 0)


@pytest.mark.usefixtures("long_queues")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("life", [Story, GangStory, PreemptionStory, Upheaval])
def test_what_fits_does_not_wait(life: type[Story], seed: int) -> None:
    assert life(seed, SeededFaults(seed)).play(40).calm().rest() == []


@pytest.mark.parametrize("few", [0, lots.FEW])
def test_who_is_behind_in_a_strict_queue_is_told_so_and_nobody_else(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lots, "FEW", few)
    assert sum(judged(QueueStory(seed), monkeypatch) for seed in range(5)) > 500


def judged(story: QueueStory, patch: pytest.MonkeyPatch) -> int:
    """How many times a unit was found to be kept back, in the passes after which nothing was left to be done at once."""
    passes, found = Queue.run, 0

    def run(queue: Queue, now: float, **more: Any) -> Any:
        nonlocal found
        decisions = passes(queue, now, **more)
        engine, state = story.runner.engine, queue._state
        if isinstance(engine, Engine) and not (state.requeued or queue.line.stirred or state.untried):
            for unit, ahead in in_turn(engine, now):
                assert (unit.reason == "BehindInQueue") == (ahead is not None), (story.log, unit, ahead)
                lot = queue.line.lot(unit.key)
                if ahead is not None and lot is not None and not lot.many:
                    assert f"Strict and {ahead.key.subject} is" in unit.message, (story.log, unit, ahead)
                found += ahead is not None
        return decisions

    with patch.context() as patched:
        patched.setattr(Queue, "run", run)
        story.play(60)
    return found
