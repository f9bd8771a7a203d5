"""Answers are remembered by state; those of states that have no nodes for a while must not outlive what they depended on."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, solve
from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory


def pool(name: str, where: dict[str, Any]) -> ResourceSlice:
    meta = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": meta, "devices": [{"name": "d0"}], **where}
    return ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec})


def taking(name: str) -> Allocation:
    return Allocation(results=(DeviceResult("r", "d.example.com", name, "d0"),))


@pytest.mark.parametrize("strategy", [Strategy.Fragmentation, Strategy.FirstFit])
def test_a_state_that_comes_back_after_a_shared_device_was_taken(strategy: Strategy) -> None:
    inventory = Inventory()
    inventory.apply_node(Node.from_dict({"metadata": {"name": "n1"}}))
    inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "any"}, "spec": {}}))
    inventory.apply_slice(pool("own", {"nodeName": "n1"}))
    inventory.apply_slice(pool("net", {"allNodes": True}))
    request = {"name": "r", "exactly": {"deviceClassName": "any", "count": 2}}
    claim = ResourceClaim.from_dict(
        {"metadata": {"name": "c", "namespace": "d", "uid": "c"}, "spec": {"devices": {"requests": [request]}}}
    )
    problem = Problem((claim,), strategy=strategy)
    assert isinstance(solve(problem, inventory.snapshot()), Solved)
    inventory.use("first", taking("own"))
    assert not isinstance(solve(problem, inventory.snapshot()), Solved)
    inventory.use("second", taking("net"))
    assert not isinstance(solve(problem, inventory.snapshot()), Solved)
    inventory.release("first")
    assert not isinstance(solve(problem, inventory.snapshot()), Solved)
