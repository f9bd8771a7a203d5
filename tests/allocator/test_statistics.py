"""What a failed attempt counts: a device once, however many nodes reach it."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.allocator import Problem, Unsolved, solve
from dra_operator.inventory import DeviceId
from tests.queue.worlds import GPU, Object, claim, exactly, got, inventory, published, size

TAINTED: Object = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
SMALL, LARGE = size("1Gi"), size("8Gi")


def counted(*devices: Object | int, asks: Object, taken: tuple[str, ...] = (), nodes: Any = None) -> Object:
    """One local device on n1, the others on a fabric that n1 and n2 reach; what the counts are that are not 0."""
    world = inventory(published("n1", SMALL), published("fabric", *devices, allNodes=True))
    if taken:
        world.use("ns/user", got(*(f"r0:{device}" for device in taken)))
    answer = solve(Problem((claim(asks),), nodes=nodes), world.snapshot())
    assert isinstance(answer, Unsolved)
    (stats,) = answer.requests
    names = ("seen", "allocated", "tainted", "capacity", "node", "available", "most_on_a_node")
    return {name: count for name in names if (count := getattr(stats, name))}


@pytest.mark.parametrize(
    ("why", "devices", "asks", "taken", "nodes", "want"),
    [
        ("taken", (1, 1), exactly(count=2), ("fabric/d0", "n1/d0"), None,
         {"seen": 3, "allocated": 2, "available": 1, "most_on_a_node": 1}),
        ("free", (2,), exactly(count=4), (), None, {"seen": 3, "available": 3, "most_on_a_node": 3}),
        ("tainted", (TAINTED, TAINTED), exactly(count=2), (), None,
         {"seen": 3, "tainted": 2, "available": 1, "most_on_a_node": 1}),
        ("too small", (SMALL, LARGE), exactly(count=2, capacity={"requests": {"memory": "4Gi"}}), (), None,
         {"seen": 3, "capacity": 2, "available": 1, "most_on_a_node": 1}),
        ("one of its nodes will do", (2,), exactly(count=3), (), ("n2",),
         {"seen": 3, "node": 1, "available": 2, "most_on_a_node": 2}),
        ("none of its nodes will do", (2,), exactly(), (), (), {"seen": 3, "node": 3}),
    ],
)  # fmt: skip
def test_a_device_that_several_nodes_reach_counts_once(
    why: str, devices: tuple[Any, ...], asks: Object, taken: tuple[str, ...], nodes: Any, want: Object
) -> None:
    assert counted(*devices, asks=asks, taken=taken, nodes=nodes) == want, why


def test_holds_on_one_node_count_a_shared_device_once() -> None:
    world = inventory(published("n1", 1), published("n2", 1), published("fabric", 2, allNodes=True))
    held = frozenset({DeviceId(GPU, "n1", "d0"), DeviceId(GPU, "fabric", "d1")})
    answer = solve(Problem((claim(exactly(count=4)),), forbidden=held), world.snapshot())
    assert isinstance(answer, Unsolved)
    (stats,) = answer.requests
    assert (stats.seen, stats.held, stats.available, stats.most_on_a_node) == (4, 2, 2, 2)
