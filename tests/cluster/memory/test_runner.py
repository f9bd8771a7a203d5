"""An engine in a world: latencies, faults, death and restart. With the least engine there can be; the real one has its own tests."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from dra_operator.cluster.memory.faults import Fate, KillOnce, NoFaults, Rates, SeededFaults
from dra_operator.cluster.memory.runner import Timing
from dra_operator.engine.decisions import Decision, PatchPod, WriteClaimStatus
from tests.cluster.memory.stand_in import Cluster, deployment, device_class, node, pod, slice_of, template


def populated(cluster: Cluster) -> Cluster:
    cluster.apply(node("n1"), node("n2"), slice_of("n1"), slice_of("n2"), device_class(), template())
    return cluster


def devices(cluster: Cluster) -> list[str]:
    return sorted(
        f"{result['pool']}/{result['device']}"
        for item in cluster.all("ResourceClaim")
        for result in (item["status"].get("allocation") or {"devices": {"results": []}})["devices"]["results"]
    )


def running(cluster: Cluster) -> int:
    return sum(item["status"]["phase"] == "Running" for item in cluster.all("Pod"))


def test_pods_are_allocated_ungated_bound_and_run(cluster: Cluster) -> None:
    runner = populated(cluster).operate()
    cluster.apply(deployment("d", 3), pod("p"))
    cluster.run(1)
    assert running(cluster) == 4
    assert devices(cluster) == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1"]
    assert all(done.response is not None and done.response.ok for done in runner.executed)


def test_latencies_add_up(cluster: Cluster) -> None:
    runner = populated(cluster).operate(timing=Timing(watch=1.0, request=0.25, answer=0.5))
    cluster.apply(pod("p"))
    cluster.run(10)
    kinds = [(type(done.decision), round(done.at - cluster.start, 1)) for done in runner.executed][:2]
    # Claim made after 4 ms, seen 1 s later, the request under way for a quarter of a second; the answer half a second later.
    assert kinds == [(WriteClaimStatus, 1.3), (PatchPod, 2.0)]


class OneFate(NoFaults):
    """One fate for the first request."""

    def __init__(self, fate: Fate) -> None:
        self.fates: list[Fate] = [fate]

    def fate(self, decision: Decision) -> Fate:
        return self.fates.pop() if self.fates else "served"


@pytest.mark.parametrize(
    ("fate", "status", "reached"),
    [("conflict", 409, False), ("error", 500, False), ("lost", 0, False), ("unanswered", 0, True)],
)
def test_a_request_may_fail(cluster: Cluster, fate: Fate, status: int, reached: bool) -> None:
    populated(cluster)
    outcomes: list[Any] = []
    runner = cluster.operate(faults=OneFate(fate))
    assert runner.engine is not None
    settle = runner.engine.settle
    runner.engine.settle = lambda outcome, now: (outcomes.append(outcome), settle(outcome, now))  # type: ignore[method-assign, func-returns-value]
    cluster.apply(pod("p"))
    cluster.run(0.012)
    assert [outcome.status for outcome in outcomes[:1]] in ([status], [])
    assert bool(devices(cluster)) is reached
    cluster.run(1)
    assert outcomes[0].status == status


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(6))
def test_killed_at_any_request_it_ends_the_same(
    cluster: Cluster, number: int, moment: Literal["before", "after"]
) -> None:
    faults = KillOnce(number, moment)
    runner = populated(cluster).operate(faults=faults)
    cluster.apply(deployment("d", 3))
    cluster.run(10)
    assert faults.happened
    assert runner.restarts == 1
    assert running(cluster) == 3
    assert len(set(devices(cluster))) == len(devices(cluster)) == 3


class BrokenWatch(NoFaults):
    """The watch of claims breaks at its first change."""

    def __init__(self) -> None:
        self.broken = False

    def drops_watch(self, kind: str) -> bool:
        breaks = kind == "ResourceClaim" and not self.broken
        self.broken = self.broken or breaks
        return breaks


def test_a_broken_watch_is_listed_again(cluster: Cluster) -> None:
    runner = populated(cluster).operate(faults=BrokenWatch())
    cluster.apply(pod("p"))
    cluster.run(0.3)
    assert runner.executed == []
    cluster.run(1)
    assert running(cluster) == 1


def test_what_was_deleted_meanwhile_is_told_by_the_list(cluster: Cluster) -> None:
    runner = populated(cluster).operate(faults=BrokenWatch(), timing=Timing(relist=5.0))
    cluster.apply(pod("p"))
    cluster.run(1)
    cluster.send("DELETE", "Pod", "p")
    cluster.run(10)
    assert runner.executed == []
    assert runner.engine is not None
    assert runner.engine.claims == {}  # type: ignore[attr-defined]


def test_faults_come_from_their_seed() -> None:
    def drawn(seed: int) -> list[Any]:
        faults = SeededFaults(seed, Rates(conflict=0.5), budget=5)
        return [(faults.fate(None), faults.delay(1.0), faults.drops_watch("Pod")) for _ in range(20)]  # type: ignore[arg-type]

    assert drawn(1) == drawn(1) != drawn(2)


def test_faults_end_when_their_budget_is_used_up() -> None:
    faults = SeededFaults(1, Rates(conflict=1.0), budget=3)
    assert [faults.fate(None) for _ in range(5)] == ["conflict"] * 3 + ["served"] * 2  # type: ignore[arg-type]
