"""What a pass looks at while units wait whose turn depends on others: Strict queues and fair shares. Counted, never timed."""

from __future__ import annotations

import pytest

from dra_operator.engine.line import Line
from dra_operator.engine.placing import Placer
from dra_operator.engine.queueing import Queue
from dra_operator.engine.state import State
from dra_operator.queue.units import Unit
from tests.engine.stage import policy
from tests.engine.test_work import Alike, counting

KINDS = 5
WAITING = 400
#: What one change may look at: a few units of each kind.
EACH = 8 * KINDS


class Queued(Alike):
    """A full cluster of 32 devices, and many claims of five kinds in a queue whose policy has these terms."""

    def __init__(self, **terms: object) -> None:
        self.held = []
        super(Alike, self).__init__(waiting=0)
        self.put("AllocationPolicy", policy("queue", preemption={"mode": "Never"}, **terms))
        for number in range(32):
            self.arrive(number, 1)
        self.rest(10)
        for number in range(32, 32 + WAITING):
            self.arrive(number, 1 + number % KINDS)
        self.rest(60)
        assert self.engine.waiting == WAITING

    def rest(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self.settle()

    def told(self) -> list[str]:
        """The reasons of those that wait, best first."""
        return [unit.reason for unit in self.engine._queue.line.units()]


STRICT = {"queueing": "Strict"}
FAIR = {"fairness": "FairShare"}


@pytest.mark.parametrize("terms", [STRICT, FAIR, STRICT | FAIR], ids=["Strict", "FairShare", "both"])
def test_a_freed_device_and_a_new_claim_do_not_look_at_all_that_wait(
    terms: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = Queued(**terms)
    looked = [
        counting(monkeypatch, owner, name)
        for owner, name in (
            (Queue, "_try"), (Unit, "block"), (Line, "_insert"), (Placer, "candidates"), (State, "terms"),
        )
    ]  # fmt: skip
    for freed in range(10):
        before = [counter.calls for counter in looked]
        queued.free_one()
        assert all(counter.calls - calls <= EACH + 20 for counter, calls in zip(looked, before, strict=True))
        queued.arrive(1000 + freed, 2)
        queued.rest(3)


def test_a_strict_queue_says_of_all_but_the_first_that_they_stand_behind() -> None:
    assert Queued(**STRICT).told() == ["NoDevices", *["BehindInQueue"] * (WAITING - 1)]


def test_a_strict_queue_serves_in_order_even_where_a_later_one_would_fit() -> None:
    """The first asks for three, so what comes free waits for it, and none of the many that ask for one gets it."""
    queued = Queued(**STRICT)
    first = queued.engine._queue.line.some(0, 1)[0]
    held = len(queued.held)
    for freed in range(1, 4):
        assert first.key in queued.engine._state.waiting
        queued.free_one()
        assert len(queued.held) == held - freed + (freed == 3)
    queued.rest(1)
    assert first.key not in queued.engine._state.waiting


def test_who_stands_behind_is_told_the_name_of_the_first_in_rounds() -> None:
    queued = Queued(**STRICT)
    for _ in range(3):
        queued.free_one()
    queued.rest(60)
    units = list(queued.engine._queue.line.units())
    name = units[0].key.subject
    assert {unit.message for unit in units[1:]} == {f"policy queue is Strict and {name} is stuck ahead of it"}


def test_a_share_that_changes_moves_all_of_the_namespace_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queued = Queued(**FAIR)
    line = queued.engine._queue.line
    inserted = counting(monkeypatch, Line, "_insert")
    first = line.some(0, 1)[0]
    before = first.share.value
    queued.free_one()
    queued.rest(1)
    assert first.share.value != before or first.key not in queued.engine._state.waiting
    places = [line.place(unit.key) for unit in line.units()]
    assert places == sorted(places)
    assert inserted.calls <= 4
