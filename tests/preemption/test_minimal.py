"""Nothing better exists: on small random clusters the choice is compared with every set of victims there is.

The comparison shares nothing with the search: it releases every subset, asks the allocator, and counts budgets and criteria itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Problem, Solved, solve
from dra_operator.preemption.holders import Holder
from dra_operator.preemption.victims import NoVictims, Victims
from tests.preemption.worlds import World, ask, part, share

PRIORITY = 10


class Case:
    """One random cluster and a preemptor of priority 10 that does not fit, or does once those on their way out are gone."""

    def __init__(self, seed: int, theme: str) -> None:
        self.random = Random(f"{theme}-{seed}")
        self.world = World()
        self.max_victims = self.random.choice((8, 8, 8, 2, 1))
        self.min_delta = self.random.choice((1, 1, 5))
        self.leaving: list[str] = []
        self.number = 0
        self.problem: Problem = THEMES[theme](self)
        for name in ("b0", "b1"):
            if self.random.random() < 0.6:
                more: dict[str, Any] = {}
                if self.random.random() < 0.3:
                    more["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
                self.world.budget(name, self.random.choice((0, 1, 1, 2)), {"app": name}, **more)
        if self.random.random() < 0.15:
            self.world.budget("all", 1, {})
        if self.random.random() < 0.2:
            devices = [offer.id for offer in self.world.inventory.offers() if self.random.random() < 0.3]
            self.problem = replace(self.problem, forbidden=frozenset(devices))
        if self.random.random() < 0.2 and self.world.holders:
            self.leaving = list(self.world.holders[self.random.choice(sorted(self.world.holders))].claims)

    def hold(self, *devices: str, node: str | None = None, **more: Any) -> None:
        random = self.random
        self.number += 1
        self.world.hold(
            f"h{self.number}",
            *devices,
            priority=random.choice((0, 0, 1, 1, 4, 6, 9, 10, 11)),
            since=float(random.choice((100, 200, 300, random.randrange(1000)))),
            pods=random.choice((1, 1, 1, 1, 2, 3, 0)),
            labels={"app": random.choice(("b0", "b1", "none", "none"))},
            preemptible=random.random() < 0.9,
            running=random.random() < 0.9,
            ready=random.random() < 0.9,
            cpu=(node, 1) if node in self.world.cpu else None,
            **more,
        )

    def hold_groups(
        self, devices: list[str], *, used: float = 0.95, most: int = 3, node: str | None = None, **more: Any
    ) -> None:
        """Give most of the devices to holders of one to `most` each."""
        self.random.shuffle(devices)
        devices = devices[: round(len(devices) * used)]
        while devices:
            count = min(len(devices), self.random.randint(1, most))
            self.hold(*devices[:count], node=node, **more)
            devices = devices[count:]


def plain(case: Case) -> Problem:
    for name in ("n1", "n2"):
        count = case.random.randint(2, 4)
        case.world.node(name, count, cpu=case.random.choice((None, 3)))
        case.hold_groups([f"{name}/d{number}" for number in range(count)], node=name)
    return ask(case.random.randint(1, 4))


def constrained(case: Case) -> Problem:
    for name in ("n1", "n2"):
        count = case.random.randint(3, 5)
        case.world.node(name, [{"attributes": {"numa": {"int": case.random.randrange(2)}}} for _ in range(count)])
        case.hold_groups([f"{name}/d{number}" for number in range(count)], most=2)
    kind = case.random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
    count = case.random.randint(2, 3) if kind == "matchAttribute" else 2
    return ask(count, constraints=[{kind: "gpu.example.com/numa"}])


def partitions(case: Case) -> Problem:
    """One big device, two halves and four quarters over the same counters."""
    sizes = [4, 2, 2, 1, 1, 1, 1]
    for name in ("n1", "n2"):
        case.world.node(name, [part(size, size={"int": size}) for size in sizes], counters={"units": "4"})
        left = 4
        for number in case.random.sample(range(7), 7):
            if sizes[number] <= left and case.random.random() < 0.8:
                left -= sizes[number]
                case.hold(f"{name}/d{number}")
    size = case.random.choice((4, 2, 1))
    selector = f'device.attributes["gpu.example.com"].size == {size}'
    count = case.random.choice((1, 1, 2)) if size < 4 else 1
    return ask({"count": count, "selectors": [{"cel": {"expression": selector}}]})


def shares(case: Case) -> Problem:
    for name in ("n1", "n2"):
        count = case.random.randint(1, 2)
        case.world.node(name, [share("8") for _ in range(count)], cpu=case.random.choice((None, None, 3)))
        for number in range(count):
            left = 8
            while left > 0 and case.random.random() < 0.9:
                size = min(left, case.random.randint(1, 5))
                left -= size
                case.hold(f"{name}/d{number}", node=name, share={"memory": str(size)})
    wanted = {"capacity": {"requests": {"memory": str(case.random.choice((3, 5, 8)))}}}
    return ask({"count": case.random.choice((1, 1, 2)), **wanted})


def network(case: Case) -> Problem:
    """Devices of the nodes and devices that all nodes see, or those of one zone."""
    for name in ("n1", "n2", "n3"):
        count = case.random.randint(0, 2)
        case.world.node(name, count, cpu=case.random.choice((None, 0, 2, 3)))
        case.hold_groups([f"{name}/d{number}" for number in range(count)], most=1, node=name)
    for pool in ("net", "far"):
        term = {"matchExpressions": [{"key": "name", "operator": "In", "values": ["n1", "n3"]}]}
        where = {"allNodes": True} if pool == "net" else {"nodeSelector": {"nodeSelectorTerms": [term]}}
        case.world.pool(pool, 2, where)
    far = [f"{pool}/d{number}" for pool in ("net", "far") for number in range(2)]
    case.hold_groups(far, most=2, node=case.random.choice(("n1", "n3")))
    return ask(case.random.randint(1, 3), needs_node=case.random.random() < 0.7)


def shared_partitions(case: Case) -> Problem:
    """Partitions of one counter set on several nodes: who is in the way may be elsewhere."""
    for name in ("n1", "n2"):
        case.world.node(name)
    devices = [{**part(units), "nodeName": name} for name in ("n1", "n2") for units in (2, 1, 1)]
    case.world.pool("rack", devices, {"perDeviceNodeSelection": True})
    case.world.pool("rack", devices, {"perDeviceNodeSelection": True}, counters={"units": "4"})
    left = 4
    for number in case.random.sample(range(6), 6):
        units = (2, 1, 1, 2, 1, 1)[number]
        if units <= left and case.random.random() < 0.9:
            left -= units
            case.hold(f"rack/d{number}")
    return ask(case.random.choice((1, 1, 2)))


def everything(case: Case) -> Problem:
    """All matching devices, one request after another, or one of two ways."""
    for name in ("n1", "n2"):
        count = case.random.randint(2, 4)
        devices = [{"attributes": {"big": {"bool": number % 2 == 0}}} for number in range(count)]
        case.world.node(name, devices, cpu=case.random.choice((None, None, 2, 3)))
        case.hold_groups([f"{name}/d{number}" for number in range(count)], node=name)
    big = [{"cel": {"expression": 'device.attributes["gpu.example.com"].big'}}]
    return ask(
        case.random.choice(
            ({"allocationMode": "All", "count": None, "selectors": big}, {"count": 1, "selectors": big})
        ),
        *case.random.choice(((), (1,), ({"count": 1, "adminAccess": True},))),
    )


THEMES: dict[str, Callable[[Case], Problem]] = {
    function.__name__: function
    for function in (plain, constrained, partitions, shares, network, shared_partitions, everything)
}


def all_sets(holders: list[Holder]) -> Iterator[tuple[Holder, ...]]:
    for size in range(len(holders) + 1):
        yield from combinations(holders, size)


def price(victims: tuple[Holder, ...], node: str) -> tuple[Any, ...]:
    """The criteria of `preemption.criteria`, written down once more."""
    starts = [victim.since for victim in victims for _ in range(max(1, len(victim.pods)))]
    return (
        sum(len(victim.pods) for victim in victims),
        sum(1 for victim in victims if not victim.pods),
        max((victim.priority for victim in victims), default=0),
        -sum(starts),
        sum(victim.devices for victim in victims),
        node,
        sorted(victim.uid for victim in victims),
    )


def evictable(case: Case, victims: tuple[Holder, ...]) -> bool:
    """As the API server counts, one eviction after another."""
    left: dict[str, int] = {}
    for victim in victims:
        for pod in victim.pods:
            matching = [
                budget
                for budgets in case.world.budgets._budgets.values()
                for budget in budgets.values()
                if budget.selector is not None and budget.selector.matches(pod.labels)
            ]
            if not pod.running or not matching:
                continue
            if len(matching) > 1:
                return False
            budget = matching[0]
            if not pod.ready:  # one pod is healthy and one desired, so the others do not need this one
                continue
            left.setdefault(budget.key.name, budget.allowed)
            left[budget.key.name] -= 1
            if left[budget.key.name] < 0:
                return False
    return True


def best_by_trying_all(case: Case) -> tuple[Any, ...] | None:
    world = case.world
    snapshot = world.inventory.snapshot()
    allowed = [
        holder
        for holder in world.holders.values()
        if holder.preemptible and holder.priority <= PRIORITY - case.min_delta
    ]
    best = None
    with snapshot:
        for uid in case.leaving:
            snapshot.release(uid)
        for victims in all_sets(allowed):
            if (
                len([pod for victim in victims for pod in victim.pods]) + sum(not v.pods for v in victims)
                > case.max_victims
            ):
                continue
            if not evictable(case, victims):
                continue
            reverts = [snapshot.release(claim) for victim in victims for claim in victim.claims]
            gone = frozenset(pod.uid for victim in victims for pod in victim.pods) | world.pods_of(case.leaving)
            for node in world.inventory.node_names:
                found = price(victims, node)
                if (best is None or found < best) and world.fits(node, gone):
                    if isinstance(solve(replace(case.problem, nodes=[node]), snapshot), Solved):
                        best = found
            for revert in reversed(reverts):
                revert()
    return best


@pytest.mark.parametrize("theme", THEMES)
def test_nothing_better_exists(theme: str) -> None:
    outcomes = {"victims": 0, "nobody": 0, "none": 0}
    for seed in range(100):
        case = Case(seed, theme)
        chosen = case.world.choose(
            case.problem,
            priority=PRIORITY,
            min_delta=case.min_delta,
            max_victims=case.max_victims,
            leaving=case.leaving,
        )
        best = best_by_trying_all(case)
        where = f"{theme}, seed {seed}: {chosen}"
        if best is None:
            assert isinstance(chosen, NoVictims), where
            assert chosen.reasons, where
            outcomes["none"] += 1
            continue
        assert isinstance(chosen, Victims), where
        if not best[-1]:
            assert chosen.holders == (), where
            outcomes["nobody"] += 1
            continue
        # A claim of network-attached devices is on no node; any node that reaches them is as good.
        node = best[5] if chosen.node is None else chosen.node
        found = price(chosen.holders, node)
        assert found == best or (chosen.node is None and found[:5] == best[:5] and found[6] == best[6]), where
        outcomes["victims"] += 1
    # The comparison is worth something only if there was something to choose.
    assert outcomes["victims"] >= 20, outcomes
    assert outcomes["none"] >= 5, outcomes
