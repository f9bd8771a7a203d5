"""Due times by key."""

from __future__ import annotations

import pytest

from dra_operator.engine.timers import Timers


@pytest.mark.parametrize(
    ("deeds", "next_at", "due_at_5"),
    [
        ([], None, []),
        ([("a", 3), ("b", 9)], 3, ["a"]),
        ([("a", 5), ("b", 4), ("c", 5)], 4, ["b", "a", "c"]),
        ([("a", 3), ("a", 7)], 7, []),
        ([("a", 7), ("a", 3)], 3, ["a"]),
        ([("a", 3), ("a", None), ("b", 9)], 9, []),
        ([("a", 3), ("a", None), ("a", 3)], 3, ["a"]),
        ([("a", None)], None, []),
    ],
    ids=["nothing", "one of two", "in order", "put off", "sooner", "dropped", "dropped and set again", "never set"],
)
def test_who_is_due(deeds: list[tuple[str, float | None]], next_at: float | None, due_at_5: list[str]) -> None:
    timers: Timers[str] = Timers()
    for key, at in deeds:
        if at is None:
            timers.drop(key)
        else:
            timers.set(key, at)
    assert timers.next() == next_at
    assert timers.due(5) == due_at_5
    assert timers.due(5) == []


def test_what_was_replaced_is_not_kept_for_ever() -> None:
    timers: Timers[str] = Timers()
    for number in range(10_000):
        timers.set("a", 1e9 - number)
        timers.set(f"b{number}", 2e9)
        timers.drop(f"b{number}")
    assert len(timers._heap) < 100
