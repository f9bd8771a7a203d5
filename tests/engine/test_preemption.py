"""Preemption on the embedded cluster: who goes, who does not, and for whom the devices are."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import KillOnce
from dra_operator.engine.decisions import EvictPod
from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)

HIGH = priority_class("high", 1000)
MID = priority_class("mid", 500)


def budget(name: str, app: str, minimum: int) -> Object:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": app}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def holding(name: str, count: int = 1, **spec: object) -> list[Object]:
    """A claim and the pod that uses it, both named so."""
    labels = {"app": spec.pop("app", name)}
    return [claim(name, count), pod(name, name, labels=labels, **spec)]


def evicted(stage: Stage) -> list[str]:
    done = [each.decision for each in stage.runner.executed if each.response is not None and each.response.ok]
    return [item.pod.name for item in done if isinstance(item, EvictPod) and not item.dry_run]


def test_the_seed_story() -> None:
    """2 GPUs, 5 claims of one class: 2 allocated, 3 queued with positions; priority 1000 arrives, starves, one pod goes."""
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, template(), workload("Deployment", "train", 5)).run(
        20
    )
    phases = sorted(stage.phases().values())
    assert phases == ["Queued", "Queued", "Queued", "Reserved", "Reserved"]
    positions = [
        item["status"]["queue"].get("position")
        for item in stage.objects("ClaimReport")
        if item["status"]["phase"] == "Queued"
    ]
    assert sorted(position for position in positions if position) == [1, 2, 3]
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(20)
    assert evicted(stage) == []
    stage.run(20)
    assert len(evicted(stage)) == 1
    assert stage.bound()["urgent"] == "n1"
    assert len(stage.bound()) == 2
    replica = stage.get("Pod", evicted(stage)[0])
    assert replica is None
    assert sum(item["spec"].get("schedulingGates") is not None for item in stage.objects("Pod")) == 4
    stage.apply(
        gpus("n1", 3)
        | {"spec": {**gpus("n1", 3)["spec"], "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1}}}
    )
    stage.run(20)
    assert len(stage.bound()) == 3


@pytest.mark.parametrize(
    ("mode", "after", "goes"),
    [("Always", 5, True), ("WhenStarved", 25, False), ("WhenStarved", 40, True), ("Never", 300, False)],
)
def test_modes(mode: str, after: float, goes: bool) -> None:
    stage = Stage(
        node("n1"), gpus("n1", 1), device_class(), HIGH, policy(preemption={"mode": mode}), *holding("low")
    ).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(after)
    assert bool(evicted(stage)) == goes
    assert ("urgent" in stage.bound()) == goes
    if mode == "Never":
        assert "preemption is off" in stage.report("urgent")["explanation"]["summary"]


def test_preemption_policy_never_of_the_priority_class_is_honoured() -> None:
    polite = priority_class("polite", 1000, preemptionPolicy="Never")
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), polite, *holding("low")).run(5)
    stage.apply(*holding("urgent", priorityClassName="polite"))
    stage.run(120)
    assert evicted(stage) == []
    assert "preemptionPolicy Never" in stage.report("urgent")["explanation"]["summary"]


@pytest.mark.parametrize(
    ("others", "wants", "goes"),
    [
        # The lowest priority …
        ([("a", "mid", 1), ("b", None, 1)], 1, ["b"]),
        # … but the fewest victims come first.
        ([("a", None, 1), ("b", None, 1), ("c", "mid", 2)], 2, ["c"]),
        # Nobody of equal priority.
        ([("a", "high", 1)], 1, []),
    ],
)
def test_who_goes(others: list[tuple[str, str | None, int]], wants: int, goes: list[str]) -> None:
    total = sum(count for _, _, count in others)
    stage = Stage(node("n1"), gpus("n1", total), device_class(), HIGH, MID)
    for name, priority, count in others:
        stage.apply(*holding(name, count, **({"priorityClassName": priority} if priority else {})))
        stage.run(3)
    stage.apply(*holding("urgent", wants, priorityClassName="high"))
    stage.run(60)
    assert evicted(stage) == goes


def test_the_youngest_goes_first() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, *holding("old")).run(30)
    stage.apply(*holding("young"))
    stage.run(10)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(60)
    assert evicted(stage) == ["young"]


def test_a_budget_forbids_the_cheapest_victim() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, MID, budget("keep", "a", 1))
    stage.apply(*holding("a"), *holding("b", priorityClassName="mid"))
    stage.run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(60)
    assert evicted(stage) == ["b"]
    assert "a" in stage.bound()


def test_a_budget_counts_over_all_victims_together() -> None:
    """Two dry runs under one budget both pass."""
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, budget("one", "web", 1))
    stage.apply(*holding("a", app="web"), *holding("b", app="web"))
    stage.run(5)
    stage.apply(*holding("urgent", 2, priorityClassName="high"))
    stage.run(120)
    assert evicted(stage) == []
    assert "one" in stage.report("urgent")["explanation"]["summary"]


def test_what_is_not_preemptible_stays() -> None:
    keep = policy("keep", claimSelector={"matchLabels": {"tier": "gold"}}, preemptible=False)
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, keep)
    gold = claim("gold")
    gold["metadata"]["labels"] = {"tier": "gold"}
    stage.apply(gold, pod("gold", "gold"))
    stage.run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(120)
    assert evicted(stage) == []


def test_a_bare_victim_is_deallocated_without_eviction() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, claim("bare")).run(5)
    assert stage.devices("bare")
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(60)
    assert evicted(stage) == []
    assert stage.bound() == {"urgent": "n1"}
    assert stage.devices("bare") == []
    assert stage.report("bare")["preemption"]["preemptedBy"] == "default/urgent"


def test_pods_that_share_a_claim_go_together() -> None:
    stage = Stage(
        node("n1"), gpus("n1", 1), device_class(), HIGH, claim("shared"), pod("x", "shared"), pod("y", "shared")
    ).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(60)
    assert sorted(evicted(stage)) == ["x", "y"]


def test_pods_that_share_a_claim_make_one_victim_go_for_it() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, *holding("a"), *holding("b")).run(5)
    stage.apply(claim("shared"), *(pod(name, "shared", priorityClassName="high") for name in ("x", "y")))
    stage.run(60)
    assert len(evicted(stage)) == 1
    assert {"x", "y"} <= stage.bound().keys()


def test_reports_name_victims_and_preemptor_and_the_hold_is_written_first() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH)
    slow = holding("low")
    slow[1]["spec"]["terminationGracePeriodSeconds"] = 20
    stage.apply(*slow)
    stage.run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.until(lambda: evicted(stage))
    report = stage.report("urgent")
    assert report["phase"] == "Preempting"
    assert report["preemption"]["victims"] == [{"name": "pod default/low"}]
    assert report["hold"]["nodes"] == ["n1"]
    stage.run(8)
    assert stage.report("low")["preemption"]["preemptedBy"] == "default/urgent"


def test_nobody_else_gets_what_was_freed_for_the_preemptor() -> None:
    """Its own replacement arrives before the device is free, and a stream of others."""
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, template(), workload("Deployment", "low", 1)).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    for index in range(30):
        stage.apply(*holding(f"other{index}"))
        stage.run(2)
    assert stage.bound() == {"urgent": "n1"}
    assert len(evicted(stage)) == 1


def test_a_preemptor_that_fits_elsewhere_stops_evicting() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, *holding("low")).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(31)
    before = stage.phases()["urgent"]
    if before == "Starved":
        stage.apply(node("n2"), gpus("n2", 1))
    stage.run(60)
    assert "urgent" in stage.bound()
    assert len(evicted(stage)) <= 1


def test_the_preemptor_is_deleted_before_anyone_goes() -> None:
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, *holding("low")).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.until(lambda: stage.engines[-1]._state.holds)
    stage.delete("Pod", "urgent")
    stage.delete("ResourceClaim", "urgent")
    stage.run(60)
    assert evicted(stage) == []
    assert not stage.engines[-1]._state.holds


def test_two_preemptors_do_not_count_the_same_device() -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, *holding("a"), *holding("b")).run(5)
    stage.apply(*holding("u1", priorityClassName="high"), *holding("u2", priorityClassName="high"))
    stage.run(90)
    assert sorted(evicted(stage)) == ["a", "b"]
    assert set(stage.bound()) == {"u1", "u2"}


def test_nobody_goes_when_devices_are_coming_free_anyway() -> None:
    leaving = holding("leaving")
    leaving[1]["spec"]["terminationGracePeriodSeconds"] = 60
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, *leaving, *holding("stays")).run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(25)
    stage.delete("Pod", "leaving")
    stage.run(90)
    assert evicted(stage) == []
    assert set(stage.bound()) == {"stays", "urgent"}


def test_no_thrash() -> None:
    """A victim's replacement never evicts its evictor, however long it waits."""
    aging = {"after": "10s", "boostPerMinute": 5000, "maxBoost": 100000}
    stage = Stage(node("n1"), gpus("n1", 1), device_class(), HIGH, policy(starvation=aging), template())
    stage.apply(workload("Deployment", "low", 1))
    stage.run(5)
    stage.apply(*holding("urgent", priorityClassName="high"))
    stage.run(1200)
    assert len(evicted(stage)) == 1
    assert stage.bound()["urgent"] == "n1"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_in_the_middle_of_a_preemption(moment: str) -> None:
    """Nobody is evicted needlessly, and the preemptor gets its devices."""
    number = 0
    while True:
        faults = KillOnce(number, moment)  # type: ignore[arg-type]
        stage = Stage(
            node("n1"), gpus("n1", 3), device_class(), HIGH, template(), workload("Deployment", "low", 3), faults=faults
        )
        stage.run(15)
        stage.apply(*holding("urgent", 2, priorityClassName="high"))
        stage.run(120)
        if not faults.happened:
            break
        assert stage.bound()["urgent"] == "n1", number
        assert len(evicted(stage)) <= 2, number
        assert len(stage.taken()) == len(set(stage.taken())) == 3
        number += 1
    assert number > 10


