"""Preemption for a gang: room for all of its members or for none, and gangs that have to give way themselves."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import Fate, KillOnce, NoFaults
from dra_operator.engine.decisions import Decision, EvictPod
from tests.engine.gangs import RACK, bare, cluster, group, let_go_together, member, members
from tests.engine.stage import Object, Stage, claim, pod, policy, priority_class

HIGH = priority_class("high", 1000)
MID = priority_class("mid", 500)
ALWAYS = policy(preemption={"mode": "Always"})
HIGHER = {"priorityClassName": "high"}


def holding(name: str, count: int = 1, **spec: object) -> list[Object]:
    return [claim(name, count), pod(name, name, labels={"app": name}, **spec)]


def evicted(stage: Stage, *, dry_run: bool = False) -> list[str]:
    done = [each.decision for each in stage.runner.executed if each.response is not None and each.response.ok]
    return sorted(item.pod.name for item in done if isinstance(item, EvictPod) and item.dry_run == dry_run)


def full(nodes: int = 2, each: int = 2, *, racks: tuple[str, ...] = (), **more: str) -> Stage:
    """Every node's devices are one pod's: `low0` on n0 …; `more`: priorities of these."""
    stage = Stage(*cluster(nodes, each, racks=racks), HIGH, MID, ALWAYS)
    for number in range(nodes):
        name = f"low{number}"
        spec = {"priorityClassName": more[name]} if name in more else {}
        stage.apply(*holding(name, each, nodeSelector={"kubernetes.io/hostname": f"n{number}"}, **spec))
    return stage.run(10)


def test_room_for_all_members_is_made() -> None:
    stage = full(3)
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(30)
    assert len(evicted(stage)) == 2
    assert {"a", "b"} <= set(stage.bound())
    let_go_together(stage, 2, 2, but="low")


def test_nobody_goes_if_not_all_can_be_served() -> None:
    stage = full(3, low1="high", low2="high")
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(60)
    assert evicted(stage) == []
    assert "would not fit even if everything of priority 999" in stage.report("a")["explanation"]["summary"]


def test_what_is_free_counts() -> None:
    stage = full(3)
    stage.delete("Pod", "low1")
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(30)
    assert len(evicted(stage)) == 1
    assert "n1" in {stage.bound()["a"], stage.bound()["b"]}


def test_under_one_value_of_the_topology() -> None:
    """The cheapest victims are in two racks, so the dearer ones of one rack go."""
    stage = full(4, racks=("x", "x", "y", "y"), low1="mid", low2="mid")
    stage.apply(group(members=2, topology={"key": RACK, "mode": "Same"}), *members("a", "b", count=2, **HIGHER))
    stage.run(30)
    assert evicted(stage) in (["low0", "low1"], ["low2", "low3"])
    assert len({stage.bound()[name] for name in ("a", "b")}) == 2


def test_where_not_all_can_be_served_as_many_as_it_takes() -> None:
    stage = full(3, low2="high")
    stage.apply(group(members=2), *members("a", "b", "c", count=2, **HIGHER))
    stage.run(30)
    assert evicted(stage) == ["low0", "low1"]
    assert len({"a", "b", "c"} & set(stage.bound())) == 2


def test_one_refused_dry_run_spares_all() -> None:
    stage = full(2)
    stage.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low1"}}},
        }
    )
    stage.run(2)
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(60)
    assert evicted(stage) == []
    assert "disruption budget default/keep" in stage.report("a")["explanation"]["summary"]


def test_the_hold_is_written_before_the_first_eviction_and_names_all_devices() -> None:
    stage = full(2)
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.until(lambda: evicted(stage, dry_run=True))
    report = stage.report("a")
    assert report["phase"] == "Preempting"
    assert report["hold"]["nodes"] == ["n0", "n1"]
    assert len(report["hold"]["devices"]) == 4
    assert [item["name"] for item in report["preemption"]["victims"]] == ["pod default/low0", "pod default/low1"]


def test_what_is_freed_is_for_the_gang() -> None:
    """The first victim leaves long before the second; nobody of the gang's priority takes its devices meanwhile."""
    stage = Stage(*cluster(2, 2), HIGH, ALWAYS)
    stage.apply(*holding("quick", 2, nodeSelector={"kubernetes.io/hostname": "n0"}))
    stage.apply(*holding("slow", 2, nodeSelector={"kubernetes.io/hostname": "n1"}, terminationGracePeriodSeconds=60))
    stage.run(10).apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(10)
    assert evicted(stage) == ["quick", "slow"]
    stage.apply(*holding("rival", 2, **HIGHER))
    stage.run(20)
    assert "rival" not in stage.bound()
    assert stage.report("rival")["reason"] == "Held"
    stage.run(60)
    assert {"a", "b"} <= set(stage.bound())


class FailTheFirstEviction(NoFaults):
    """The API server has trouble for a moment: one eviction is answered with 500, and does not happen."""

    def __init__(self) -> None:
        self.happened = False

    def fate(self, decision: Decision) -> Fate:
        if isinstance(decision, EvictPod) and not decision.dry_run and not self.happened:
            self.happened = True
            return "error"
        return "served"


