"""Time goes on whatever the rules say: what could not be done is not tried for ever within one instant."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.engine.choosing import Choosing, Chosen
from dra_operator.inventory import DeviceId
from tests.engine.stage import Stage, claim, device_class, gpus, node, pod, policy


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