def of_model(model: str, count: int) -> list[Object]:
    """A class of its own and a pool of its own, on n1."""
    found = gpus("n1", count, model=model)
    found["metadata"]["name"] = found["spec"]["pool"]["name"] = f"n1-{model}"
    return [found, device_class(model, f'device.attributes["gpu.example.com"].model == "{model}"')]


def test_nobody_goes_in_vain_where_a_device_takes_long_to_come_free() -> None:
    """The choice counts on what a pod that is being deleted has; nobody else gets what the victim gave until that is free, too."""
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, policy(preemption={"mode": "Always"}))
    stage.apply(*holding("low"), *holding("peer", priorityClassName="high", terminationGracePeriodSeconds=20))
    stage.run(5)
    stage.delete("Pod", "peer")
    stage.apply(*holding("urgent", 2, priorityClassName="high"), *holding("next"))
    stage.run(60)
    assert evicted(stage) == ["low"]
    assert set(stage.bound()) == {"urgent"}


def test_nobody_goes_in_vain_where_room_on_the_node_takes_long_to_come_free() -> None:
    """As above, where the one that leaves has none of the devices."""
    stage = Stage(node("n1", cpu="4"), *of_model("a", 1), *of_model("b", 1), HIGH)
    stage.apply(policy(preemption={"mode": "Always"}), claim("low", of="a"), claim("peer", of="b"))
    slow = {"priorityClassName": "high", "terminationGracePeriodSeconds": 20}
    stage.apply(pod("low", "low"), pod("peer", "peer", cpu="3", **slow))
    stage.run(5)
    stage.delete("Pod", "peer")
    stage.apply(claim("urgent", of="a"), pod("urgent", "urgent", cpu="4", priorityClassName="high"))
    stage.apply(claim("next", of="a"), pod("next", "next"))
    stage.run(60)
    assert evicted(stage) == ["low"]
    assert set(stage.bound()) == {"urgent"}


