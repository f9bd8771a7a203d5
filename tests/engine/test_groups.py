"""ClaimGroups on the embedded cluster: together or not at all, and what becomes of a gang that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.faults import Faults, KillOnce, NoFaults, Rates, SeededFaults
from dra_operator.engine.decisions import Decision, PatchPod, WriteClaimStatus
from dra_operator.engine.groups import evicted_together
from dra_operator.engine.settings import EngineSettings
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

LABEL = "dra-operator.dev/claim-group"
NEVER = {"mode": "Never"}
RACK = "example.com/rack"


def group(name: str = "gang", members: int = 2, **spec: Any) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMembers": members, **spec},
    }


def member(name: str, *, of: str = "gang", count: int = 1, **spec: Any) -> list[Object]:
    """A pod of the group and its claim, of the same name."""
    return [claim(name, count), pod(name, name, labels={LABEL: of}, **spec)]


def members(*names: str, **spec: Any) -> list[Object]:
    return [item for name in names for item in member(name, **spec)]


def bare(name: str, count: int = 1, *, of: str = "gang") -> Object:
    item = claim(name, count)
    item["metadata"]["labels"] = {LABEL: of}
    return item


def cluster(nodes: int = 2, each: int = 2, *, cpu: str = "32", racks: tuple[str, ...] = ()) -> list[Object]:
    found: list[Object] = [device_class()]
    for number in range(nodes):
        labels = {RACK: racks[number]} if racks else {}
        found += [node(f"n{number}", cpu=cpu, **labels), gpus(f"n{number}", each)]
    return found


def let_go_together(stage: Stage, least: int, total: int, *, but: str = "") -> None:
    """No pod of the group loses its gate before `least` of them have all their devices. `but`: a pod that is no member."""
    allocated: set[str] = set()
    counts: list[int] = []
    for each in stage.runner.executed:
        decision = each.decision
        if each.response is None or not each.response.ok:
            continue
        if isinstance(decision, PatchPod | WriteClaimStatus) and but in (
            decision.pod if isinstance(decision, PatchPod) else decision.claim
        ):
            continue
        if isinstance(decision, WriteClaimStatus):
            (allocated.add if decision.action == "allocate" else allocated.discard)(decision.claim.name)
        elif isinstance(decision, PatchPod):
            counts.append(len(allocated))
    assert len(counts) >= total
    assert min(counts) >= least


# -- together


def test_members_wait_for_each_other() -> None:
    stage = Stage(*cluster(), group(members=3), *members("a", "b")).run(30)
    assert stage.bound() == {}
    assert stage.taken() == []
    report = stage.report("a")
    assert (report["phase"], report["reason"]) == ("Queued", "GroupIncomplete")
    assert report["explanation"]["summary"] == "2 of 3 members"
    stage.apply(*member("c"))
    stage.run(10)
    assert set(stage.bound()) == {"a", "b", "c"}
    let_go_together(stage, 3, 3)


def test_all_or_none() -> None:
    """Three devices for four members: none is taken, and smaller units go on."""
    stage = Stage(*cluster(1, 3), policy(preemption=NEVER), group(members=4), *members("a", "b", "c", "d")).run(20)
    assert stage.taken() == []
    report = stage.report("a")
    assert report["reason"] == "GroupDoesNotFit"
    assert report["phase"] == "Unsatisfiable"
    stage.apply(claim("single"), pod("single", "single"))
    stage.run(5)
    assert set(stage.bound()) == {"single"}


def test_it_waits_for_what_others_have() -> None:
    stage = Stage(*cluster(2, 2), policy(preemption=NEVER), claim("x"), pod("x", "x")).run(5)
    stage.apply(group(members=2), *members("a", "b", count=2))
    stage.run(20)
    assert set(stage.bound()) == {"x"}
    assert stage.report("a")["phase"] == "Queued"
    stage.delete("Pod", "x")
    stage.run(20)
    assert set(stage.bound()) == {"a", "b"}
    let_go_together(stage, 2, 2, but="x")


def test_a_gang_does_not_bind_half() -> None:
    """While one member's allocation is on its way, no other is let go."""
    stage = Stage(*cluster(), group(members=2), *members("a", "b"))
    stage.until(lambda: stage.devices("a"))
    seen = []
    stage.until(lambda: seen.append((len(stage.taken()), len(stage.gates("a")))) or stage.bound())  # type: ignore[func-returns-value]
    assert all(taken == 2 or gates == 1 for taken, gates in seen)


