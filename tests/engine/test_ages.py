"""Times that others tell, by our own clock."""

from __future__ import annotations

import pytest

from dra_operator.engine.ages import end_of

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("started", "lasts", "ends"),
    [(-60, 100, 40), (0, 100, 100), (3600, 100, 100), (-3600, 100, 0)],
    ids=["a while ago", "just now", "by a clock that is ahead", "by one that is behind, or it takes its grace period"],
)
def test_what_runs_ends_between_now_and_its_time_from_now(started: float, lasts: float, ends: float) -> None:
    assert end_of(NOW + started, lasts, NOW) == NOW + ends
