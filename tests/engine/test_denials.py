"""What an admission policy of somebody else denies, or what is gone already, is not asked for as fast as the API server can refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.cluster.memory.faults import Fate, NoFaults
from dra_operator.cluster.memory.runner import Timing
from dra_operator.engine.decisions import Decision, EvictPod, PatchClaim, PatchPod, WriteClaimStatus
from tests.engine.stage import GPU, Stage, claim, device_class, gpus, node, pod, policy, priority_class, template
from tests.engine.test_preemption import budget, evicted, holding


class Denied(NoFaults):
    """Refuses what `what` picks while `on`; `lag`: seconds that the operator's watches are behind."""

    def __init__(self, what: Callable[[Decision], bool], lag: float = 0.0) -> None:
        self.what, self.lag, self.on = what, lag, True

    def fate(self, decision: Decision) -> Fate:
        return "denied" if self.on and self.what(decision) else "served"

    def delay(self, usual: float) -> float:
        return usual + self.lag if usual == Timing().watch else usual


def stage(faults: Denied) -> Stage:
    return Stage(node("n1"), gpus("n1", 2), device_class(), template(), template("two", 2), faults=faults)


def asked(stage: Stage, kind: type[Decision]) -> int:
    return sum(isinstance(each.decision, kind) for each in stage.runner.executed)


def ungate(stage: Stage) -> None:
    stage.apply(pod("p", templates=["gpu"]))


def free_lost(stage: Stage) -> None:
    stage.apply(claim("c"))
    stage.run(10)
    stage.delete("ResourceSlice", "n1-gpus")


def hand_back(stage: Stage) -> None:
    stage.apply(claim("c"), pod("x", "c", schedulerName="other"))


def evict(stage: Stage) -> None:
    stage.apply(priority_class("high", 1000), policy(preemption={"mode": "Always"}), pod("low", templates=["gpu"]))
    stage.run(5)
    stage.apply(pod("urgent", templates=["two"], priorityClassName="high"))


def frees(decision: Decision) -> bool:
    return isinstance(decision, WriteClaimStatus) and decision.action == "deallocate"


def hands_back(decision: Decision) -> bool:
    return isinstance(decision, PatchClaim) and decision.action == "unmanage"


def is_a(kind: type[Decision]) -> Callable[[Decision], bool]:
    return lambda decision: isinstance(decision, kind)


@pytest.mark.parametrize(
    ("deed", "denied", "note"),
    [
        (ungate, is_a(PatchPod), "take the scheduling gate off"),
        (free_lost, frees, "free its devices"),
        (hand_back, hands_back, "hand it to kube-scheduler"),
        (evict, is_a(EvictPod), "evict it"),
    ],
)
def test_a_denied_write_is_told_and_tried_ever_more_rarely(
    deed: Callable[[Stage], None], denied: Callable[[Decision], bool], note: str
) -> None:
    faults = Denied(denied)
    told = stage(faults)
    deed(told)
    told.run(100)
    tries = [each.decision for each in told.runner.executed if denied(each.decision)]
    assert 2 <= len(tries) <= 12
    assert len(told.events("WriteRefused")) == len(tries)
    assert f"the API server refuses to {note}: injected: denied by an admission policy" in told.events("WriteRefused")
    faults.on = False
    told.run(200)
    assert any(each.response and each.response.ok for each in told.runner.executed if denied(each.decision))


def test_a_claim_that_is_gone_is_not_written_to_until_the_watch_shows_it() -> None:
    behind = stage(Denied(lambda _: False, lag=5.0))
    behind.run(6)
    behind.apply(claim("c"))
    behind.run(4.9)
    behind.delete("ResourceClaim", "c")
    behind.run(60)
    assert asked(behind, WriteClaimStatus) == 1


def test_a_pod_that_is_gone_is_not_ungated_until_the_watch_shows_it() -> None:
    behind = stage(Denied(lambda _: False, lag=1.0))
    behind.run(2)
    behind.apply(pod("p", templates=["gpu"]))
    behind.until(lambda: behind.taken())
    behind.run(0.9)
    behind.delete("Pod", "p")
    behind.run(60)
    assert asked(behind, PatchPod) == 1


