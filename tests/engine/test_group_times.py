"""ClaimGroups that wait: timeouts, and the hold of a starved gang."""

from __future__ import annotations

from dra_operator.engine.decisions import WriteClaimStatus
from tests.engine.gangs import NEVER, RACK, bare, cluster, group, member, members
from tests.engine.stage import (
    Stage,
    claim,
    pod,
    policy,
)


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
