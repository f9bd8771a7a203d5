"""Claims that had devices before a pod came that ties them to others: what ties them holds all the same."""

from __future__ import annotations

import json

import pytest

from dra_operator.engine.decisions import WriteClaimStatus
from tests.engine.gangs import LABEL, NEVER, RACK, bare, cluster, group, let_go_together, member
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, policy

NUMA = "gpu.example.com/numa"


def machine(*numa: int) -> list[Object]:
    """One node; gpu-I has the I-th value."""
    slices = gpus("n0", len(numa))
    for device, value in zip(slices["spec"]["devices"], numa, strict=True):
        device["attributes"]["numa"] = {"int": value}
    return [device_class(), node("n0"), slices]


def tied(*claims: str, mode: str = "Required", name: str = "p", of: str = "") -> Object:
    item = pod(name, *claims, labels={LABEL: of} if of else {})
    item["metadata"]["annotations"] = {
        "dra-operator.dev/constraints": json.dumps([{"matchAttribute": NUMA, "mode": mode}])
    }
    return item


def freed(stage: Stage) -> int:
    decisions = [each.decision for each in stage.runner.executed]
    return sum(isinstance(each, WriteClaimStatus) and each.action == "deallocate" for each in decisions)


@pytest.mark.parametrize("mode", ["Required", "Preferred"])
def test_the_constraints_of_a_pod_hold_for_devices_that_its_claims_had_before(mode: str) -> None:
    stage = Stage(*machine(0, 1, 0, 1), claim("one"), claim("two")).run(10)
    assert stage.taken() == ["n0/gpu-0", "n0/gpu-1"]
    stage.apply(tied("one", "two", mode=mode))
    stage.run(10)
    assert stage.bound() == {"p": "n0"}
    assert stage.taken() in (["n0/gpu-0", "n0/gpu-2"], ["n0/gpu-1", "n0/gpu-3"])
    assert stage.events("Moving")


def test_a_pod_whose_constraints_cannot_be_kept_waits_and_says_so() -> None:
    stage = Stage(*machine(0, 1), claim("one"), claim("two")).run(10)
    stage.apply(tied("one", "two"))
    stage.run(20)
    assert stage.bound() == {}
    assert stage.taken() == []
    assert NUMA in stage.report("one")["explanation"]["summary"]


def test_an_annotation_that_cannot_be_followed_lets_nobody_go() -> None:
    stage = Stage(*machine(0, 1), claim("one"), claim("two")).run(10)
    item = tied("one", "two")
    item["metadata"]["annotations"]["dra-operator.dev/constraints"] = "{"
    stage.apply(item)
    stage.run(20)
    assert stage.bound() == {}
    assert stage.report("one")["reason"] == "InvalidConstraints"


def test_half_of_what_a_pod_ties_was_there_before() -> None:
    """The claim that has devices has the wrong ones: of its NUMA node there is no second."""
    stage = Stage(*machine(0, 1, 1), claim("one")).run(10)
    assert stage.devices("one") == ["n0/gpu-0"]
    stage.apply(claim("two"), tied("one", "two"))
    stage.run(20)
    assert stage.bound() == {"p": "n0"}
    assert stage.taken() == ["n0/gpu-1", "n0/gpu-2"]


def test_what_somebody_uses_stays() -> None:
    stage = Stage(*machine(0, 1, 1), claim("one"), claim("two")).run(10)
    stage.apply(pod("runs", "two"))
    stage.run(10)
    assert stage.devices("two") == ["n0/gpu-1"]
    stage.apply(tied("one", "two"))
    stage.run(20)
    assert stage.devices("two") == ["n0/gpu-1"]
    assert stage.devices("one") == ["n0/gpu-2"]
    assert stage.bound() == {"runs": "n0", "p": "n0"}


def test_a_pod_that_ties_nothing_takes_its_claims_as_they_are() -> None:
    stage = Stage(*machine(0, 1), claim("one"), claim("two")).run(10)
    before = stage.taken()
    stage.apply(pod("p", "one", "two"))
    stage.run(10)
    assert stage.bound() == {"p": "n0"}
    assert (stage.taken(), freed(stage)) == (before, 0)


def test_devices_are_given_back_once() -> None:
    """Those that were allocated for the pod are not taken for early ones."""
    stage = Stage(*machine(0, 0), claim("one"), claim("two")).run(10)
    stage.apply(tied("one", "two"))
    stage.run(60)
    assert stage.bound() == {"p": "n0"}
    assert freed(stage) == 2


# -- groups


def users(*names: str) -> list[Object]:
    return [pod(f"p-{name}", name, labels={LABEL: "gang"}) for name in names]


