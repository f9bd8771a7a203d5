"""No rearrangement has fewer moves, and every one that is found holds: against trying all of them, on random small clusters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from dra_operator.allocator import Problem, validate
from dra_operator.api.claims import ResourceClaim
from dra_operator.defrag.pieces import Piece, Rearrangement
from dra_operator.defrag.search import Search
from tests.preemption.worlds import World, ask

MOST = 3


def problem(name: str, devices: int) -> Problem:
    claim = ResourceClaim.from_dict(
        {
            "metadata": {"namespace": "team", "name": name, "uid": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": devices}}]}},
        }
    )
    return Problem((claim,))


def piece(world: World, name: str, devices: int) -> Piece:
    return Piece(name, problem(name, devices), world.fits)


def fewest(
    world: World, wanted: int, movable: Sequence[str], most: int = MOST
) -> tuple[int, list[Rearrangement]] | None:
    """How many moves it takes, and the rearrangements found."""
    pieces = {name: piece(world, f"claim-{name}", world.holders[name].devices) for name in movable}
    unit = Piece("unit", ask(wanted), world.fits)
    before = {uid: tuple(uses) for uid, uses in world.inventory.usage.by_claim.items()}
    search = Search(world.inventory.snapshot(), world.index, pieces, world.budgets)
    for moves in range(most + 1):
        plans = search.plans(unit, moves, wanted=8)
        assert {uid: tuple(uses) for uid, uses in world.inventory.usage.by_claim.items()} == before
        if plans:
            assert not search.exhausted
            return moves, plans
    return None


def packs(free: dict[str, int], amounts: Sequence[int]) -> bool:
    """Can these amounts each be put on one node?"""
    if not amounts:
        return True
    first, *rest = amounts
    return any(room >= first and packs({**free, node: room - first}, rest) for node, room in free.items())


@pytest.mark.parametrize("seed", range(40))
def test_nothing_takes_fewer_moves(seed: int) -> None:
    random_ = random.Random(seed)
    world = World()
    sizes = {f"n{number}": random_.choice([2, 4]) for number in range(random_.randint(2, 4))}
    free: dict[str, int] = {}
    where: dict[str, tuple[str, int]] = {}
    for node, size in sizes.items():
        world.node(node, size)
        devices = [f"{node}/d{number}" for number in range(size)]
        while devices and random_.random() < 0.75:
            count = min(len(devices), random_.choice([1, 1, 2, 3]))
            name = f"{node}-{len(devices)}"
            world.hold(name, *devices[:count])
            where[name] = node, count
            del devices[:count]
        free[node] = len(devices)
    movable = sorted(name for name in where if random_.random() < 0.8)
    wanted = random_.choice([1, 2, 3, 4])

    expected = None
    for moves in range(MOST + 1):
        for chosen in combinations(movable, moves):
            room = dict(free)
            for name in chosen:
                room[where[name][0]] += where[name][1]
            if packs(room, [wanted, *(where[name][1] for name in chosen)]):
                expected = moves
                break
        if expected is not None:
            break
    found = fewest(world, wanted, movable)
    assert (None if found is None else found[0]) == expected
    for plan in [] if found is None else found[1]:
        check(world, wanted, plan)


def check(world: World, wanted: int, plan: Rearrangement) -> None:
    """Carried out in order, every move and the unit in the end find their devices free."""
    snapshot = world.inventory.snapshot()
    with snapshot:
        for move in plan.moves:
            for claim in move.holder.claims:
                snapshot.release(claim)
        for move in plan.moves:
            claims = problem(f"claim-{move.holder.uid}", move.holder.devices).claims
            assert validate(snapshot, claims, move.place.allocations, move.place.node) == []
            snapshot.use(move.holder.claims[0], move.place.allocations[0])
        assert validate(snapshot, ask(wanted).claims, plan.place.allocations, plan.place.node) == []


def test_a_move_may_need_another_one() -> None:
    """The pair fits only where `long` is, `long` only where `short` is, and `short` anywhere."""
    world = World().node("a", 4).node("b", 3).node("c", 1)
    world.hold("fixed", "a/d0").hold("long", "a/d1", "a/d2").hold("short", "b/d0").hold("rest", "b/d1")
    moves, (plan, *_) = fewest(world, 3, ["long", "short"]) or (0, [])
    assert moves == 2
    assert [(move.holder.uid, move.place.node) for move in plan.moves] == [("short", "c"), ("long", "b")]
    assert plan.place.node == "a"


@pytest.mark.parametrize(("allowed", "expected"), [(0, None), (1, None), (2, 2)])
def test_budgets_count_over_all_moves(allowed: int, expected: int | None) -> None:
    world = World().node("a", 2).node("b", 1).node("c", 1)
    labels = {"app": "web"}
    world.hold("one", "a/d0", labels=labels).hold("two", "a/d1", labels=labels).budget("web", allowed, labels)
    found = fewest(world, 2, ["one", "two"])
    assert (None if found is None else found[0]) == expected


def test_pods_need_room_where_they_go() -> None:
    """Node b has a free device and no CPU for the pod that would move there."""
    world = World().node("a", 2).node("b", 2, cpu=1)
    world.hold("busy", "b/d0", cpu=("b", 1)).hold("web", "a/d0")
    assert fewest(world, 2, ["web"]) is None
