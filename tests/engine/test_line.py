"""The line of waiting units: its order at every moment, and what is told of it."""

from __future__ import annotations

import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.faults import SeededFaults
from dra_operator.engine.engine import Engine
from dra_operator.engine.rows import place_of
from tests.engine.stage import policy
from tests.engine.test_work import Long
from tests.simulation.preemption import PreemptionStory
from tests.simulation.story import Story

CLAIMS = 100


def places(engine: Engine) -> list[tuple[int, int]]:
    """Position and length of the queue as `explain` tells them, of the claim that came last and of those before it, first in first."""
    found = []
    for number in (CLAIMS, *range(CLAIMS)):
        account = engine.explain("claim", Key("default", f"c{number:05}"), 1_000_000_100.0)
        assert account is not None
        found.append((account.queue["position"], account.queue["of"]))
    return found


def with_one_in_front() -> Long:
    """A long queue, and a claim of higher priority that came after all others."""
    long = Long(waiting=CLAIMS)
    long.put("AllocationPolicy", policy("c", priority=7, claimSelector={"matchLabels": {"kind": "urgent"}}))
    long.passes(1)
    long.arrive(CLAIMS, 9, kind="urgent")
    long.passes(20)
    assert long.engine.waiting == CLAIMS + 1
    return long


def test_explain_tells_true_positions_of_a_long_queue() -> None:
    long = with_one_in_front()
    assert [str(position) for position, _ in places(long.engine)] == [str(1 + index) for index in range(CLAIMS + 1)]
    assert {of for _, of in places(long.engine)} == {CLAIMS + 1}


def test_positions_in_reports_follow_in_turn() -> None:
    long = with_one_in_front()
    waiting = long.engine._state.waiting
    for _ in range(60):
        long.now += 1.0
        long.engine.decide(long.now)
    told = {unit.key.subject.name: unit.position for unit in waiting.values()}
    assert told == {f"c{(index - 1) % (CLAIMS + 1):05}": index + 1 for index in range(CLAIMS + 1)}


@pytest.mark.parametrize("life", [Story, PreemptionStory])
def test_the_line_is_in_order_at_every_step(life: type[Story]) -> None:
    assert sum(ordered_steps(life(seed, SeededFaults(seed))) for seed in range(4)) > 500


def ordered_steps(story: Story) -> int:
    """In how many steps more than one unit waited; in none of them they may be out of order."""
    checked = 0

    def check() -> None:
        nonlocal checked
        engine = story.runner.engine
        if not isinstance(engine, Engine):
            return
        state, line = engine._state, engine._queue.line
        settled = [unit for unit in state.waiting.values() if unit.key not in state.requeued]
        in_line = [unit for unit in line.units() if unit.key not in state.requeued]
        assert in_line == sorted(settled, key=place_of)
        checked += len(settled) > 1

    story.world.after_step.append(check)
    story.play(20)
    return checked