def test_the_topology_of_a_group_holds_for_devices_that_its_claims_had_before() -> None:
    racks = ("r0", "r1", "r1")
    stage = Stage(*cluster(3, 2, racks=racks), group(members=2, topology={"key": RACK, "mode": "Same"}))
    stage.apply(claim("a", 2), claim("b", 2))
    stage.run(10)
    assert {name.split("/")[0] for name in stage.taken()} == {"n0", "n1"}
    stage.apply(*users("a", "b"))
    stage.run(20)
    assert set(stage.bound().values()) == {"n1", "n2"}


def test_the_constraints_of_a_group_hold_for_them() -> None:
    constraint = {"matchAttribute": NUMA}
    stage = Stage(*machine(0, 1, 1), group(members=2, constraints=[constraint]), claim("a"), claim("b")).run(10)
    assert stage.taken() == ["n0/gpu-0", "n0/gpu-1"]
    stage.apply(*users("a", "b"))
    stage.run(20)
    assert len(stage.bound()) == 2
    assert stage.taken() == ["n0/gpu-1", "n0/gpu-2"]


def test_a_group_that_is_incomplete_keeps_nothing_from_others() -> None:
    stage = Stage(*cluster(1, 2), policy(preemption=NEVER), group(members=2), claim("a", 2)).run(10)
    assert len(stage.taken()) == 2
    stage.apply(*users("a"))
    stage.run(5)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "GroupIncomplete"
    stage.apply(claim("other", 2), pod("other", "other"))
    stage.run(10)
    assert stage.bound() == {"other": "n0"}


def test_nor_does_a_group_that_does_not_exist() -> None:
    stage = Stage(*cluster(1, 2), claim("a", 2)).run(10)
    stage.apply(*users("a"))
    stage.run(5)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "GroupMissing"


def test_a_group_that_ties_nothing_starts_with_what_it_has() -> None:
    stage = Stage(*cluster(2, 2), group(members=2), claim("a", 2), claim("b", 2)).run(10)
    before = stage.taken()
    stage.apply(*users("a", "b"))
    stage.run(20)
    assert len(stage.bound()) == 2
    assert stage.taken() == before
    assert len(before) == 4


def test_half_of_a_group_had_devices_in_another_rack() -> None:
    racks = ("r0", "r1", "r1")
    stage = Stage(*cluster(3, 2, racks=racks), group(members=2, topology={"key": RACK, "mode": "Same"}))
    stage.apply(claim("a", 2))
    stage.run(10)
    assert stage.taken() == ["n0/gpu-0", "n0/gpu-1"]
    stage.apply(*users("a"), *member("b", count=2))
    stage.run(20)
    assert set(stage.bound().values()) == {"n1", "n2"}
    let_go_together(stage, 2, 2)


def test_members_that_share_a_claim_and_cannot_all_run_where_it_is() -> None:
    """n0 has the devices, but not the cpu for both."""
    stage = Stage(*cluster(1, 1, cpu="8"), group(members=2), claim("shared")).run(10)
    assert stage.taken() == ["n0/gpu-0"]
    stage.apply(
        pod("p", "shared", labels={LABEL: "gang"}, cpu="6"), pod("q", "shared", labels={LABEL: "gang"}, cpu="6")
    )
    stage.run(10)
    assert stage.taken() == []
    stage.apply(node("n1", cpu="64"), gpus("n1", 1))
    stage.run(20)
    assert set(stage.bound().values()) == {"n1"}


def test_a_later_member_goes_where_its_group_is() -> None:
    racks = ("r0", "r1", "r1")
    topology = {"key": RACK, "mode": "Same"}
    stage = Stage(*cluster(3, 2, racks=racks), group(members=1, topology=topology), claim("late", 2)).run(10)
    assert stage.taken() == ["n0/gpu-0", "n0/gpu-1"]
    stage.apply(*member("first", count=2))
    stage.run(10)
    stage.apply(*users("late"))
    stage.run(20)
    assert set(stage.bound().values()) == {"n1", "n2"}


def test_claims_that_are_members_themselves_stay_as_their_group_got_them() -> None:
    racks = ("r0", "r1", "r1")
    stage = Stage(*cluster(3, 2, racks=racks), group(members=2, topology={"key": RACK, "mode": "Same"}))
    stage.apply(bare("a", 2), bare("b", 2))
    stage.run(20)
    before = stage.taken()
    assert {name.split("/")[0] for name in before} == {"n1", "n2"}
    stage.apply(*users("a", "b"))
    stage.run(20)
    assert len(stage.bound()) == 2
    assert (stage.taken(), freed(stage)) == (before, 0)
