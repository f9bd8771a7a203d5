"""The model case of a gang, and what may go wrong while it is placed."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.faults import Faults, KillOnce, NoFaults, SeededFaults
from dra_operator.engine.decisions import Decision, WriteClaimStatus
from dra_operator.engine.settings import EngineSettings
from tests.engine.gangs import LABEL, NEVER, cluster, foreign, group, let_go_together, members
from tests.engine.stage import (
    Object,
    Stage,
    device_class,
    gpus,
    node,
    policy,
    template,
    workload,
)


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


def test_observed_only() -> None:
    stage = Stage(*cluster(), group(members=2), *members("a", "b"), settings=EngineSettings(mode="observe")).run(30)
    assert stage.taken() == []
    assert stage.report("a")["reason"] == "WouldBeAllocated"