def test_a_label_that_names_no_group() -> None:
    stage = Stage(*cluster(), *members("a", "b")).run(20)
    report = stage.report("a")
    assert report["reason"] == "GroupMissing"
    assert "ClaimGroup default/gang does not exist: create it" in report["explanation"]["summary"]
    assert stage.taken() == []
    stage.apply(group(members=2))
    stage.run(10)
    assert set(stage.bound()) == {"a", "b"}


def test_a_member_held_by_another_gate_is_not_there_yet() -> None:
    gate = [{"name": "example.com/wait"}]
    stage = Stage(*cluster(), group(members=2), *member("a"), *member("b", schedulingGates=gate)).run(10)
    summary = stage.report("a")["explanation"]["summary"]
    assert summary == "1 of 2 members (pod default/b is held by another scheduling gate)"
    assert stage.bound() == {}
    stage.patch("Pod", "b", {"spec": {"schedulingGates": [{"name": "dra-operator.dev/allocation"}]}})
    stage.run(10)
    assert set(stage.bound()) == {"a", "b"}


def test_bare_claims_are_members_too() -> None:
    stage = Stage(*cluster(1, 2), group(members=2), bare("a")).run(20)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "GroupIncomplete"
    stage.apply(bare("b"))
    stage.run(10)
    assert len(stage.taken()) == 2


def test_later_members_come_one_by_one() -> None:
    stage = Stage(*cluster(1, 3), policy(preemption=NEVER), group(members=2), *members("a", "b")).run(10)
    assert set(stage.bound()) == {"a", "b"}
    stage.apply(*members("c", "d"))
    stage.run(10)
    assert set(stage.bound()) == {"a", "b", "c"}
    assert stage.report("d")["phase"] == "Queued"
    assert stage.report("d")["reason"] == "NoDevices"


def test_all_that_are_there_come_together_else_as_many_as_it_takes() -> None:
    for devices, count in ((4, 4), (3, 3), (2, 2), (1, 0)):
        stage = Stage(*cluster(1, devices), policy(preemption=NEVER), group(members=2), *members("a", "b", "c", "d"))
        stage.run(20)
        assert len(stage.bound()) == count
        assert len(stage.taken()) == count


def test_all_of_a_round_are_let_go_together() -> None:
    """Two would do, but four were placed: nobody starts before all four are confirmed."""
    for seed in range(10):
        quiet = Rates(*[0.0] * 6, slow=0.5)
        stage = Stage(*cluster(), group(members=2), *members("a", "b", "c", "d"), faults=SeededFaults(seed, quiet))
        stage.run(60)
        assert set(stage.bound()) == {"a", "b", "c", "d"}
        let_go_together(stage, 4, 4)


def test_order_highest_priority_and_oldest_member() -> None:
    """The gang's one important member takes it ahead of an older single."""
    stage = Stage(*cluster(1, 2), policy(preemption=NEVER), priority_class("high", 10), claim("x", 2), pod("x", "x"))
    stage.run(5)
    stage.apply(claim("old"), pod("old", "old"))
    stage.run(5)
    stage.apply(group(members=2), *member("a"), *member("b", priorityClassName="high"))
    stage.run(5)
    assert stage.report("a")["queue"]["priority"] == 10
    stage.delete("Pod", "x")
    stage.run(10)
    assert set(stage.bound()) == {"a", "b"}


# -- nodes


def test_cpu_must_suffice_for_all_members_on_a_node() -> None:
    stage = Stage(*cluster(2, 4, cpu="4"), group(members=2), *members("a", "b", count=2, cpu="3")).run(10)
    assert sorted(stage.bound().values()) == ["n0", "n1"]


