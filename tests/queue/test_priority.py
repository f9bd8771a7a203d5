"""Aging and fair share."""

from __future__ import annotations

import pytest

from dra_operator.api.policy import Starvation
from dra_operator.queue.fairness import Holdings, dominant_share
from dra_operator.queue.priority import effective_priority, next_boost

AGING = Starvation.read({"after": "30s", "boostPerMinute": 10, "maxBoost": 25})


@pytest.mark.parametrize(
    ("waited", "effective", "then"),
    [
        (0, 100, 90),
        (30, 100, 60),
        (89, 100, 1),
        (90, 110, 60),
        (150, 120, 60),
        (210, 125, None),  # capped
        (9999, 125, None),
    ],
)
def test_waiting_boosts_by_whole_minutes(waited: float, effective: int, then: float | None) -> None:
    assert effective_priority(100, waited, AGING) == effective
    assert next_boost(waited, AGING) == then


def test_without_a_boost_nothing_changes() -> None:
    assert effective_priority(7, 1e9, Starvation()) == 7
    assert next_boost(0, Starvation()) is None


@pytest.mark.parametrize(
    ("held", "weight", "share"),
    [
        ({}, 1, 0.0),
        ({"gpu": 4}, 1, 0.5),
        ({"gpu": 4}, 2, 0.25),
        ({"gpu": 1, "nic": 3}, 1, 0.75),  # the scarcer one dominates
        ({"unknown": 5}, 1, 0.0),
    ],
)
def test_dominant_share(held: dict[str, int], weight: int, share: float) -> None:
    assert dominant_share(held, {"gpu": 8, "nic": 4}, weight) == share


def test_holdings_follow_claims() -> None:
    holdings = Holdings()
    holdings.hold("a", "x", {"gpu": 2})
    holdings.hold("b", "x", {"gpu": 1, "nic": 1})
    holdings.hold("a", "x", {"gpu": 3})
    assert holdings.of("x") == {"gpu": 4, "nic": 1}
    holdings.release("a")
    holdings.release("a")
    assert holdings.of("x") == {"gpu": 1, "nic": 1}
    holdings.release("b")
    assert holdings.of("x") == {}
