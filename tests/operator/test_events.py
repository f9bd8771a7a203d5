from __future__ import annotations

from dra_operator.operator.events import EventGate
from dra_operator.operator.settings import EventSettings
from tests.operator.fakes import event


def test_the_same_event_is_written_again_only_after_a_while() -> None:
    gate = EventGate(EventSettings(repeat=300))
    answers = [gate.refuses(event(1), at) for at in (0.0, 10.0, 299.0, 301.0)]
    assert answers == [None, "repeated", "repeated", None]


def test_other_objects_and_notes_are_other_events() -> None:
    gate = EventGate(EventSettings())
    assert gate.refuses(event(1, "a"), 0.0) is None
    assert gate.refuses(event(2, "b"), 0.0) is None
    assert gate.refuses(event(3, "a", uid="v"), 0.0) is None


def test_a_burst_is_cut_and_refills_with_time() -> None:
    gate = EventGate(EventSettings(rate=2, burst=3))
    answers = [gate.refuses(event(number, str(number)), 100.0) for number in range(5)]
    assert answers == [None, None, None, "rate", "rate"]
    answers = [gate.refuses(event(number, str(number)), 101.0) for number in range(5, 9)]
    assert answers == [None, None, "rate", "rate"]
