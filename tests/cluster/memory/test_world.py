"""Virtual time: order within an instant, what keeps a world busy, and when it is idle."""

from __future__ import annotations

from dra_operator.cluster.memory.world import ACTORS, DECIDE, OPERATOR, STEP
from tests.cluster.memory.stand_in import Cluster, node, pod


def test_an_instant_goes_by_rank_then_by_arrangement(cluster: Cluster) -> None:
    told: list[str] = []
    now = cluster.world.now
    for name, rank in (
        ("decide", DECIDE),
        ("actor", ACTORS),
        ("operator", OPERATOR),
        ("step", STEP),
        ("actor again", ACTORS),
    ):
        cluster.world.at(now + 1, lambda name=name: told.append(name), rank=rank)  # type: ignore[misc]
    cluster.run(2)
    assert told == ["step", "actor", "actor again", "operator", "decide"]
    assert cluster.time == 2


def test_idle_means_that_nothing_is_left_to_do(cluster: Cluster) -> None:
    cluster.apply(node("n1"), pod("p", template=None, annotations={"dra-operator.dev/run-for": "1h"}))
    assert cluster.world.run_until_idle()
    assert (cluster.get("Pod", "p") or {})["status"]["phase"] == "Succeeded"
    assert 3600 <= cluster.time < 3700


def test_retries_alone_do_not_keep_it_busy(cluster: Cluster) -> None:
    """An unschedulable pod is tried again for ever, every five minutes."""
    cluster.apply(pod("p", template=None))
    assert cluster.world.run_until_idle()
    assert cluster.time < 1000


def test_a_world_that_never_rests(cluster: Cluster) -> None:
    def again() -> None:
        cluster.world.at(cluster.world.now + 1, again)

    again()
    assert not cluster.world.run_until_idle(limit=50)
