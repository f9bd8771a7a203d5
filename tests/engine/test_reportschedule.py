"""Which reports a pass looks at: what has changed and what is due, never all that wait for the end of a burst."""

from __future__ import annotations

import pytest

from dra_operator.api.meta import Key
from dra_operator.engine.reportschedule import WHEN_ANSWERED, Due, Schedule

A, B, C = (Key("ns", name) for name in "abc")
NEVER = float("inf")


def test_a_pass_looks_at_what_has_changed_and_not_at_what_waits() -> None:
    schedule = Schedule()
    for number in range(1000):
        schedule.put_off(Key("ns", f"c{number}"), Due(10.0, 30.0 + number))
    schedule.look_at(A)
    assert schedule.in_turn(5.0, quiet=False) == [A]
    schedule.put_off(A, Due(12.0, 40.0))
    assert schedule.in_turn(5.0, quiet=False) == []
    assert schedule.next_turn(quiet=False) == 30.0


@pytest.mark.parametrize(
    ("now", "quiet", "turn", "following"),
    [
        (5.0, True, [C], 10.0),
        (10.0, True, [A, C], 20.0),
        (20.0, True, [A, B, C], NEVER),
        (20.0, False, [C], 30.0),
        (30.0, False, [A, C], 50.0),
    ],
)
def test_when_they_are_due(now: float, quiet: bool, turn: list[Key], following: float) -> None:
    schedule = Schedule()
    schedule.put_off(A, Due(10.0, 30.0))
    schedule.put_off(B, Due(20.0, 50.0))
    schedule.look_at(C)
    assert schedule.in_turn(now, quiet=quiet) == turn
    assert schedule.next_turn(quiet=quiet) == following
    for key in turn:
        schedule.put_off(key, WHEN_ANSWERED)
    assert schedule.in_turn(now, quiet=quiet) == []


def test_a_change_brings_forward_what_was_put_off() -> None:
    schedule = Schedule()
    schedule.put_off(A, WHEN_ANSWERED)
    assert schedule.in_turn(1e9, quiet=True) == []
    schedule.look_at(A)
    assert schedule.due(A) is None
    assert schedule.in_turn(0.0, quiet=True) == [A]


def test_what_is_dropped_is_never_due() -> None:
    schedule = Schedule()
    schedule.put_off(A, Due(10.0, 30.0))
    schedule.look_at(B)
    schedule.drop(A)
    schedule.drop(B)
    assert not schedule
    assert schedule.next_turn(quiet=True) == NEVER
    assert schedule.in_turn(100.0, quiet=True) == []