def test_same_puts_the_gang_under_one_value() -> None:
    racks = ("r0", "r1", "r1", "r0")
    topology = {"key": RACK, "mode": "Same"}
    stage = Stage(*cluster(4, 2, racks=racks), claim("x"), pod("x", "x", nodeSelector={"kubernetes.io/hostname": "n0"}))
    stage.run(5)
    stage.apply(group(members=2, topology=topology), *members("a", "b", count=2))
    stage.run(10)
    assert {name: stage.bound()[name] for name in ("a", "b")} in ({"a": "n1", "b": "n2"}, {"a": "n2", "b": "n1"})


def test_later_members_stay_under_the_groups_value() -> None:
    racks = ("r0", "r1", "r1")
    topology = {"key": RACK, "mode": "Same"}
    stage = Stage(*cluster(3, 2, racks=racks), policy(preemption=NEVER), group(members=1, topology=topology))
    stage.apply(*member("a", count=2, nodeSelector={"kubernetes.io/hostname": "n1"}))
    stage.run(10)
    stage.apply(*members("b", "c", count=2))
    stage.run(10)
    assert stage.bound() == {"a": "n1", "b": "n2"}
    assert stage.report("c")["reason"] == "GroupDoesNotFit"
    assert "not under the group's value of node label" in stage.report("c")["explanation"]["summary"]


def test_spread_and_prefer() -> None:
    racks = ("r0", "r0", "r1")
    for mode, expected in (("Spread", {"r0", "r1"}), ("Prefer", {"r0"})):
        stage = Stage(*cluster(3, 2, racks=racks), group(members=2, topology={"key": RACK, "mode": mode}))
        stage.apply(*members("a", "b", count=2))
        stage.run(10)
        assert {racks[int(name[1])] for name in stage.bound().values()} == expected


def fabric(nodes: dict[str, str]) -> list[Object]:
    """Nodes with two GPUs each, of one fabric."""
    return [item for name, value in nodes.items() for item in (node(name), gpus(name, 2, fabric=value))]


def test_a_constraint_across_members() -> None:
    constraint = {"matchAttribute": "gpu.example.com/fabric"}
    stage = Stage(device_class(), *fabric({"n0": "x", "n1": "y", "n2": "y"}), policy(preemption=NEVER))
    stage.apply(group(members=2, constraints=[constraint]), *members("a", "b", count=2))
    stage.run(10)
    assert sorted(stage.bound().values()) == ["n1", "n2"]
    stage.apply(*member("c"))
    stage.run(10)
    assert "c" not in stage.bound()
    assert "constraints (matchAttribute gpu.example.com/fabric)" in stage.report("c")["explanation"]["summary"]


def test_a_constraint_on_named_requests() -> None:
    """Only claims that the pods call "main" are concerned."""
    constraint = {"matchAttribute": "gpu.example.com/fabric", "requests": ["main/gpu"]}
    stage = Stage(device_class(), *fabric({"n0": "x", "n1": "y"}))
    objects = members("a", "b", count=2)
    objects[1]["spec"]["resourceClaims"][0]["name"] = "main"
    objects[1]["spec"]["containers"][0]["resources"]["claims"] = [{"name": "main"}]
    stage.apply(group(members=2, constraints=[constraint]), *objects)
    stage.run(10)
    assert sorted(stage.bound().values()) == ["n0", "n1"]


def test_members_that_share_a_claim() -> None:
    objects = [claim("both"), claim("a"), claim("b")]
    pods = [pod("a", "both", "a", labels={LABEL: "gang"}), pod("b", "both", "b", labels={LABEL: "gang"})]
    stage = Stage(*cluster(3, 3), group(members=2), *objects, *pods).run(10)
    assert len(set(stage.bound().values())) == 1
    assert len(stage.taken()) == 3


# -- time