def test_an_eviction_without_a_clear_answer_is_repeated() -> None:
    """The one that was evicted already must not have gone in vain: nobody else is chosen."""
    faults = FailTheFirstEviction()
    stage = Stage(*cluster(3, 2), HIGH, ALWAYS, faults=faults)
    for index in range(3):
        stage.apply(*holding(f"low{index}", 2))
    stage.run(10)
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.run(60)
    assert faults.happened
    assert len(evicted(stage)) == 2
    assert {"a", "b"} <= set(stage.bound())


@pytest.mark.parametrize("end", ["members", "group"])
def test_a_gang_that_disappears_stops_it(end: str) -> None:
    """Between the dry runs and the evictions."""
    stage = full(2)
    stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
    stage.until(lambda: stage.phases().get("a") == "Preempting")
    if end == "group":
        stage.delete("ClaimGroup", "gang")
    else:
        stage.delete("Pod", "b")
    stage.run(60)
    assert evicted(stage) == []
    assert "hold" not in stage.report("a")


def test_preemption_policy_never_of_a_member() -> None:
    polite = priority_class("polite", 1000, preemptionPolicy="Never")
    stage = full(2)
    stage.apply(polite, group(members=2), *member("a", count=2, **HIGHER))
    stage.apply(*member("b", count=2, priorityClassName="polite"))
    stage.run(60)
    assert evicted(stage) == []


# -- gangs that give way


def test_a_gang_goes_whole_where_it_can_spare_nobody() -> None:
    stage = Stage(*cluster(2, 2), HIGH, ALWAYS, group(members=2), *members("a", "b", count=2)).run(20)
    assert set(stage.bound()) == {"a", "b"}
    stage.apply(*holding("urgent", 1, **HIGHER))
    stage.run(30)
    assert evicted(stage) == ["a", "b"]
    assert set(stage.bound()) == {"urgent"}


def test_a_member_more_than_it_takes_goes_alone() -> None:
    stage = Stage(*cluster(1, 3), HIGH, ALWAYS, group(members=2), *members("a", "b", "c")).run(20)
    stage.apply(*holding("urgent", 1, **HIGHER))
    stage.run(30)
    assert len(evicted(stage)) == 1
    stage.apply(*holding("more", 1, **HIGHER))
    stage.run(30)
    assert len(evicted(stage)) == 3


def test_a_gang_is_spared_where_a_single_pod_will_do() -> None:
    stage = Stage(*cluster(3, 2), HIGH, ALWAYS, group(members=2), *members("a", "b", count=2)).run(20)
    stage.apply(*holding("single", 2))
    stage.run(10)
    stage.apply(*holding("urgent", 2, **HIGHER))
    stage.run(30)
    assert evicted(stage) == ["single"]


def test_bare_members_go_with_their_gang() -> None:
    """Nobody is evicted for a claim without a pod: it is deallocated with the eviction of the others."""
    stage = Stage(*cluster(2, 2), HIGH, ALWAYS, group(members=2), *member("a", count=2), bare("idle", 2)).run(20)
    assert len(stage.taken()) == 4
    stage.apply(*holding("urgent", 2, nodeSelector={"kubernetes.io/hostname": stage.bound()["a"]}, **HIGHER))
    stage.run(30)
    assert evicted(stage) == ["a"]
    assert set(stage.bound()) == {"urgent"}
    assert stage.devices("idle") == []


def test_one_gang_makes_way_for_another() -> None:
    stage = Stage(*cluster(2, 2), HIGH, ALWAYS, group("old", members=2), *members("o1", "o2", of="old", count=2)).run(
        20
    )
    stage.apply(group("new", members=2), *members("n1", "n2", of="new", count=2, **HIGHER))
    stage.run(30)
    assert evicted(stage) == ["o1", "o2"]
    assert set(stage.bound()) == {"n1", "n2"}


def test_no_one_of_its_own_gang_goes_for_a_later_member() -> None:
    stage = Stage(*cluster(1, 2), HIGH, ALWAYS, group(members=1), *members("a", "b")).run(20)
    stage.apply(*member("late", **HIGHER))
    stage.run(60)
    assert evicted(stage) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_once(moment: str) -> None:
    """Before or after each single request in turn, nobody is evicted in vain and the gang gets its devices."""
    number = 0
    while True:
        faults = KillOnce(number, moment)  # type: ignore[arg-type]
        stage = Stage(*cluster(3, 2), HIGH, ALWAYS, faults=faults)
        for index in range(3):
            stage.apply(*holding(f"low{index}", 2))
        stage.run(15)
        stage.apply(group(members=2), *members("a", "b", count=2, **HIGHER))
        stage.run(90)
        assert len(evicted(stage)) == 2
        assert {"a", "b"} <= set(stage.bound())
        if not faults.happened:
            break
        number += 1
    assert number >= 15
