"""The operator's clock and the API server's need not agree: what the operator waits for is counted by its own."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from dra_operator.api.meta import Key
from dra_operator.engine.decisions import Decision, Outcome
from dra_operator.engine.engine import Engine
from tests.engine.stage import GPU, Object, Stage, claim, device_class, gpus, node, pod, policy, template, workload


class Skewed(Engine):
    """An engine in a process whose clock is `ahead` seconds before the API server's."""

    ahead = 0.0

    def observe(
        self, kind: str, type: Literal["ADDED", "MODIFIED", "DELETED"], object: dict[str, Any], now: float
    ) -> None:
        super().observe(kind, type, object, now + self.ahead)

    def replaced(self, kind: str, keys: set[Key], now: float) -> None:
        super().replaced(kind, keys, now + self.ahead)

    def settle(self, outcome: Outcome, now: float) -> None:
        super().settle(outcome, now + self.ahead)

    def decide(self, now: float) -> list[Decision]:
        return super().decide(now + self.ahead)

    def next_wake(self, now: float) -> float | None:
        wake = super().next_wake(now + self.ahead)
        return None if wake is None else wake - self.ahead


class SkewedStage(Stage):
    def __init__(self, ahead: float, *objects: dict[str, Any]) -> None:
        self._ahead = ahead
        super().__init__(*objects)

    def _engine(self, settings: Any) -> Engine:
        engine = Skewed(settings)
        engine.ahead = self._ahead
        self.engines.append(engine)
        return engine


WORLD = (node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class())
AHEAD = pytest.mark.parametrize("ahead", [-3600.0, -3.0, 0.0, 3.0, 3600.0])


@AHEAD
def test_a_bare_claim_gets_its_devices_within_seconds(ahead: float) -> None:
    stage = SkewedStage(ahead, *WORLD)
    stage.apply(claim("later"))
    stage.run(4)
    assert len(stage.devices("later")) == 1


@AHEAD
def test_after_a_restart_too(ahead: float) -> None:
    stage = SkewedStage(ahead, *WORLD)
    stage.runner.kill()
    stage.apply(claim("meanwhile"))
    stage.run(5)
    assert len(stage.devices("meanwhile")) == 1


@AHEAD
def test_a_new_claim_waits_for_its_pod(ahead: float) -> None:
    """The pod can only run where the claim alone would not have been placed."""
    stage = SkewedStage(ahead, *WORLD).run(1)
    stage.apply(claim("c"))
    stage.run(0.3)
    stage.apply(pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"}))
    stage.run(10)
    assert stage.bound() == {"p": "n2"}
    assert stage.events("Moving") == []


@AHEAD
def test_pods_are_moved_one_after_another_without_waiting_in_vain(ahead: float) -> None:
    """A restarted pod's successor is known as such, however old it seems."""
    stage = SkewedStage(
        ahead, *cluster(), policy(placement={"strategy": "FirstFit"}, onClassChange="Reallocate"), template(of="mem")
    )
    stage.apply(workload("Deployment", "d", 3))
    stage.run(40)
    stage.apply(at_least(80))
    stage.run(30)
    assert sorted(stage.bound().values()) == ["n2", "n2", "n2"]


def at_least(memory: int) -> Object:
    return device_class("mem", f'device.driver == "{GPU}" && device.attributes["{GPU}"].memory >= {memory}')


def cluster() -> list[Object]:
    return [at_least(40), node("n1"), gpus("n1", 3, memory=40), node("n2"), gpus("n2", 3, memory=80)]
