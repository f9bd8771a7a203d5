"""Aging, starvation, holds, Strict and fair share on the embedded cluster, preemption off."""

from __future__ import annotations

from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
    policy,
    priority_class,
)

NEVER = {"mode": "Never"}


def stream(stage: Stage, count: int, *, every: float, run_for: str, name: str = "s") -> None:
    """One 1-device pod after the other, each for a while."""
    for index in range(count):
        each = f"{name}{index}"
        stage.apply(claim(each), running(pod(each, each), run_for))
        stage.run(every)


def running(item: Object, run_for: str) -> Object:
    item["metadata"]["annotations"] = {"dra-operator.dev/run-for": run_for}
    return item


def test_a_big_claim_is_not_starved_by_a_stream_of_small_ones() -> None:
    stage = Stage(node("n1"), gpus("n1", 8), device_class(), policy(preemption=NEVER, starvation={"after": "30s"}))
    stream(stage, 10, every=2, run_for="60s", name="before")
    stage.apply(claim("big", 8), pod("big", "big"))
    stream(stage, 60, every=4, run_for="60s")
    assert stage.bound().get("big") == "n1"


def test_without_a_hold_it_starves() -> None:
    """The same stream, to show that it is the hold that helps."""
    terms = {"after": "30s", "hold": False}
    stage = Stage(node("n1"), gpus("n1", 8), device_class(), policy(preemption=NEVER, starvation=terms))
    stream(stage, 10, every=2, run_for="60s", name="before")
    stage.apply(claim("big", 8), pod("big", "big"))
    stream(stage, 60, every=4, run_for="60s")
    assert "big" not in stage.bound()


def full(*, gpu_count: int = 2, **spec: object) -> Stage:
    """One node, all its devices held by a pod of priority 0."""
    stage = Stage(node("n1"), gpus("n1", gpu_count), device_class(), policy(**{"preemption": NEVER, **spec}))
    stage.apply(claim("all", gpu_count), pod("all", "all"))
    return stage.run(5)


def test_a_starved_claim_says_so() -> None:
    stage = full()
    stage.apply(claim("late"), pod("late", "late"))
    stage.run(25)
    assert stage.phases()["late"] == "Queued"
    stage.run(10)
    report = stage.report("late")
    assert report["phase"] == "Starved"
    assert [item["status"] for item in report["conditions"] if item["type"] == "Starved"] == ["True"]
    assert report["hold"]["nodes"] == ["n1"]
    [note] = stage.events("Starved")
    assert note.startswith("has waited for 30 s")
    stage.delete("Pod", "all")
    stage.run(30)
    report = stage.report("late")
    assert report["phase"] == "Reserved"
    assert "hold" not in report
    assert [item["status"] for item in report["conditions"] if item["type"] == "Starved"] == ["False"]


def test_how_long_it_was_starved_is_told_when_it_is_served() -> None:
    stage = full()
    stage.apply(claim("late"), pod("late", "late"))
    stage.run(100)
    stage.engines[-1].journal()
    stage.delete("Pod", "all")
    stage.run(30)
    [told] = [change.starved_for for change in stage.engines[-1].journal() if change.starved_for is not None]
    assert 65 <= told <= 75


def test_only_the_first_of_those_that_compete_holds() -> None:
    stage = full()
    for name in ("a", "b"):
        stage.apply(claim(name, 2), pod(name, name))
    stage.run(60)
    assert [bool(stage.report(name).get("hold")) for name in ("a", "b")] == [True, False]


def test_a_hold_survives_a_restart() -> None:
    stage = full()
    stage.apply(claim("late", 2), pod("late", "late"))
    stage.run(60)
    since = stage.report("late")["hold"]["since"]
    stage.runner.kill()
    stage.run(30)
    report = stage.report("late")
    assert (report["phase"], report["hold"]["since"]) == ("Starved", since)


def test_held_devices_are_there_for_higher_priority() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), policy(preemption=NEVER), priority_class("high", 10))
    stage.apply(claim("one"), pod("one", "one"), claim("both", 2), pod("both", "both"))
    stage.run(60)
    assert stage.report("both")["hold"]["devices"]
    stage.apply(claim("small"), pod("small", "small"))
    stage.run(5)
    assert "small" not in stage.bound()
    assert "held" in stage.report("small")["explanation"]["summary"]
    stage.apply(claim("urgent"), pod("urgent", "urgent", priorityClassName="high"))
    stage.run(5)
    assert stage.bound()["urgent"] == "n1"


