"""What choosing victims for a gang looks at: on many nodes in few states, not more than it takes to find the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dra_operator.allocator.joint import JointProblem, JointSolved, Member, NodeTopology, solve_jointly
from dra_operator.api.meta import Key
from dra_operator.preemption import gangground, gangsearch
from dra_operator.preemption.budgets import Budgets, Refusal
from dra_operator.preemption.gangvictims import Gang, GangVictims, choose_for_gang
from dra_operator.preemption.holders import Holder, PodRef
from dra_operator.preemption.victims import NoVictims
from tests.preemption.worlds import World, ask

NODES = 320
DEVICES = 2
RACK = 16
MEMBERS = 4


class Watched(Budgets):
    """Counts the pods it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def charged(self, pod: PodRef) -> Key | Refusal | None:
        self.asked.add(pod.uid)
        return super().charged(pod)


class Cluster:
    """Full nodes, each device with a pod of its own; the lower a node's number, the higher its pods' priority.

    `asked` counts what the gang's place is asked for: (who is gone, on how many nodes).
    """

    def __init__(self, protected: int = 0) -> None:
        self.world = World()
        self.world.budgets = self.budgets = Watched()
        self.names = [f"n{number:03}" for number in range(NODES)]
        for number, name in enumerate(self.names):
            self.world.node(name, DEVICES)
            label = {"app": "guarded" if number >= NODES - protected else "none"}
            for device in range(DEVICES):
                self.world.hold(f"{name}-{device}", f"{name}/d{device}", priority=NODES - number, labels=label)
        self.world.budget("guard", 0, {"app": "guarded"})
        self.asked: Counter[tuple[frozenset[str], tuple[str, ...] | None]] = Counter()

    def choose(self, each: int, *, racks: bool = False) -> tuple[str, ...]:
        found = self.ask(each, racks=racks)
        assert isinstance(found, GangVictims), found
        return tuple(sorted(item.uid for item in found.holders))

    def ask(self, each: int, *, racks: bool = False, max_victims: int = 8) -> GangVictims | NoVictims:
        problem = ask(each)
        rack = {name: f"r{number // RACK}" for number, name in enumerate(self.names)}
        topology = NodeTopology("Same", rack.get) if racks else None

        def fits(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
            self.asked[frozenset(item.uid for item in gone), None if nodes is None else tuple(nodes)] += 1
            snapshot = self.world.inventory.snapshot()
            with snapshot:
                for item in gone:
                    for claim in item.claims:
                        snapshot.release(claim)
                members = tuple(Member(replace(problem, nodes=nodes), "alike") for _ in range(MEMBERS))
                found = solve_jointly(JointProblem(members, topology), snapshot)
            return tuple(str(item.node) for item in found.members) if isinstance(found, JointSolved) else None

        domains: dict[str, list[str]] = {}
        for name, value in rack.items():
            domains.setdefault(value, []).append(name)
        return choose_for_gang(
            Gang(((problem, MEMBERS),), tuple(map(tuple, domains.values())) if racks else (None,), fits),
            self.world.inventory,
            self.world.index,
            priority=1000,
            min_delta=1,
            max_victims=max_victims,
            budgets=self.budgets,
        )


@pytest.mark.parametrize(
    ("protected", "each", "nodes"),
    [
        (0, 1, ["n319", "n319", "n318", "n318"]),
        (0, 2, ["n319", "n318", "n317", "n316"]),
        (20, 2, ["n299", "n298", "n297", "n296"]),
    ],
)
def test_only_those_on_the_cheapest_nodes_are_looked_at_closely(protected: int, each: int, nodes: list[str]) -> None:
    cluster = Cluster(protected)
    victims = cluster.choose(each)
    assert Counter(name.split("-")[0] for name in victims) == Counter(nodes * (MEMBERS * each // len(nodes)))
    # Budgets are asked about pods on one node that there could be victims at all, and about those on nodes no dearer than the taken.
    assert len(cluster.budgets.asked) <= (protected + 2 * MEMBERS) * DEVICES


@pytest.mark.parametrize("racks", [False, True])
def test_nothing_is_asked_twice(racks: bool) -> None:
    cluster = Cluster()
    cluster.choose(2, racks=racks)
    assert max(cluster.asked.values()) == 1
    # Everywhere only whether it fits without victims; then on no more nodes than the members could take.
    assert [gone for gone, nodes in cluster.asked if nodes is None] == [frozenset()]
    assert max(len(nodes) for _, nodes in cluster.asked if nodes is not None) <= MEMBERS


def test_where_more_have_to_go_than_may_nothing_is_asked() -> None:
    """Each rack takes eight victims, and six may go: then only to say so are any looked for."""
    cluster = Cluster()
    found = cluster.ask(2, racks=True, max_victims=6)
    assert isinstance(found, NoVictims)
    assert found.reasons == ("it would take 8 victims, and the policy allows 6",)
    asked = [nodes for _, nodes in cluster.asked if nodes is not None]
    assert len({int(name[1:]) // RACK for nodes in asked for name in nodes}) <= gangsearch.DOMAINS


def test_nodes_in_one_state_are_looked_at_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    place = gangground.GangGround._place_of

    def counted(self: gangground.GangGround, *args: object) -> object:
        made.append(args)
        return place(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(gangground.GangGround, "_place_of", counted)
    cluster = Cluster()
    cluster.choose(2)
    assert len(made) == 1
