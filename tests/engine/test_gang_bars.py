"""Devices that some members of a gang must not get, because a quota of theirs is used up: placed, and with room made, accordingly."""

from __future__ import annotations

from typing import Any

from dra_operator.engine.decisions import EvictPod
from tests.engine.gangs import LABEL, group
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, policy, priority_class

CAPPED = {"tier": "capped"}
FAST = device_class("fast", 'device.attributes["gpu.example.com"].kind == "fast"')
#: No more than one fast device for claims of the tier, and `user` has it.
WORLD = (
    *(node("n0"), gpus("n0", 2, kind="fast"), node("n1"), gpus("n1", 1, kind="slow"), device_class(), FAST),
    policy("all", preemption={"mode": "Always"}),
    policy(
        "capped",
        claimSelector={"matchLabels": CAPPED},
        quota=[{"deviceClassName": "fast", "devices": 1}],
        preemption={"mode": "Always"},
    ),
    priority_class("high", 1000),
)

HIGH = {"priorityClassName": "high"}
ON_SLOW = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


def holding(name: str, of: str = "gpu", labels: Object | None = None, **spec: Any) -> list[Object]:
    item = claim(name, of=of)
    item["metadata"]["labels"] = labels or {}
    return [item, pod(name, name, **spec)]


def member(name: str, labels: Object | None = None) -> list[Object]:
    """Of any kind of device."""
    item, user = holding(name, labels=labels, **HIGH)
    user["metadata"]["labels"] = {LABEL: "gang"}
    return [item, user]


def evicted(stage: Stage) -> list[str]:
    done = [each.decision for each in stage.runner.executed]
    return [item.pod.name for item in done if isinstance(item, EvictPod) and not item.dry_run]


def test_the_member_with_the_quota_gets_the_other_kind() -> None:
    for capped, free in ("ab", "ba"):
        stage = Stage(*WORLD, *holding("user", "fast", CAPPED)).run(5)
        stage.apply(group(members=2), *member(capped, CAPPED), *member(free))
        stage.run(10)
        assert stage.devices(capped) == ["n1/gpu-0"]
        assert stage.devices(free)[0].startswith("n0/")


def test_it_waits_where_there_is_only_the_kind_it_must_not_get() -> None:
    """Two fast devices could be had, one of them from a pod of lower priority, and for nothing."""
    more = (node("n2"), gpus("n2", 1, kind="fast"))
    stage = Stage(*WORLD, *holding("user", "fast", CAPPED, **HIGH), *holding("slow", **ON_SLOW, **HIGH)).run(5)
    stage.apply(*holding("fast", "fast"), *more)
    stage.run(5)
    stage.apply(group(members=2), *member("a", CAPPED), *member("b"))
    stage.run(60)
    assert stage.devices("a") == stage.devices("b") == []
    assert evicted(stage) == []


def test_room_is_made_among_what_it_may_get() -> None:
    """The pod on the slow device goes, though others on fast ones are younger and of lower priority."""
    stage = Stage(*WORLD, priority_class("some", 10), *holding("user", "fast", CAPPED, **HIGH)).run(5)
    stage.apply(*holding("slow", priorityClassName="some", **ON_SLOW))
    stage.run(5)
    stage.apply(*holding("fast", "fast"))
    stage.run(5)
    stage.apply(node("n2"), gpus("n2", 1, kind="fast"))
    stage.apply(group(members=2), *member("a", CAPPED), *member("b"))
    stage.run(30)
    assert evicted(stage) == ["slow"]
    assert stage.devices("a") == ["n1/gpu-0"]
    assert stage.devices("b") == ["n2/gpu-0"]
