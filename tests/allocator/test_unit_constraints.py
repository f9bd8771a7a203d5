"""Constraints across the claims of a unit: required ones are kept, preferred ones as far as possible, the heavier first."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, Strategy, UnitConstraint, Unsolved, solve, validate
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory

NUMA, ROOT = "d.example.com/numa", "d.example.com/root"


def world(*devices: tuple[str, str, int, str]) -> Inventory:
    """Devices as (name, class, numa, root), all on one node."""
    inventory = Inventory()
    inventory.apply_node(Node.from_dict({"metadata": {"name": "n"}}))
    listed = []
    for name, kind, numa, root in devices:
        attributes = {"kind": {"string": kind}, "numa": {"int": numa}, "root": {"string": root}}
        listed.append({"name": name, "attributes": attributes})
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": listed}
    inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": "s"}, "spec": spec}))
    for kind in ("gpu", "nic"):
        expression = f'device.attributes["d.example.com"].kind == "{kind}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": kind}, "spec": spec}))
    return inventory


def claim(name: str, kind: str, count: int = 1) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": kind, "count": count}}
    return ResourceClaim.from_dict(
        {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": {"devices": {"requests": [request]}}}
    )


def devices(result: Any) -> list[list[str]]:
    assert isinstance(result, Solved), result
    return [[item.device for item in allocation.results] for allocation in result.allocations]


def ask(inventory: Inventory, *constraints: UnitConstraint, strategy: Strategy = Strategy.Fragmentation) -> Any:
    claims = (claim("g", "gpu"), claim("n", "nic"))
    result = solve(Problem(claims, constraints=constraints, strategy=strategy), inventory.snapshot())
    if isinstance(result, Solved):
        assert not validate(inventory.snapshot(), claims, result.allocations, result.node)
    return result


APART = (("g0", "gpu", 0, "a"), ("g1", "gpu", 1, "b"), ("n1", "nic", 1, "c"))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_required(strategy: Strategy) -> None:
    match = UnitConstraint((), (NUMA,))
    assert devices(ask(world(*APART), match, strategy=strategy)) == [["g1"], ["n1"]]
    assert isinstance(ask(world(APART[0], APART[2]), match, strategy=strategy), Unsolved)


def test_members_limit_a_constraint() -> None:
    only_nic = UnitConstraint(((1, "r"),), (NUMA,))
    assert devices(ask(world(APART[0], APART[2]), only_nic)) == [["g0"], ["n1"]]


def test_preferred_is_kept_where_possible_and_given_up_where_not() -> None:
    match = UnitConstraint((), (NUMA,), required=False)
    assert devices(ask(world(*APART), match)) == [["g1"], ["n1"]]
    assert devices(ask(world(APART[0], APART[2]), match)) == [["g0"], ["n1"]]


def test_the_heavier_of_two_preferred_constraints_wins() -> None:
    inventory = world(("g0", "gpu", 0, "x"), ("g1", "gpu", 1, "y"), ("n0", "nic", 0, "y"))
    numa = UnitConstraint((), (NUMA,), required=False, weight=1)
    root = UnitConstraint((), (ROOT,), required=False, weight=3)
    assert devices(ask(inventory, numa, root)) == [["g1"], ["n0"]]
    assert devices(ask(inventory, UnitConstraint((), (NUMA,), required=False, weight=5), root)) == [["g0"], ["n0"]]


def test_distinct_and_aliases() -> None:
    inventory = world(("g0", "gpu", 1, "x"), ("g1", "gpu", 0, "y"), ("n0", "nic", 1, "z"))
    apart = UnitConstraint((), ("other.example.com/socket", NUMA), distinct=True)
    assert devices(ask(inventory, apart)) == [["g1"], ["n0"]]