@pytest.mark.parametrize(("priority", "goes"), [("mid", []), ("high", ["low"])])
def test_nobody_goes_where_a_unit_of_higher_priority_waits_for_what_comes_free(priority: str, goes: list[str]) -> None:
    """`front` holds the node, lacks a device there and finds no victims; of equals, who makes room keeps it."""
    stage = Stage(node("n1"), gpus("n1", 3), device_class(), HIGH, MID, policy(starvation={"after": "5s"}))
    stage.apply(*holding("keeper", 2, priorityClassName="high"), *holding("low"))
    stage.until(lambda: len(stage.bound()) == 2)
    stage.apply(*holding("front", 2, priorityClassName="high"))
    stage.run(30)
    stage.apply(*holding("p", priorityClassName=priority))
    stage.run(60)
    assert evicted(stage) == goes
    assert ("p" in stage.bound()) == bool(goes)


def test_two_preemptors_do_not_count_on_the_same_disruption() -> None:
    """The budget lets one go; the second preemptor, which needs two pods to go, takes neither while the first one's is under way."""
    stage = Stage(node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 2), device_class(), HIGH, budget("one", "web", 1))
    stage.apply(policy(preemption={"mode": "Always"}))
    first, second = (
        {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
        {"nodeSelector": {"kubernetes.io/hostname": "n2"}},
    )
    stage.apply(*holding("a", app="web", **first), *holding("b", app="web", **second), *holding("c", **second))
    stage.run(5)
    stage.apply(
        *holding("u1", priorityClassName="high", **first), *holding("u2", 2, priorityClassName="high", **second)
    )
    stage.run(60)
    assert evicted(stage) == ["a"]
    assert set(stage.bound()) == {"b", "c", "u1"}