def test_an_incomplete_group_times_out_and_tries_again() -> None:
    stage = Stage(*cluster(), policy(backoff={"initial": "60s", "max": "5m"}), group(members=3, timeout="100s"))
    stage.apply(*members("a", "b"))
    stage.run(95)
    assert stage.report("a")["reason"] == "GroupIncomplete"
    stage.run(15)
    report = stage.report("a")
    assert report["reason"] == "GroupTimeout"
    assert report["explanation"]["summary"].startswith("has 2 of 3 members for 100 s; next attempt")
    assert stage.events("GroupTimeout") == ["has 2 of 3 members for 100 s"]
    stage.apply(*member("c"))
    stage.run(30)
    assert stage.bound() == {}
    stage.run(60)
    assert set(stage.bound()) == {"a", "b", "c"}


def test_what_an_incomplete_group_has_is_released_at_its_timeout() -> None:
    """Placed together, but one member was deleted before it was let go; what remains keeps its devices for a while only."""
    gate = [{"name": "dra-operator.dev/allocation"}, {"name": "example.com/wait"}]
    stage = Stage(*cluster(), group(members=2, timeout="100s"), bare("a"), bare("b"))
    stage.apply(claim("other"), pod("other", "other", schedulingGates=gate))
    stage.run(20)
    assert len(stage.taken()) == 2
    stage.delete("ResourceClaim", "b")
    stage.run(50)
    assert stage.devices("a")
    stage.run(80)
    assert not stage.devices("a")
    assert stage.report("a")["reason"] in ("GroupTimeout", "GroupIncomplete")
    assert stage.events("GroupTimeout")


def test_a_bound_member_is_not_released() -> None:
    stage = Stage(*cluster(), group(members=2, timeout="60s"), *members("a", "b")).run(10)
    stage.delete("Pod", "b")
    stage.run(300)
    assert set(stage.bound()) == {"a"}
    assert stage.devices("a")
    assert stage.events("GroupTimeout") == []


def test_who_runs_keeps_its_devices_when_the_group_times_out() -> None:
    stage = Stage(*cluster(), group(members=3, timeout="60s"), *members("a", "b", "c")).run(10)
    for name in ("b", "c"):
        stage.delete("Pod", name)
        stage.delete("ResourceClaim", name)
    stage.run(5)
    stage.apply(*member("d"))
    stage.run(120)
    assert stage.events("GroupTimeout")
    assert set(stage.bound()) == {"a"}
    writes = [each.decision for each in stage.runner.executed if isinstance(each.decision, WriteClaimStatus)]
    assert [(each.claim.name, each.action) for each in writes if each.claim.name == "a"] == [("a", "allocate")]


def test_a_lost_member_is_replaced_beside_the_others() -> None:
    topology = {"key": RACK, "mode": "Same"}
    stage = Stage(*cluster(3, 2, racks=("r0", "r1", "r1")), group(members=2, topology=topology))
    stage.apply(*members("a", "b", count=2))
    stage.run(10)
    assert set(stage.bound().values()) == {"n1", "n2"}
    stage.delete("Pod", "b")
    stage.delete("ResourceClaim", "b")
    stage.run(10)
    stage.apply(*member("c", count=2))
    stage.run(10)
    assert set(stage.bound().values()) == {"n1", "n2"}


def test_without_its_group_nothing_is_kept() -> None:
    """The group is deleted while its members wait to be let go."""
    stage = Stage(*cluster(1, 2), group(members=2), bare("a"), bare("b")).run(10)
    assert len(stage.taken()) == 2
    stage.delete("ClaimGroup", "gang")
    stage.run(10)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "GroupMissing"


# -- status


def status(stage: Stage) -> Object:
    found = stage.get("ClaimGroup", "gang")
    assert found is not None
    value: Object = found.get("status") or {}
    return value


