"""Many starved units of which no two are alike: a pass looks at a bounded number of them, and all of them are looked at in time."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.engine.line import Line
from dra_operator.engine.starvation import AT_A_TIME, Starvation
from dra_operator.preemption import holds
from dra_operator.queue.units import Unit, UnitKey
from tests.engine.stage import claim, device_class, gpus, node, pod, priority_class
from tests.engine.test_work import Alike, counting

MANY = 3 * AT_A_TIME - 10
#: Seconds of virtual time within which each of MANY has looked for victims: four in a pass, ten passes a second, and some to spare.
IN_TIME = 3 + MANY / 40


class Different(Alike):
    """A full cluster of 32 devices, and starved claims that differ in their selectors. The last of them wants the one device, of another
    class, that a claim of low priority has."""

    def __init__(self, waiting: int) -> None:
        self.held: list[str] = []
        super(Alike, self).__init__(waiting=0)
        self.put("PriorityClass", priority_class("low", -10))
        self.put("DeviceClass", device_class("own", 'device.driver == "own.example.com"'))
        self.put("Node", node("other"))
        slice_ = gpus("other", 1)
        slice_["spec"]["driver"] = "own.example.com"
        self.put("ResourceSlice", slice_)
        self.bring("guest", of="own", priority="low")
        for number in range(32):
            self.arrive(number, 1)
        self.pass_by(5)
        self.held.remove("guest")
        for number in range(waiting):
            self.bring(f"w{number:05}", selector=f"{number} >= 0")
        self.bring("wants-its-own", of="own")

    def bring(self, name: str, count: int = 1, *, priority: str | None = None, **terms: Any) -> None:
        item = claim(name, count, **terms)
        item["metadata"] |= {
            "labels": {"dra-operator.dev/managed": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "annotations": {} if priority is None else {"dra-operator.dev/priority-class": priority},
        }
        self.put("ResourceClaim", item)

    def pass_by(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.1)):
            self.now += 0.1
            self.settle()


def test_a_pass_looks_at_a_bounded_number_and_all_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    different = Different(MANY)
    different.pass_by(31)
    looked: list[Unit] = []
    look = Starvation._look

    def noting(self: Starvation, unit: Unit, *rest: Any) -> bool:
        looked.append(unit)
        return look(self, unit, *rest)

    monkeypatch.setattr(Starvation, "_look", noting)
    inserted = counting(monkeypatch, Line, "_insert")
    passes = 6
    for _ in range(passes):
        before = len(looked)
        different.pass_by(0.1)
        assert len(looked) - before <= AT_A_TIME
    waiting = different.engine._state.waiting
    assert {unit.key for unit in looked} == {key for key, unit in waiting.items() if unit.starved_since is not None}
    assert len(waiting) >= MANY
    assert inserted.calls <= passes


def test_who_stands_last_looks_for_victims_in_time_however_much_changes() -> None:
    """With every device that comes free those at the front would look again, and nobody else ever."""
    different = Different(MANY)
    different.pass_by(31)
    began = different.now
    while "wants-its-own" not in different.held and different.now < began + IN_TIME:
        different.free_one()
        different.pass_by(0.3)
    assert "wants-its-own" in different.held


def test_a_node_to_hold_is_chosen_without_asking_who_ends_when_unless_something_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, chosen = counting(monkeypatch, holds, "ready_at"), counting(monkeypatch, Starvation, "_choose")
    different = Different(0)
    different.bring("pair-a", count=2)
    different.pass_by(31)
    assert (asked.calls, chosen.calls) == (0, 1)
    ending = pod("ending", "ending", activeDeadlineSeconds=60)
    different.put("Pod", ending)
    different.engine._state.drop_hold(UnitKey("claim", Key("default", "pair-a")))
    different.pass_by(1)
    assert chosen.calls == 2
    assert asked.calls > 0
