"""Devices that single claims must not get, by kind (`Problem.barred`)."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, solve, validate
from dra_operator.api.claims import ResourceClaim
from dra_operator.inventory.kinds import Kind
from tests.queue.worlds import GPU, exactly, inventory, published


class Old:
    """A bar for devices marked old."""

    def bars(self, kind: Kind) -> bool:
        return kind.device.attributes.get("age") == "old"


OLD, NEW = ({"attributes": {"age": {"string": age}}} for age in ("old", "new"))
READS_AGE = {"aged": f"device.attributes['{GPU}'].?age.orValue('') != ''"}


def claim(name: str, *requests: dict[str, Any]) -> ResourceClaim:
    named = [{"name": f"r{number}", **request} for number, request in enumerate(requests)]
    return ResourceClaim.from_dict({"metadata": {"name": name, "uid": name}, "spec": {"devices": {"requests": named}}})


def taken(*claims: ResourceClaim, barred: tuple[int, ...], devices: tuple[Any, ...]) -> list[list[str]] | None:
    world = inventory(published("n1", *devices), classes=READS_AGE)
    bar = Old()
    answer = solve(Problem(claims, barred=tuple((index, bar) for index in barred)), world.snapshot())
    if not isinstance(answer, Solved):
        return None
    assert not validate(world.snapshot(), claims, answer.allocations, answer.node)
    return [[result.device for result in allocation.results] for allocation in answer.allocations]


@pytest.mark.parametrize(
    ("why", "count", "barred", "devices", "want"),
    [
        ("nothing is barred", 2, (), (OLD, OLD), [["d0", "d1"]]),
        ("the rest will do", 1, (0,), (OLD, NEW), [["d1"]]),
        ("the rest will not do", 2, (0,), (OLD, NEW), None),
    ],
)
def test_kinds_are_left_out(
    why: str, count: int, barred: tuple[int, ...], devices: tuple[Any, ...], want: list[list[str]] | None
) -> None:
    assert taken(claim("a", exactly("aged", count)), barred=barred, devices=devices) == want, why


def test_only_for_the_claims_named() -> None:
    claims = claim("a", exactly("aged")), claim("b", exactly("aged"))
    assert taken(*claims, barred=(1,), devices=(OLD, NEW)) == [["d0"], ["d1"]]
    assert taken(*claims, barred=(0,), devices=(OLD, NEW)) == [["d1"], ["d0"]]


@pytest.mark.parametrize("detail", [{"adminAccess": True}, {"allocationMode": "All"}])
def test_admin_access_and_mode_all_are_not_concerned(detail: dict[str, Any]) -> None:
    request = exactly("aged", **detail)
    if "allocationMode" in detail:
        del request["exactly"]["count"]
    found = taken(claim("a", request), barred=(0,), devices=(OLD,))
    assert found == [["d0"]]


def test_equal_problems_with_and_without_a_bar_are_not_taken_for_each_other() -> None:
    world = inventory(published("n1", OLD, NEW), classes=READS_AGE)
    item, bar = claim("a", exactly("aged", 2)), Old()
    for _ in range(2):
        assert isinstance(solve(Problem((item,)), world.snapshot()), Solved)
        assert not isinstance(solve(Problem((item,), barred=((0, bar),)), world.snapshot()), Solved)
