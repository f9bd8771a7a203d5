"""When the engine is asked, what it is told, and what happens when it breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.engine.decisions import Outcome
from dra_operator.operator.feed import Observed, Replaced
from dra_operator.operator.loop import Loop
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import LoopSettings
from dra_operator.operator.writer import Written
from tests.operator.fakes import Clock, FakeEngine, Writes, status_write, turn, ungate


def pod(name: str, revision: int = 1) -> Observed:
    item = {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(revision)}}
    return Observed("Pod", "MODIFIED", Key("ns", name), item)


class Rig:
    def __init__(self, **changes: Any) -> None:
        self.engines: list[FakeEngine] = []
        self.clock = Clock()
        #: By how much what the clock shows differs from the steady one.
        self.shift = 0.0
        self.writes = Writes()
        self.metrics = Metrics()
        self.started_over = 0
        self.prepare: Any = lambda engine: None
        self.loop = Loop(
            self._engine, LoopSettings(**changes), self.metrics,
            start_over=self._start_over,
            clock=lambda: self.clock.now + self.shift, steady=self.clock, sleep=self.clock.sleep,
        )  # fmt: skip
        self.loop.write_through(self.writes)

    def _engine(self) -> FakeEngine:
        engine = FakeEngine()
        self.engines.append(engine)
        if len(self.engines) > 1:
            self.prepare(engine)
        return engine

    async def _start_over(self) -> None:
        self.started_over += 1
        self.loop.post(Replaced("Pod", set(), first=True))

    @property
    def engine(self) -> FakeEngine:
        return self.engines[-1]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_follower_observes_and_decides_nothing(rig: Rig) -> None:
    rig.loop.post(pod("a"))
    rig.loop.turn()
    assert rig.engine.told == [("MODIFIED", "Pod", "a")]
    assert rig.engine.decided_at == []


def test_a_leader_decides_once_for_all_that_has_come(rig: Rig) -> None:
    rig.loop.lead()
    rig.engine.plan = [[status_write(1)]]
    for name in "abc":
        rig.loop.post(pod(name))
    rig.loop.turn()
    assert len(rig.engine.told) == 3
    assert len(rig.engine.decided_at) == 1
    assert [decision.id for decision, _ in rig.writes.given] == [1]


def test_nothing_new_is_nothing_to_decide_until_the_engine_wants_to_wake(rig: Rig) -> None:
    rig.loop.lead()
    rig.engine.wake = rig.clock.now + 10
    rig.loop.turn()
    rig.loop.turn()
    assert len(rig.engine.decided_at) == 1
    rig.clock.now += 11
    rig.loop.turn()
    assert len(rig.engine.decided_at) == 2


def test_a_complete_list_is_told_and_the_first_one_syncs(rig: Rig) -> None:
    rig.loop.post(Replaced("Pod", {Key("ns", "a")}, first=True))
    rig.loop.post(Replaced("Pod", {Key("ns", "b")}, first=False))
    rig.loop.turn()
    assert rig.engine.told == [
        ("REPLACED", "Pod", frozenset({"a"})), ("SYNCED", "Pod"), ("REPLACED", "Pod", frozenset({"b"})),
    ]  # fmt: skip


def test_no_more_is_decided_while_much_waits_to_be_written(rig: Rig) -> None:
    rig.loop.lead()
    rig.writes.urgent_waiting = 1000
    rig.loop.post(pod("a"))
    rig.loop.turn()
    assert rig.engine.decided_at == []
    rig.writes.urgent_waiting = 0
    rig.loop.post(Written(0, Outcome(status_write(1), 200), sent=True))
    rig.loop.turn()
    assert len(rig.engine.decided_at) == 1
    assert len(rig.engine.outcomes) == 1


def test_pods_that_have_their_devices_are_let_go_while_much_waits_to_be_written(rig: Rig) -> None:
    rig.loop.lead()
    rig.writes.urgent_waiting = 1000
    rig.engine.plan, rig.engine.releases = [[status_write(2, "next")]], [ungate(1)]
    rig.loop.post(pod("a"))
    rig.loop.turn()
    assert [decision for decision, _ in rig.writes.given] == [ungate(1)]
    assert rig.engine.decided_at == []


def test_a_turn_has_an_end() -> None:
    """However slow the engine reads: answers and probes wait for the end of a turn."""
    rig = Rig(turn=0.03)

    def slow(kind: str, item: dict[str, Any]) -> bool:
        rig.clock.now += 0.02
        return False

    rig.engine.breaks_on = slow
    for name in "abc":
        rig.loop.post(pod(name))
    rig.loop.turn()
    assert len(rig.engine.told) == 2
    rig.loop.turn()
    assert len(rig.engine.told) == 3


def test_what_has_come_is_taken_in_before_the_next_decision() -> None:
    """200 objects of 2 ms each, fourteen turns of 30 ms: a decision every 50 ms at most, and one when all is known."""
    rig = Rig(turn=0.03, settle_backlog=0.05)
    rig.writes.urgent_waiting = 1

    def slow(kind: str, item: dict[str, Any]) -> bool:
        rig.clock.now += 0.002
        return False

    rig.loop.lead()
    rig.loop.turn()
    rig.engine.breaks_on = slow
    for number in range(200):
        rig.loop.post(pod(str(number)))
    turns = 0
    while rig.loop._inbox:
        rig.loop.turn()
        turns += 1
    assert len(rig.engine.told) == 200
    assert turns > 12
    assert 1 + turns // 3 <= len(rig.engine.decided_at) <= 2 + turns // 2
    assert rig.engine.decided_at[-1] == rig.clock.now


async def test_lists_wait_while_much_has_not_been_taken_in() -> None:
    rig = Rig(backlog=2)
    for name in "abc":
        rig.loop.post(pod(name))
    waiting = asyncio.ensure_future(rig.loop.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    rig.loop.turn()
    await asyncio.sleep(0)
    assert waiting.done()


def test_nothing_is_decided_after_stop(rig: Rig) -> None:
    rig.loop.lead()
    rig.loop.stop()
    rig.loop.post(pod("a"))
    rig.loop.turn()
    assert rig.engine.decided_at == []


async def test_losing_leadership_takes_back_what_was_not_sent_and_starts_afresh(rig: Rig) -> None:
    rig.loop.lead()
    rig.loop.turn()
    rig.loop.follow()
    assert rig.writes.dropped == ["NotLeader"]
    await turn()
    assert rig.started_over == 1
    rig.loop.post(Written(0, Outcome(status_write(1), 200), sent=True))
    rig.loop.turn()
    assert rig.engine.decided_at == []
    assert rig.engine.outcomes == [], "decided by the engine before"
    rig.loop.lead()
    rig.loop.turn()
    assert len(rig.engine.decided_at) == 1


async def test_a_crash_while_deciding_starts_a_fresh_engine_from_a_new_list(rig: Rig) -> None:
    rig.loop.lead()
    rig.engine.crash = RuntimeError("boom")
    rig.loop.post(pod("a"))
    rig.loop.turn()
    rig.loop.post(pod("lost", 2))
    await turn()
    assert len(rig.engines) == 2
    assert rig.started_over == 1
    rig.loop.turn()
    assert rig.engine.told == [("REPLACED", "Pod", frozenset()), ("SYNCED", "Pod")], "only what the sources repeat"
    assert len(rig.engine.decided_at) == 1
    assert rig.metrics.registry.get_sample_value("dra_operator_engine_crashes_total") == 1


async def test_crashes_in_a_row_come_with_growing_pauses(rig: Rig) -> None:
    rig.loop.lead()
    rig.engine.crash = RuntimeError("boom")
    rig.prepare = lambda engine: setattr(engine, "crash", RuntimeError("again") if len(rig.engines) < 5 else None)
    began, pauses = rig.clock.now, []
    for _ in range(5):
        rig.loop.turn()
        await turn()
        pauses.append(rig.clock.now - began)
        began = rig.clock.now
    assert pauses == [1.0, 2.0, 4.0, 8.0, 0.0]


async def test_an_object_that_breaks_the_engine_is_left_aside_until_it_changes(rig: Rig) -> None:
    rig.engine.breaks_on = rig_breaks
    rig.prepare = lambda engine: setattr(engine, "breaks_on", rig_breaks)
    rig.loop.post(pod("bad", 1))
    rig.loop.turn()
    await turn()
    for item in (pod("good"), pod("bad", 1)):
        rig.loop.post(item)
    rig.loop.turn()
    await turn()
    assert len(rig.engines) == 2
    assert rig.engine.told[-1] == ("MODIFIED", "Pod", "good")
    rig.engine.breaks_on = lambda kind, item: False
    rig.loop.post(pod("bad", 2))
    rig.loop.turn()
    assert rig.engine.told[-1] == ("MODIFIED", "Pod", "bad")


async def test_one_restart_finds_all_objects_that_break_the_engine(rig: Rig) -> None:
    rig.loop.lead()
    rig.engine.breaks_on = rig_breaks
    rig.prepare = lambda engine: setattr(engine, "breaks_on", rig_breaks)
    items = [pod("bad-1"), pod("good"), pod("bad-2"), pod("bad-3")]
    for item in items:
        rig.loop.post(item)
    rig.loop.turn()
    assert rig.engine.decided_at == [], "nothing is decided on what may be half changed"
    await turn()
    for item in items:
        rig.loop.post(item)
    rig.loop.turn()
    await turn()
    assert len(rig.engines) == 2
    assert ("MODIFIED", "Pod", "good") in rig.engine.told
    assert len(rig.engine.decided_at) == 1


def rig_breaks(kind: str, item: dict[str, Any]) -> bool:
    return bool(item["metadata"]["name"].startswith("bad"))


@pytest.mark.parametrize(("backlog", "pause"), [(0, 0.003), (1, 0.05)], ids=["written at once", "writes wait"])
async def test_running_it_decides_at_once_when_idle_and_together_under_load(backlog: int, pause: float) -> None:
    rig = Rig(settle_events=0.003, settle_backlog=0.05)
    rig.writes.urgent_waiting = backlog
    pauses, awake = [], asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await awake.wait()
        rig.clock.now += seconds

    rig.loop._sleep = sleep
    rig.loop.lead()
    task = asyncio.create_task(rig.loop.run())
    await turn(10)
    rig.clock.now += 1
    rig.loop.post(pod("a"))
    await turn(10)
    assert rig.engine.decided_at == [1000.0, 1001.0], "no pause when idle"
    assert pauses == []
    for name in "bcd":
        rig.loop.post(pod(name))
        await turn(10)
    assert pauses == [pytest.approx(pause)]
    awake.set()
    await turn(10)
    assert rig.engine.decided_at[2:] == [pytest.approx(1001 + pause)], "one decision for all that came in the pause"
    assert len(rig.engine.told) == 4
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("why", ["much waits to be written", "another replica leads", "stopping"])
async def test_a_time_to_decide_does_not_keep_a_loop_turning_that_may_not_decide(why: str) -> None:
    rig = Rig(heartbeat=60)
    rig.engine.wake = rig.clock.now
    rig.loop.lead()
    rig.loop.turn()
    match why:
        case "much waits to be written":
            rig.writes.urgent_waiting = 1000
        case "another replica leads":
            rig.loop._leading = False
        case "stopping":
            rig.loop.stop()
    turns = count_turns(rig.loop)
    task = asyncio.create_task(rig.loop.run())
    await turn(100)
    assert len(turns) <= 1, "what was posted before, and then nothing"
    rig.writes.urgent_waiting = 0
    rig.loop.post(Written(0, Outcome(status_write(1), 200), sent=True))
    await turn(10)
    assert (len(rig.engine.decided_at) > 1) == (why == "much waits to be written"), "an outcome makes it look again"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def count_turns(loop: Loop) -> list[float]:
    """Gets an entry for every turn from now on."""
    turns: list[float] = []
    turn = loop.turn

    def counted() -> None:
        turns.append(loop.last_turn)
        turn()

    loop.turn = counted  # type: ignore[method-assign]
    return turns


async def test_the_heartbeat_turns_an_idle_loop() -> None:
    rig = Rig(heartbeat=0.01)
    before = rig.loop.last_turn
    task = asyncio.create_task(rig.loop.run())
    rig.clock.now += 5
    await asyncio.sleep(0.05)
    assert rig.loop.last_turn > before
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("shift", "fresh"), [(-3600.0, True), (-2.0, False), (3600.0, False)])
async def test_a_clock_that_is_set_back_begins_anew(rig: Rig, shift: float, fresh: bool) -> None:
    rig.loop.lead()
    rig.engine.wake = rig.clock.now + 10
    rig.loop.turn()
    rig.shift = shift
    for _ in range(3):
        rig.loop.turn()
        await turn()
    assert rig.started_over == fresh
    if fresh:
        assert rig.engine.decided_at == [rig.clock.now + shift]
