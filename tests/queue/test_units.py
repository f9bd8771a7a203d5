"""The order of the queue, and backoff."""

from __future__ import annotations

from dra_operator.api.meta import Key
from dra_operator.queue.units import Unit, UnitKey, order


def unit(name: str, *, priority: int = 0, created: float = 0.0) -> Unit:
    return Unit(UnitKey("pod", Key("d", name)), f"uid-{name}", (), created, priority, priority)


def test_priority_then_age_then_uid() -> None:
    units = [unit("b"), unit("a"), unit("old", created=-5), unit("urgent", priority=1000, created=9)]
    assert [each.key.subject.name for each in sorted(units, key=order)] == ["urgent", "old", "a", "b"]


def test_backoff_doubles_is_capped_and_jittered() -> None:
    each = unit("a")
    delays = []
    for _ in range(6):
        each.back_off(100.0, 1.0, 8.0)
        delays.append(each.not_before - 100.0)
    for delay, base in zip(delays, [1, 2, 4, 8, 8, 8], strict=True):
        assert base <= delay <= base * 1.2
    assert len(set(delays)) == len(delays)


def test_the_jitter_differs_between_units_but_not_between_runs() -> None:
    first, again, other = unit("a"), unit("a"), unit("b")
    for each in (first, again, other):
        each.back_off(0.0, 10.0, 100.0)
    assert first.not_before == again.not_before != other.not_before