def test_what_ends_in_time_may_use_held_devices() -> None:
    """Backfill as batch schedulers do it: by activeDeadlineSeconds."""
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), policy(preemption=NEVER))
    stage.apply(claim("one"), pod("one", "one", activeDeadlineSeconds=300), claim("both", 2), pod("both", "both"))
    stage.run(60)
    stage.apply(claim("long"), pod("long", "long", activeDeadlineSeconds=900))
    stage.apply(claim("short"), pod("short", "short", activeDeadlineSeconds=60))
    stage.run(10)
    assert set(stage.bound()) == {"one", "short"}
    stage.run(400)
    assert stage.bound()["both"] == "n1"


def test_aging_raises_the_effective_priority_only() -> None:
    stage = full(starvation={"after": "30s", "boostPerMinute": 5, "maxBoost": 8})
    stage.apply(claim("old"), pod("old", "old"))
    stage.run(200)
    stage.apply(priority_class("some", 6), claim("new"), pod("new", "new", priorityClassName="some"))
    stage.run(10)
    queue = stage.report("old")["queue"]
    assert (queue["priority"], queue["effectivePriority"], queue["position"]) == (0, 8, 1)
    stage.delete("Pod", "all")
    stage.run(10)
    assert set(stage.bound()) == {"old", "new"}


def test_strict_keeps_later_units_behind_a_stuck_one() -> None:
    objects = (
        node("n1"),
        gpus("n1", 2),
        device_class(),
        claim("one"),
        pod("one", "one"),
        claim("two", 2),
        pod("two", "two"),
    )
    for queueing, bound in (("Backfill", {"one", "small"}), ("Strict", {"one"})):
        stage = Stage(*objects, policy(preemption=NEVER, queueing=queueing)).run(5)
        stage.apply(claim("small"), pod("small", "small"))
        stage.run(10)
        assert set(stage.bound()) == bound
    assert stage.report("small")["reason"] == "BehindInQueue"
    stage.delete("Pod", "two")
    stage.delete("ResourceClaim", "two")
    stage.run(10)
    assert set(stage.bound()) == {"one", "small"}


def test_strict_does_not_wait_for_what_is_impossible() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), policy(queueing="Strict"))
    stage.apply(claim("huge", 5), pod("huge", "huge"), claim("small"), pod("small", "small"))
    stage.run(10)
    assert set(stage.bound()) == {"small"}


def test_fair_share_serves_the_namespace_that_has_less() -> None:
    objects = [node("n1"), gpus("n1", 4), device_class(), namespace("a"), namespace("b")]
    for fairness, bound in (("FIFO", ["a0", "a1", "a2", "a3"]), ("FairShare", ["a0", "a1", "b0", "b1"])):
        stage = Stage(*objects, policy(fairness=fairness, preemption=NEVER))
        gate = [{"name": "example.com/wait"}]
        for name in ("a0", "a1", "a2", "a3", "b0", "b1"):
            where = name[0]
            stage.apply(claim(name, namespace=where), pod(name, name, namespace=where, schedulingGates=gate))
        stage.run(1)
        for name in ("a0", "a1", "a2", "a3", "b0", "b1"):
            body = {"spec": {"schedulingGates": [{"name": "dra-operator.dev/allocation"}]}}
            stage.patch("Pod", name, body, namespace=name[0])
        stage.run(20)
        assert sorted(stage.bound()) == bound


def test_a_freed_device_wakes_only_those_that_could_use_it() -> None:
    """Nothing polls: who cannot use what came free is not tried again."""
    other = device_class("nic", 'device.driver == "nic.example.com"')
    stage = full()
    stage.apply(other, claim("net", of="nic"), pod("net", "net"), claim("late"), pod("late", "late"))
    stage.run(10)
    units = stage.engines[-1]._state.units
    tries = {key.subject.name: unit.attempts for key, unit in units.items()}
    stage.delete("Pod", "all")
    stage.run(10)
    now = {key.subject.name: unit.attempts for key, unit in units.items()}
    assert now["net"] == tries["net"]
    assert "late" in stage.bound()