def test_the_group_says_how_it_fares() -> None:
    terms = policy(preemption=NEVER, backoff={"initial": "30s", "max": "5m"})
    stage = Stage(*cluster(1, 2), terms, group(members=3, timeout="60s"), *members("a", "b")).run(10)
    assert status(stage) == {"phase": "Incomplete", "members": 2, "placed": 0, "message": "2 of 3 members"}
    stage.run(60)
    assert status(stage)["phase"] == "TimedOut"
    assert status(stage)["lastTimeout"]
    stage.apply(group(members=2))
    stage.run(40)
    found = status(stage)
    assert (found["phase"], found["members"], found["placed"]) == ("Placed", 2, 2)
    stage.apply(*member("c"))
    stage.run(10)
    assert (status(stage)["members"], status(stage)["placed"]) == (3, 2)


def test_a_group_that_waits_for_devices_says_for_which() -> None:
    stage = Stage(*cluster(1, 2), policy(preemption=NEVER), claim("x"), pod("x", "x")).run(5)
    stage.apply(group(members=2), *members("a", "b"))
    stage.run(10)
    assert status(stage)["phase"] == "Waiting"
    assert status(stage)["message"].startswith("each of 2 members has a place by itself, but at most 1")


def test_a_timeout_is_not_told_again_after_a_restart() -> None:
    stage = Stage(*cluster(1, 2), group(members=2, timeout="100s"), *members("a")).run(120)
    assert len(stage.events("GroupTimeout")) == 1
    stage.runner.kill()
    stage.run(60)
    assert len(stage.events("GroupTimeout")) == 1


# -- starvation


def test_a_gang_is_not_starved_by_a_stream_of_singles() -> None:
    stage = Stage(*cluster(3, 2), policy(preemption=NEVER, starvation={"after": "30s"}))
    for index in range(8):
        single(stage, f"before{index}")
    stage.apply(group(members=2), *members("a", "b", count=2))
    stage.run(35)
    hold = stage.report("a")["hold"]
    assert len(hold["nodes"]) == 2
    for index in range(40):
        single(stage, f"s{index}", every=3)
    assert {"a", "b"} <= set(stage.bound())
    assert any(name.startswith("s") for name in stage.bound())


def single(stage: Stage, name: str, every: float = 1.0) -> None:
    item = pod(name, name)
    item["metadata"]["annotations"] = {"dra-operator.dev/run-for": "40s"}
    stage.apply(claim(name), item)
    stage.run(every)


def test_a_gangs_hold_survives_a_restart() -> None:
    stage = Stage(*cluster(2, 2), policy(preemption=NEVER), claim("x"), pod("x", "x")).run(5)
    stage.apply(group(members=2), *members("a", "b", count=2))
    stage.run(60)
    before = stage.report("a")["hold"]
    assert set(before["nodes"]) == {"n0", "n1"}
    assert len(before["devices"]) == 3
    stage.runner.kill()
    stage.run(30)
    assert stage.report("a")["hold"] == before


# -- evictions


def test_who_goes_together() -> None:
    stage = Stage(*cluster(1, 3), group(members=2), *members("a", "b", "c")).run(20)
    state = stage.engines[-1]._state

    def together(name: str) -> set[str]:
        found = evicted_together(state, state.view.pods[Key("default", name)], stage.world.now)
        return {each.key.name for each in found}

    assert together("a") == {"a"}
    stage.delete("Pod", "c")
    stage.run(10)
    assert together("a") == {"a", "b"}


# -- a pod's own constraints


def annotated(text: str) -> Object:
    item = pod("p", "one", "two")
    item["metadata"]["annotations"] = {"dra-operator.dev/constraints": text}
    return item


def test_a_pods_constraint_across_its_claims() -> None:
    slices = gpus("n0", 4)
    for number, device in enumerate(slices["spec"]["devices"]):
        device["attributes"]["numa"] = {"int": (0, 1, 1, 0)[number]}
    objects = (device_class(), node("n0"), slices, claim("one"), claim("two"))
    taken = {}
    for kind in ("matchAttribute", "distinctAttribute"):
        text = f'[{{"requests": ["c0/gpu", "c1/gpu"], "{kind}": "gpu.example.com/numa"}}]'
        stage = Stage(*objects, annotated(text)).run(10)
        assert stage.bound() == {"p": "n0"}
        taken[kind] = stage.taken()
    values = {"n0/gpu-0": 0, "n0/gpu-1": 1, "n0/gpu-2": 1, "n0/gpu-3": 0}
    assert len({values[name] for name in taken["matchAttribute"]}) == 1
    assert len({values[name] for name in taken["distinctAttribute"]}) == 2


