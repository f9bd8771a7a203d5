"""The order of nodes is that of their exact bounds, and few exact bounds are worked out for the first of them."""

from __future__ import annotations

from random import Random

import pytest

from dra_operator.preemption.criteria import Bound, bound
from dra_operator.preemption.holders import Holder
from dra_operator.preemption.ranking import Ranking, glance
from tests.preemption.test_criteria import holder


def crowd(random: Random, node: str, pods: tuple[int, ...], priorities: int = 4) -> list[Holder]:
    return [
        holder(
            f"{node}-{number}",
            random.randrange(priorities),
            float(random.randrange(5)),
            random.randint(1, 3),
            random.choice(pods),
        )
        for number in range(random.randint(0, 6))
    ]


def exact(need: int, holders: list[Holder], node: str) -> Bound | None:
    return bound(need, holders, [item.devices for item in holders], node)


@pytest.mark.parametrize("pods", [(1,), (0,), (0, 1, 1, 2), (1, 3, 7)])
def test_an_outlook_is_never_above_the_bound_of_some_who_are_there(pods: tuple[int, ...]) -> None:
    random = Random(3)
    for _ in range(300):
        here, need = crowd(random, "n", pods), random.randint(1, 6)
        allowed = [item for item in here if random.random() < 0.8]
        seen = glance(here)
        low, high = None if seen is None else seen.outlook(need, "n"), exact(need, allowed, "n")
        assert high is None or (low is not None and low <= high), (need, allowed)
        assert (low is None) == (exact(need, here, "n") is None), (need, here)


def test_a_crowd_of_two_is_that_of_all_who_are_in_them() -> None:
    random = Random(4)
    for _ in range(100):
        some, others = crowd(random, "a", (0, 1, 2)), crowd(random, "b", (0, 1, 2))
        first, second = glance(some), glance(others)
        if first is None or second is None:
            continue
        together, apart = glance([*some, *others]), first.joined(second)
        assert together is not None
        assert [apart.outlook(need, "n") for need in range(1, 9)] == [
            together.outlook(need, "n") for need in range(1, 9)
        ]


def test_the_first_nodes_are_those_with_the_lowest_exact_bounds() -> None:
    random = Random(5)
    for _ in range(100):
        need = random.randint(1, 4)
        nodes = {f"n{number}": crowd(random, f"n{number}", (0, 1, 1, 2)) for number in range(8)}
        found = {name: exact(need, here, name) for name, here in nodes.items()}
        wanted = [low[5] for low in sorted(low for low in found.values() if low is not None)]
        seen = ((name, glance(here)) for name, here in nodes.items())
        looks = ((each.outlook(need, name), name) for name, each in seen if each is not None)
        ranking = Ranking([(low, name) for low, name in looks if low is not None], found.__getitem__)
        some = random.randint(0, 9)
        assert ranking.items(some) == wanted[:some]
        assert list(ranking) == wanted
        assert ranking.items() == wanted


def test_nodes_whose_outlook_is_worse_get_no_exact_bound() -> None:
    asked: list[str] = []

    def found(name: str) -> Bound:
        asked.append(name)
        return (1, 0, int(name), 0.0, 1, name)

    ranking = Ranking((((1, 0, number, 0.0, 1, str(number)), str(number)) for number in range(1000)), found)
    assert ranking.items(3) == ["0", "1", "2"]
    assert ranking.items(2) == ["0", "1"]
    assert asked == ["0", "1", "2"]
