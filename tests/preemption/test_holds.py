"""What holds keep from whom."""

from __future__ import annotations

import pytest

from dra_operator.api.meta import Key
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING, Hold, Holds
from dra_operator.queue.units import UnitKey

FIRST, SECOND = (UnitKey("claim", Key("default", name)) for name in ("first", "second"))
COVERED, WANTED = (frozenset({DeviceId("gpu.example.com", "n1", name)}) for name in ("gpu-0", "gpu-1"))


@pytest.mark.parametrize(
    ("unit", "rank", "priority", "ends_at", "kept"),
    [
        (SECOND, (2,), 0, None, COVERED | WANTED),
        (FIRST, (1,), 0, None, NOTHING),
        (SECOND, (0,), 0, None, COVERED | WANTED),
        (SECOND, (0,), 10, None, NOTHING),
        (SECOND, (2,), 10, None, COVERED | WANTED),
        (SECOND, (2,), 0, 50.0, NOTHING),
        (SECOND, (2,), 0, 150.0, COVERED | WANTED),
    ],
    ids=["who stands behind", "itself", "before, of no higher priority", "before, of higher priority", "behind, of higher",
         "who is done by then", "who is not done by then"],
)  # fmt: skip
def test_what_a_hold_keeps(
    unit: UnitKey, rank: tuple[int, ...], priority: int, ends_at: float | None, kept: frozenset[DeviceId]
) -> None:
    holds = Holds()
    holds.put(Hold(FIRST, "n1", 0.0, (1,), devices=COVERED, wanted=WANTED, ready_at=100.0, priority=5))
    assert holds.against(unit, rank, priority, ends_at) == kept
    holds.rest(FIRST, resting=True)
    assert holds.against(unit, rank, priority, ends_at) == NOTHING
    assert holds.holder_of(min(WANTED)) is None
    holds.rest(FIRST, resting=False)
    assert holds.against(unit, rank, priority, ends_at) == kept
    assert holds.holder_of(min(WANTED)) == FIRST