def test_aliases_of_the_policy_count() -> None:
    """The NIC's driver calls it by another name."""
    slices = gpus("n0", 2)
    slices["spec"]["devices"][0]["attributes"]["numa"] = {"int": 0}
    slices["spec"]["devices"][1]["attributes"]["dra.net/numaNode"] = {"int": 1}
    text = '[{"distinctAttribute": "gpu.example.com/numa"}]'
    objects = (device_class(), node("n0"), slices, claim("one"), claim("two"), annotated(text))
    assert Stage(*objects).run(10).bound() == {}
    aliases = [{"attribute": "gpu.example.com/numa", "names": ["dra.net/numaNode"]}]
    assert Stage(*objects, policy(placement={"aliases": aliases})).run(10).bound() == {"p": "n0"}


def test_a_constraint_counts_claims_that_have_devices_already() -> None:
    slices = [gpus("n0", 2, numa=0), gpus("n1", 2, numa=1)]
    text = '[{"matchAttribute": "gpu.example.com/numa"}]'
    everywhere = slices[1]
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    stage = Stage(
        device_class(), node("n0"), *slices, claim("one", selector='device.attributes["gpu.example.com"].numa == 1')
    )
    stage.run(10)
    assert stage.devices("one") == ["n1/gpu-0"]
    stage.apply(claim("two"), annotated(text))
    stage.run(10)
    assert stage.devices("two") == ["n1/gpu-1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('[{"matchAttribute": "gpu.example.com/numa", "requests": ["c0/nic"]}]', "there is no request 'c0/nic'"),
        ('[{"requests": ["c0/gpu"]}]', "set exactly one of matchAttribute and distinctAttribute"),
    ],
)
def test_an_annotation_that_cannot_be_followed(text: str, message: str) -> None:
    stage = Stage(*cluster(1, 4), claim("one"), claim("two"), annotated(text)).run(20)
    report = stage.report("one")
    assert (report["phase"], report["reason"]) == ("Unsatisfiable", "InvalidConstraints")
    assert message in report["explanation"]["summary"]
    assert stage.taken() == []


# -- the model case, and what may go wrong


def model(
    *, faults: Faults | None = None, domains: tuple[str, ...] = ("d0", "d0", "d0", "d1", "d1", "d1", "d1")
) -> Stage:
    """A Job of four pods with eight GPUs each, on nodes of one NVLink domain."""
    objects: list[Object] = [device_class(), template("gpu", 8)]
    for number, domain in enumerate(domains):
        objects += [node(f"n{number}", **{"nvidia.com/gpu.clique": domain}), gpus(f"n{number}", 8)]
    job = workload("Job", "train", 4)
    job["spec"]["template"]["metadata"]["labels"][LABEL] = "gang"
    gang = group(members=4, topology={"key": "nvidia.com/gpu.clique"})
    return Stage(*objects, gang, job, faults=faults)


def test_the_model_case() -> None:
    stage = model().run(20)
    assert sorted(stage.bound().values()) == ["n3", "n4", "n5", "n6"]
    let_go_together(stage, 4, 4)


def check_end(stage: Stage) -> None:
    assert sorted(stage.bound().values()) == ["n3", "n4", "n5", "n6"]
    assert len(stage.taken()) == len(set(stage.taken())) == 32
    assert len([item for item in stage.objects("Pod") if not item["metadata"].get("deletionTimestamp")]) == 4


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_once(moment: str) -> None:
    """Before or after each single request in turn, the gang starts whole or not at all."""
    number = 0
    while True:
        faults = KillOnce(number, moment)  # type: ignore[arg-type]
        stage = model(faults=faults).run(90)
        check_end(stage)
        let_go_together(stage, 4, 4)
        if not faults.happened:
            break
        number += 1
    assert number >= 8  # four allocations, four ungatings


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_faults_of_all_kinds(seed: int) -> None:
    for number in range(seed, seed + 4):
        check_end(model(faults=SeededFaults(number)).run(900))


