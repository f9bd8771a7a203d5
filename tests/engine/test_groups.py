"""ClaimGroups on the embedded cluster: together or not at all, on which nodes, and what their status says."""

from __future__ import annotations

from dra_operator.cluster.memory.faults import Rates, SeededFaults
from tests.engine.gangs import LABEL, NEVER, RACK, bare, cluster, group, let_go_together, member, members
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
)


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


def test_later_members_that_come_together_go_by_each_other() -> None:
    """The second is placed before the watch has shown the first."""
    spread = group(members=2, topology={"key": RACK, "mode": "Spread"})
    stage = Stage(*cluster(4, 2, racks=("r0", "r1", "r2", "r3")), spread, *members("a", "b")).run(10)
    stage.apply(*members("c", "d"))
    stage.run(10)
    assert sorted(stage.bound().values()) == ["n0", "n1", "n2", "n3"]


def test_so_they_do_by_each_others_devices() -> None:
    constraint = {"distinctAttribute": "gpu.example.com/fabric"}
    stage = Stage(device_class(), *fabric({"n0": "w", "n1": "x", "n2": "y", "n3": "z"}))
    stage.apply(group(members=2, constraints=[constraint]), *members("a", "b"))
    stage.run(10)
    stage.apply(*members("c", "d"))
    stage.run(10)
    assert sorted(stage.bound().values()) == ["n0", "n1", "n2", "n3"]


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
