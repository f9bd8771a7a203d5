"""Time goes on whatever the rules say: what could not be done is not tried for ever within one instant."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.engine.choosing import Choosing, Chosen
from dra_operator.engine.decisions import Decision
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.queueing import Queue
from dra_operator.engine.starvation import Starvation
from dra_operator.inventory import DeviceId
from tests.engine.stage import Stage, claim, device_class, gpus, node, pod, policy, priority_class

#: So many passes at one instant are none too many.
ENOUGH = 20


def full() -> Stage:
    """One device, which a pod has that may be preempted, and another pod that wants it."""
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), policy(preemption={"mode": "Always"}))
    stage.apply(priority_class("high", 10), claim("a"), pod("a", "a"))
    stage.run(20)
    stage.apply(claim("b"), pod("b", "b", priorityClassName="high"))
    return stage


def passes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> dict[float, int]:
    """How many there are at each instant; too many at one fail."""
    counts: dict[float, int] = {}
    run = Queue.run

    def counted(self: Queue, now: float, *, writing: bool) -> list[Decision]:
        counts[now] = counts.get(now, 0) + 1
        assert counts[now] <= ENOUGH, "time stands still"
        return run(self, now, writing=writing)

    monkeypatch.setattr(Queue, "run", counted)
    stage.run(10)
    return counts


def test_holds_that_come_free_in_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    act = Starvation.act

    def other(self: Starvation, *args: Any) -> list[Decision]:
        self._state.freed()
        return act(self, *args)

    stage = full()
    monkeypatch.setattr(Starvation, "act", other)
    monkeypatch.setattr(Preempting, "_wants", lambda self, unit: False)
    counts = passes(stage, monkeypatch)
    assert len(counts) > 10
    assert max(counts.values()) <= 3


def test_victims_that_are_given_up_as_soon_as_they_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, choose = Preempting._begin, Choosing.choose
    chosen: list[float] = []

    def begin_in_vain(self: Preempting, *args: Any) -> None:
        begin(self, *args)
        self._state.drop_hold(args[0].key)

    def counted(self: Choosing, unit: Any, pod: Any, now: float) -> Any:
        chosen.append(now)
        return choose(self, unit, pod, now)

    stage = full()
    monkeypatch.setattr(Preempting, "_begin", begin_in_vain)
    monkeypatch.setattr(Choosing, "choose", counted)
    counts = passes(stage, monkeypatch)
    assert max(counts.values()) <= 4
    assert len(set(chosen)) == len(chosen) >= 5


def test_a_unit_is_tried_once_in_a_pass_whatever_is_put_down_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is tried changes what the others could use, and asks to be tried again."""
    tries: dict[tuple[float, str], int] = {}
    attempt = Queue._try

    def other(self: Queue, unit: Any, now: float, *args: Any, **more: Any) -> list[Decision]:
        tries[now, unit.uid] = tries.get((now, unit.uid), 0) + 1
        self._state.freed()
        self._state.retry(unit)
        return attempt(self, unit, now, *args, **more)

    stage = full()
    stage.apply(claim("c"), pod("c", "c"))
    monkeypatch.setattr(Queue, "_try", other)
    counts = passes(stage, monkeypatch)
    assert all(number <= counts[at] for (at, _), number in tries.items())
    assert max(counts.values()) <= 3


def test_a_choice_that_comes_to_nothing_is_not_made_again_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing says that the devices are there although placing does not find them."""
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), policy(preemption={"mode": "Always"}))
    stage.apply(claim("a"), pod("a", "a"))
    stage.run(20)
    choices = []

    def choose(*args: Any) -> Chosen:
        choices.append(stage.world.now)
        return Chosen((), ("n1",), frozenset({DeviceId("gpu.example.com", "n1", "gpu-0")}), ())

    monkeypatch.setattr(Choosing, "choose", choose)
    stage.apply(claim("b"), pod("b", "b"))
    engine = stage.engines[-1]
    stage.run(5)
    begun = len(choices)
    assert 1 <= begun <= 6
    for _ in range(20):
        engine.decide(stage.world.now)
    assert len(choices) <= begun + 1