class KillAtFirstAllocation(NoFaults):
    """The operator dies once, after its first allocation."""

    def __init__(self) -> None:
        self.happened = False

    def kills(self, decision: Decision, moment: str) -> bool:
        hit = not self.happened and moment == "after" and isinstance(decision, WriteClaimStatus)
        self.happened = self.happened or hit
        return hit


def test_nobody_is_let_go_while_one_cannot_run_where_it_was_placed() -> None:
    stage = Stage(*cluster(3, 2), group(members=2), *members("a", "b", count=2))
    stage.until(lambda: len(stage.taken()) == 4)
    unlucky = stage.devices("a")[0].partition("/")[0]
    stage.patch("Node", unlucky, {"spec": {"unschedulable": True}})
    stage.run(30)
    assert set(stage.bound()) == {"a", "b"}
    assert unlucky not in stage.bound().values()
    let_go_together(stage, 2, 2)


def test_the_room_of_those_who_wait_to_be_let_go_is_theirs_after_a_restart() -> None:
    """One cpu a node: the second member must not be put beside the first, which has its devices since before the restart."""
    stage = Stage(*cluster(2, 4, cpu="1"), group(members=2), faults=KillAtFirstAllocation())
    stage.apply(*members("a", "b"))
    stage.run(30)
    assert sorted(stage.bound().values()) == ["n0", "n1"]
    actions = [each.decision.action for each in stage.runner.executed if isinstance(each.decision, WriteClaimStatus)]
    assert actions == ["allocate", "allocate"]


def test_half_written_is_completed() -> None:
    stage = Stage(*cluster(2, 2), group(members=2), faults=KillAtFirstAllocation())
    stage.apply(*members("a", "b", count=2))
    stage.run(30)
    assert set(stage.bound()) == {"a", "b"}
    actions = [each.decision.action for each in stage.runner.executed if isinstance(each.decision, WriteClaimStatus)]
    assert actions == ["allocate", "allocate"]


def test_a_member_that_loses_its_devices_is_not_counted_on() -> None:
    """Somebody else has a device of one member, which is taken back before any is let go."""
    stage = Stage(*cluster(2, 2), policy(preemption=NEVER), group(members=2))
    stage.apply(*members("a", "b", count=2))
    stage.until(lambda: stage.taken())
    stage.apply(foreign("theirs", "n1"))
    stage.run(30)
    assert stage.bound() == {}
    assert stage.taken() == ["n1/gpu-0"]


def test_half_written_and_taken_back() -> None:
    """Killed after the first allocation; meanwhile somebody takes a device the rest needs: what was written is taken back."""
    stage = Stage(*cluster(2, 2), policy(preemption=NEVER), group(members=2), faults=KillAtFirstAllocation())
    stage.apply(*members("a", "b", count=2))
    stage.until(lambda: stage.taken())
    assert len(stage.taken()) == 2
    free = "n1" if (stage.taken()[0]).startswith("n0") else "n0"
    stage.apply(foreign("theirs", free))
    stage.run(30)
    assert stage.devices("a") == stage.devices("b") == []
    stage.delete("ResourceClaim", "theirs")
    stage.run(30)
    assert set(stage.bound()) == {"a", "b"}


def foreign(name: str, where: str) -> Object:
    """A claim that kube-scheduler has allocated."""
    item = claim(name)
    item["metadata"] |= {"uid": f"uid-{name}", "labels": {}}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": where, "device": "gpu-0"}
    item["status"] = {"allocation": {"devices": {"results": [result]}}}
    return item


def test_observed_only() -> None:
    stage = Stage(*cluster(), group(members=2), *members("a", "b"), settings=EngineSettings(mode="observe")).run(30)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "WouldBeAllocated"
