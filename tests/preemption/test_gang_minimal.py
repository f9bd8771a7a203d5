"""Nobody better could go for a gang: on small random clusters the choice is compared with every set of victims there is.

All devices are alike here, so whether a gang fits is counted, without the allocator; budgets, spare members and criteria are counted
anew as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from dra_operator.allocator import Problem
from dra_operator.allocator.joint import JointProblem, JointSolved, Member, NodeTopology, solve_jointly
from dra_operator.preemption.gangvictims import Gang, GangVictims, choose_for_gang
from dra_operator.preemption.holders import Holder
from dra_operator.preemption.victims import NoVictims
from tests.preemption.test_minimal import price
from tests.preemption.worlds import World, ask

PRIORITY = 10


class Case:
    """Some nodes in two racks, who holds their devices, and a gang of `members` with `each` devices and one CPU a member."""

    def __init__(self, seed: int) -> None:
        random = Random(f"gang-{seed}")
        self.world = World()
        self.members, self.each = random.randint(1, 3), random.randint(1, 2)
        self.same = random.random() < 0.4
        self.max_victims = random.choice((8, 8, 8, 2, 3))
        self.racks: dict[str, str] = {}
        self.devices: dict[str, int] = {}
        number = 0
        for index in range(random.randint(2, 4)):
            name = f"n{index}"
            self.racks[name], self.devices[name] = f"r{index % 2}", random.randint(1, 3)
            self.world.node(name, self.devices[name], cpu=random.choice((1, 2, 9)))
            free = [f"{name}/d{device}" for device in range(self.devices[name])]
            while free:
                count = min(len(free), random.randint(1, 2))
                taken, free = free[:count], free[count:]
                if random.random() < 0.15 or number >= 8:
                    continue
                self.world.hold(
                    f"h{number}",
                    *taken,
                    priority=random.choice((0, 0, 1, 5, 9, 11)),
                    since=float(random.randrange(500)),
                    pods=random.choice((1, 1, 1, 2, 0)),
                    labels={"app": random.choice(("b0", "none"))},
                    preemptible=random.random() < 0.9,
                    cpu=(name, 1),
                )
                number += 1
        if random.random() < 0.6:
            self.world.budget("b0", random.choice((0, 1, 2)), {"app": "b0"})
        singles = [holder.uid for holder in self.world.holders.values() if len(holder.pods) == 1]
        if len(singles) >= 2 and random.random() < 0.5:
            some = random.sample(singles, random.randint(2, min(3, len(singles))))
            spare = random.randint(0, len(some) - 1)
            self.world.gang("gang", *some, spare=spare)

    def claims_of(self, gone: Iterable[Holder]) -> frozenset[str]:
        return frozenset(claim for holder in gone for claim in holder.claims)

    # -- as the engine asks

    def gang(self) -> Gang:
        problem = ask(self.each)
        topology = NodeTopology("Same", self.racks.get) if self.same else None

        def fits(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
            pods = frozenset(pod.uid for holder in gone for pod in holder.pods)
            members = tuple(Member(self._member(problem, pods, nodes), "alike") for _ in range(self.members))
            snapshot = self.world.inventory.snapshot()
            with snapshot:
                for claim in self.claims_of(gone):
                    snapshot.release(claim)
                room = lambda name, who: self.cpu(name, pods) >= len(who)  # noqa: E731
                found = solve_jointly(JointProblem(members, topology, (), room), snapshot)
            return tuple(str(item.node) for item in found.members) if isinstance(found, JointSolved) else None

        racks = [tuple(name for name in self.racks if self.racks[name] == rack) for rack in ("r0", "r1")]
        return Gang(((problem, self.members),), tuple(racks) if self.same else (None,), fits)

    def _member(self, problem: Problem, pods: frozenset[str], nodes: Sequence[str] | None) -> Problem:
        return replace(problem, nodes=nodes, fits=lambda name: self.cpu(name, pods) >= 1)

    def cpu(self, name: str, gone: frozenset[str]) -> int:
        taken = sum(amount for uid, (where, amount) in self.world.cpu_of.items() if where == name and uid not in gone)
        return self.world.cpu[name] - taken

    # -- counted

    def room(self, gone: tuple[Holder, ...]) -> bool:
        pods = frozenset(pod.uid for holder in gone for pod in holder.pods)
        released = self.claims_of(gone)
        taken = Counter(
            use.device.pool
            for claim, uses in self.world.inventory.usage.by_claim.items()
            if claim not in released
            for use in uses
        )
        slots: Counter[str] = Counter()
        for name, count in self.devices.items():
            here = min((count - taken[name]) // self.each, self.cpu(name, pods))
            slots[self.racks[name] if self.same else ""] += max(0, here)
        return max(slots.values()) >= self.members

    def allowed(self, gone: tuple[Holder, ...]) -> bool:
        claims = Counter(claim for holder in gone for claim in holder.claims)
        if any(count > 1 for count in claims.values()):
            return False  # the whole gang and one of its members
        if sum(max(1, len(holder.pods)) for holder in gone) > self.max_victims:
            return False
        for holder in gone:
            for spare, _ in holder.spares:
                singles = sum(1 for other in gone if other.spares and not other.repeats)
                if not holder.repeats and singles > spare.room:
                    return False
        charged = sum(1 for holder in gone for pod in holder.pods if pod.labels.get("app") == "b0")
        budget = next((each for found in self.world.budgets._budgets.values() for each in found.values()), None)
        return budget is None or charged <= budget.allowed

    def best(self) -> tuple[object, ...] | None:
        some = [item for item in self.world.holders.values() if item.preemptible and item.priority < PRIORITY]
        sets = (found for size in range(len(some) + 1) for found in combinations(some, size))
        return min((price(found, "") for found in sets if self.allowed(found) and self.room(found)), default=None)


@pytest.mark.parametrize("tens", range(0, 200, 20))
def test_nothing_better_exists(tens: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(tens, tens + 20):
        case = Case(seed)
        chosen = choose_for_gang(
            case.gang(),
            case.world.inventory,
            case.world.index,
            priority=PRIORITY,
            min_delta=1,
            max_victims=case.max_victims,
            budgets=case.world.budgets,
        )
        best = case.best()
        where = f"seed {seed}: {chosen}"
        if best is None:
            assert isinstance(chosen, NoVictims), where
            assert chosen.reasons, where
            outcomes["none"] += 1
        else:
            assert isinstance(chosen, GangVictims), where
            assert price(chosen.holders, "") == best, where
            outcomes["victims" if chosen.holders else "nobody"] += 1
    # The comparison is worth something only if there was something to choose.
    assert outcomes["victims"] >= 2, outcomes
    assert outcomes["none"] >= 1, outcomes


@pytest.mark.parametrize("spare", [0, 300])
def test_what_leaves_anyway_counts_as_free(spare: int) -> None:
    """Of two devices on one node one is coming free, so one victim is enough; also where there are too many nodes to compare sets."""
    world = World().node("n0", 2)
    world.hold("leaves", "n0/d0", preemptible=False).hold("stays", "n0/d1")
    for number in range(spare):
        world.node(f"other{number}", 1)
        world.hold(f"other{number}", f"other{number}/d0", priority=PRIORITY)
    problem = ask(1)

    def fits(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
        members = tuple(Member(replace(problem, nodes=nodes), "alike") for _ in range(2))
        snapshot = world.inventory.snapshot()
        with snapshot:
            for claim in ("claim-leaves", *(claim for holder in gone for claim in holder.claims)):
                snapshot.release(claim)
            found = solve_jointly(JointProblem(members), snapshot)
        return tuple(str(item.node) for item in found.members) if isinstance(found, JointSolved) else None

    chosen = choose_for_gang(
        Gang(((problem, 2),), (None,), fits, frozenset({"claim-leaves"})),
        world.inventory,
        world.index,
        priority=PRIORITY,
        min_delta=1,
        max_victims=8,
        budgets=world.budgets,
    )
    assert isinstance(chosen, GangVictims), chosen
    assert [holder.uid for holder in chosen.holders] == ["stays"]