def test_devices_of_a_claim_that_is_gone_are_free_before_the_watch_shows_it() -> None:
    behind = stage(Denied(lambda _: False, lag=5.0))
    behind.run(6)
    behind.apply(claim("first", 2), claim("second", 2))
    behind.run(4.9)
    behind.delete("ResourceClaim", "first")
    behind.run(1)
    assert behind.devices("second") == ["n1/gpu-0", "n1/gpu-1"]


def allocates(name: str) -> Callable[[Decision], bool]:
    return lambda each: isinstance(each, WriteClaimStatus) and (each.claim.name, each.action) == (name, "allocate")


@pytest.mark.parametrize(
    "settings",
    [{"preemption": {"mode": "Always"}}, {"preemption": {"mode": "Never"}, "starvation": {"after": "1s"}}],
    ids=["victims went for it", "it is starved"],
)
def test_what_came_free_for_a_unit_stays_its_while_its_allocation_is_refused(settings: dict[str, Any]) -> None:
    """Others wait for the devices, and could take them between two tries of the first in the queue."""
    faults = Denied(allocates("urgent"))
    told = Stage(node("n1"), gpus("n1", 2), device_class(), policy(**settings), faults=faults)
    told.apply(priority_class("high", 1000), claim("a"), pod("a", "a"), claim("b"), pod("b", "b"))
    told.run(5)
    told.apply(claim("urgent", 2), pod("urgent", "urgent", priorityClassName="high"))
    told.run(2)
    told.apply(*(item for name in "xyz" for item in (claim(name), pod(name, name))))
    told.run(10)
    for name in "ab":
        if told.get("Pod", name):
            told.delete("Pod", name)
    told.until(lambda: sum(faults.what(each.decision) for each in told.runner.executed) >= 3)
    assert told.taken() == []
    assert told.report("urgent")["explanation"]["summary"].startswith("the API server refused")
    faults.on = False
    told.run(30)
    assert told.devices("urgent") == ["n1/gpu-0", "n1/gpu-1"]
    assert told.events("Preempted") == [] or len(told.events("Preempted")) == 2


def test_a_claim_that_may_not_be_freed_keeps_no_others_from_being_moved() -> None:
    """`onClassChange: Reallocate` moves one at a time, and one that cannot be moved is not under way."""
    faults = Denied(lambda each: frees(each) and isinstance(each, WriteClaimStatus) and each.claim.name == "a")
    small, large = gpus("n1", 2, memory=40), gpus("n2", 2, memory=80)
    told = Stage(node("n1"), small, class_of(40), claim("a", of="mine"), claim("b", of="mine"), faults=faults)
    told.apply(policy(onClassChange="Reallocate"))
    told.run(10)
    told.apply(node("n2"), large, class_of(80))
    told.run(20)
    assert [told.devices(name)[0].partition("/")[0] for name in "ab"] == ["n1", "n2"]
    drifted = next(item for item in told.report("a")["conditions"] if item["type"] == "Drifted")
    assert "injected: denied by an admission policy" in drifted["message"]
    faults.on = False
    told.run(300)
    assert [told.devices(name)[0].partition("/")[0] for name in "ab"] == ["n2", "n2"]


def class_of(memory: int) -> dict[str, Any]:
    return device_class("mine", f'device.attributes["{GPU}"].memory >= {memory}')


def test_a_disruption_that_was_refused_is_there_for_others() -> None:
    refuses = Denied(
        lambda decision: isinstance(decision, EvictPod) and not decision.dry_run and decision.pod.name == "a"
    )
    stage = Stage(node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class(), faults=refuses)
    stage.apply(priority_class("high", 1000), policy(preemption={"mode": "Always"}), budget("one", "web", 1))
    for name, where in (("a", "n1"), ("b", "n2")):
        stage.apply(*holding(name, app="web", nodeSelector={"kubernetes.io/hostname": where}))
    stage.run(5)
    for name, where in (("u1", "n1"), ("u2", "n2")):
        stage.apply(*holding(name, priorityClassName="high", nodeSelector={"kubernetes.io/hostname": where}))
    stage.run(60)
    assert evicted(stage) == ["b"]
    assert set(stage.bound()) == {"a", "u2"}
