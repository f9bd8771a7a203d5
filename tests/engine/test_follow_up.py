"""Pods that lost their gate and are not bound yet: how long kube-scheduler is waited for."""

from __future__ import annotations

from dra_operator.engine.decisions import EvictPod, WriteClaimStatus
from tests.engine.stage import Stage, claim, device_class, gpus, node, pod, policy


def test_what_was_said_before_it_had_devices_is_no_verdict_on_them() -> None:
    """A pod shown to node autoscalers is unschedulable for long; that it still says so when a node came moves nothing."""
    stage = Stage(node("n1"), device_class(), policy(provisioning={"mode": "Ungate", "after": "5s"}))
    stage.apply(claim("a"), pod("a", "a"))
    stage.run(120)
    waiting = stage.get("Pod", "a")
    assert waiting is not None
    assert [item["reason"] for item in waiting["status"]["conditions"] if item["status"] == "False"] == [
        "Unschedulable"
    ]
    stage.apply(gpus("n1", 1))
    stage.until(lambda: stage.devices("a"))
    now = stage.world.now
    stage.engines[-1].observe("ResourceClaim", "MODIFIED", stage.get("ResourceClaim", "a") or {}, now)
    decided = stage.engines[-1].decide(now)
    assert not [item for item in decided if isinstance(item, WriteClaimStatus | EvictPod)]


def test_a_unit_with_a_claim_that_is_gone_has_no_candidates() -> None:
    """Asked after the pass, by who wants to know whether a waiting unit could use some devices."""
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), claim("a", 2), pod("a", "a")).run(5)
    engine = stage.engines[-1]
    (unit,) = engine._state.waiting.values()
    assert engine._placer.candidates(unit) is not None
    del engine._state.view.claims[unit.claims[0]]
    assert engine._placer.candidates(unit) is None
