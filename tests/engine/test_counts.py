"""What the reports of those who wait count, once others have taken what was there."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.engine.placing import Placer
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, policy

NEVER = policy(preemption={"mode": "Never"}, starvation={"hold": False})


def waiting(*more: Object) -> Stage:
    """Two claims for two devices of three: the first has them, and one is left."""
    stage = Stage(device_class(), node("n1"), gpus("n1", 3), NEVER, claim("a", 2), pod("a", "a"))
    stage.run(1)
    stage.apply(claim("both", 2), pod("both", "both"), *more)
    return stage.run(10)


@pytest.mark.parametrize("alike", [1, 4], ids=["one waits", "some wait that are alike"])
def test_a_device_that_somebody_takes_is_no_longer_told_free(alike: int) -> None:
    others = [item for number in range(1, alike) for item in (claim(f"b{number}", 2), pod(f"b{number}", f"b{number}"))]
    stage = waiting(*others)
    names = ["both", *(f"b{number}" for number in range(1, alike))]
    assert all("of 3 devices 2 are allocated, 1 free" in stage.report(name)["explanation"]["summary"] for name in names)
    stage.apply(claim("one"), pod("one", "one"))
    stage.run(70)
    assert "one" in stage.bound()
    told = {name: stage.report(name)["explanation"]["summary"] for name in names}
    assert all("of 3 devices 3 are allocated" in text for text in told.values()), told


def test_who_waits_is_looked_at_once_more_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = waiting()
    asked: list[float] = []
    solve = Placer._solve

    def counting(self: Placer, *args: Any, **more: Any) -> Any:
        if args[0].key.subject.name == "both" and not more["empty"]:
            asked.append(stage.world.now)
        return solve(self, *args, **more)

    monkeypatch.setattr(Placer, "_solve", counting)
    stage.apply(claim("one"), pod("one", "one"))
    stage.run(600)
    assert len(asked) == 1
