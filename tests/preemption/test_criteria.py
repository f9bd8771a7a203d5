"""Costs, bounds and floors: a bound is never above the cost of a set that there is."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from dra_operator.preemption.criteria import bound, bound_of_singles, cost, cover
from dra_operator.preemption.holders import Holder, HolderIndex, PodRef


def holder(uid: str, priority: int = 0, since: float = 0.0, devices: int = 1, pods: int = 1) -> Holder:
    refs = tuple(PodRef("d", f"{uid}-{number}", f"{uid}-{number}", {}) for number in range(pods))
    return Holder(("pod", uid), uid, (f"claim-{uid}",), refs, priority, since, devices)


@pytest.mark.parametrize(
    ("need", "parts", "pods"),
    [
        (0, [], 0),
        (1, [], None),
        (3, [(1, 1), (1, 1), (1, 1)], 3),
        (3, [(1, 1), (2, 1), (1, 1)], 2),
        (4, [(1, 1), (2, 1)], None),
        (3, [(4, 4)], 3),
        (2, [(1, 0), (1, 1)], 1),
        (2, [(2, 0), (1, 1)], 0),
    ],
)
def test_cover(need: int, parts: list[tuple[int, int]], pods: int | None) -> None:
    assert cover(need, parts) == pods


def test_no_set_costs_less_than_its_bound() -> None:
    random = Random(7)
    for _ in range(400):
        holders = [
            holder(
                f"h{number}",
                random.randrange(4),
                float(random.randrange(5)),
                random.randint(1, 3),
                random.choice((0, 1, 1, 1, 2)),
            )
            for number in range(random.randint(1, 6))
        ]
        amounts = [random.randint(0, item.devices) for item in holders]
        need, at_least = random.randint(1, 5), random.choice((0, 0, 2, 3))
        low = bound(need, holders, amounts, "n", at_least=at_least)
        sets = [
            cost([holders[index] for index in chosen], "n")
            for size in range(1, len(holders) + 1)
            for chosen in combinations(range(len(holders)), size)
            if sum(amounts[index] for index in chosen) >= need
        ]
        reachable = [found for found in sets if found.pods >= at_least]
        assert low is None or all(low <= found for found in reachable)
        assert low is not None or not reachable


def test_single_pods_have_the_same_bound() -> None:
    random = Random(8)
    found = 0
    for _ in range(400):
        holders = [
            holder(f"h{number}", random.randrange(4), float(random.randrange(9)))
            for number in range(random.randint(1, 8))
        ]
        holders.sort(key=lambda item: item.rank)
        amounts = [random.choice((0, 1, 1, 2, 4)) for _ in holders]
        need, at_least = random.randint(1, 8), random.choice((0, 0, 2, 5))
        expected = bound(need, holders, amounts, "n", at_least=at_least)
        assert bound_of_singles(need, holders, amounts, "n", at_least=at_least) == expected
        found += expected is not None
    assert 100 < found < 400


def test_holders_by_node() -> None:
    index = HolderIndex()
    first, second = holder("a"), holder("b")
    index.put(first, ["n1", "n1", None])
    index.put(second, ["n1"])
    assert (index.on("n1"), index.on("n2"), index.anywhere()) == ((first, second), (), (first,))
    index.put(first, ["n2"])
    assert (index.on("n1"), index.on("n2"), index.anywhere()) == ((second,), (first,), ())
    index.drop("a")
    index.drop("a")
    assert (index.on("n2"), index.anywhere()) == ((), ())
