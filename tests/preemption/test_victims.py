"""Who is chosen, one row a rule: a cluster, what is asked for at priority 100, and who has to go where, or why nobody can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from dra_operator.allocator import Problem, Strategy
from dra_operator.inventory import DeviceId
from dra_operator.preemption import outlook, search, site
from dra_operator.preemption.victims import NoVictims, Victims
from tests.preemption.worlds import DRIVER, World, ask, part, share

NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]


def numa(*values: int) -> list[dict[str, object]]:
    return [{"attributes": {"numa": {"int": value}}} for value in values]


def where(attribute: str, value: int) -> dict[str, object]:
    return {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].{attribute} == {value}'}}]}


def size(units: int, count: int = 1) -> dict[str, object]:
    return {"count": count, **where("size", units)}


def mig() -> World:
    """Two nodes with a whole device, two halves and two quarters over the same counters."""
    world = World()
    for name in ("n1", "n2"):
        world.node(name, [part(units, size={"int": units}) for units in (4, 2, 2, 1, 1)], counters={"units": "4"})
    return world


def memory(amount: str) -> dict[str, object]:
    return {"count": 1, "capacity": {"requests": {"memory": amount}}}


#: What the row shows: cluster, problem, node and victims in the order of eviction.
CHOSEN: dict[str, tuple[Callable[[], World], Problem, str | None, list[str]]] = {
    "lowest priority goes": (
        lambda: World().node("n1", 2).hold("low", "n1/d0", priority=1).hold("mid", "n1/d1", priority=2),
        ask(1), "n1", ["low"],
    ),
    "of equal priority the youngest goes": (
        lambda: World().node("n1", 2).hold("old", "n1/d0", since=10).hold("young", "n1/d1", since=20),
        ask(1), "n1", ["young"],
    ),
    "of equal age the one with fewer devices goes": (
        lambda: World().node("n1", 3).hold("two", "n1/d0", "n1/d1").hold("z-one", "n1/d2"),
        ask(1), "n1", ["z-one"],
    ),
    "fewer victims before lower priority": (
        lambda: World().node("n1", 2).node("n2", 2).hold("a", "n1/d0").hold("b", "n1/d1").hold("c", "n2/d0", "n2/d1", priority=50),
        ask(2), "n2", ["c"],
    ),
    "lower priority before youth": (
        lambda: World().node("n1", 1).node("n2", 1).hold("a", "n1/d0", priority=2, since=99).hold("b", "n2/d0", priority=1),
        ask(1), "n2", ["b"],
    ),
    "the highest priority of a set counts": (
        lambda: World().node("n1", 2).node("n2", 2)
        .hold("a", "n1/d0", priority=0).hold("b", "n1/d1", priority=9)
        .hold("c", "n2/d0", priority=5).hold("d", "n2/d1", priority=5),
        ask(2), "n2", ["c", "d"],
    ),
    "all else equal, the first node by name": (
        lambda: World().node("n2", 1).node("n1", 1).hold("a", "n2/d0").hold("b", "n1/d0"),
        ask(1), "n1", ["b"],
    ),
    "all else equal, the first UID": (
        lambda: World().node("n1", 2).hold("b", "n1/d0").hold("a", "n1/d1"),
        ask(1), "n1", ["a"],
    ),
    "free devices are used as well": (
        lambda: World().node("n1", 3).hold("a", "n1/d0").hold("b", "n1/d1"),
        ask(2), "n1", ["a"],
    ),
    "a node that never fits does not tempt": (
        lambda: World().node("n1", 1).node("n2", 2).hold("cheap", "n1/d0").hold("b", "n2/d0", "n2/d1", priority=50),
        ask(2), "n2", ["b"],
    ),
    "all pods that share a claim go, and count": (
        lambda: World().node("n1", 2).hold("three", "n1/d0", pods=3).hold("one", "n1/d1", priority=50),
        ask(1), "n1", ["one"],
    ),
    "a claim without a pod goes before any pod": (
        lambda: World().node("n1", 2).hold("pod", "n1/d0").hold("bare", "n1/d1", pods=0, priority=50),
        ask(1), "n1", ["bare"],
    ),
    "two claims without pods go rather than a pod": (
        lambda: World().node("n1", 2).node("n2", 2).hold("pod", "n2/d0", "n2/d1")
        .hold("bare", "n1/d0", pods=0).hold("idle", "n1/d1", pods=0),
        ask(2), "n1", ["bare", "idle"],
    ),
    "but none of them without need": (
        lambda: World().node("n1", 3).hold("x", "n1/d0", pods=0).hold("y", "n1/d1", pods=0).hold("z", "n1/d2", pods=0),
        ask(2), "n1", ["x", "y"],
    ),
    "devices held for others do not count": (
        lambda: World().node("n1", 1).node("n2", 1).hold("a", "n1/d0").hold("b", "n2/d0", priority=50),
        ask(1, forbidden=frozenset([DeviceId(DRIVER, "n1", "d0")])), "n2", ["b"],
    ),
    "only the nodes asked about": (
        lambda: World().node("n1", 1).node("n2", 1).hold("a", "n1/d0").hold("b", "n2/d0", priority=50),
        ask(1, nodes=("n2",)), "n2", ["b"],
    ),
    "a budget sends the choice elsewhere": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", labels={"app": "a"}).hold("b", "n1/d1", priority=9).budget("a", 0, {"app": "a"}),
        ask(1), "n1", ["b"],
    ),
    "a budget is counted over all victims": (
        lambda: World().node("n1", 3).hold("a", "n1/d0", labels={"app": "a"}).hold("b", "n1/d1", labels={"app": "a"})
        .hold("c", "n1/d2", priority=9).budget("a", 1, {"app": "a"}),
        ask(2), "n1", ["a", "c"],
    ),
    "victims under a budget are evicted first": (
        lambda: World().node("n1", 3).hold("a", "n1/d0").hold("b", "n1/d1", priority=9, labels={"app": "b"}).hold("c", "n1/d2", pods=0)
        .budget("b", 1, {"app": "b"}),
        ask(3), "n1", ["b", "a", "c"],
    ),
    "pods that two budgets select stay": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", labels={"app": "a"}).hold("b", "n1/d1", priority=9)
        .budget("one", 5, {"app": "a"}).budget("two", 5, {"app": "a"}),
        ask(1), "n1", ["b"],
    ),
    "what is not preemptible stays": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", preemptible=False).hold("b", "n1/d1", priority=9),
        ask(1), "n1", ["b"],
    ),
    "devices that belong together": (
        lambda: World().node("n1", numa(0, 0, 1, 1)).hold("a", "n1/d0").hold("b", "n1/d1", priority=9)
        .hold("c", "n1/d2", priority=5).hold("d", "n1/d3", priority=5),
        ask(2, constraints=NUMA), "n1", ["c", "d"],
    ),
    "one free device of the pair": (
        lambda: World().node("n1", numa(0, 0, 1, 1)).hold("a", "n1/d0").hold("b", "n1/d1").hold("d", "n1/d3", priority=50),
        ask(2, constraints=NUMA), "n1", ["d"],
    ),
    "who holds the counters in the way": (
        lambda: mig().hold("quarter", "n1/d3", priority=1).hold("half", "n1/d1", priority=5).hold("whole", "n2/d0", priority=9),
        ask(size(2)), "n1", ["quarter"],
    ),
    "all who hold counters, for the whole": (
        lambda: mig().hold("half", "n1/d1", priority=5).hold("quarter", "n1/d3", priority=1).hold("whole", "n2/d0", priority=9, pods=3),
        ask(size(4)), "n1", ["quarter", "half"],
    ),
    "one who holds the whole before two with parts": (
        lambda: mig().hold("half", "n1/d1").hold("quarter", "n1/d3").hold("whole", "n2/d0", priority=9),
        ask(size(4)), "n2", ["whole"],
    ),
    "enough shares of one device": (
        lambda: World().node("n1", [share("8"), share("8")])
        .hold("a", "n1/d0", share={"memory": "4"}).hold("b", "n1/d0", share={"memory": "4"}, priority=7)
        .hold("c", "n1/d1", share={"memory": "3"}).hold("d", "n1/d1", share={"memory": "3"}).hold("e", "n1/d1", share={"memory": "2"}),
        ask(memory("8")), "n1", ["a", "b"],
    ),
    "the one share that is large enough": (
        lambda: World().node("n1", [share("8")]).hold("a", "n1/d0", share={"memory": "2"}).hold("b", "n1/d0", share={"memory": "6"}, priority=7),
        ask(memory("5")), "n1", ["b"],
    ),
    "a device of the network": (
        lambda: World().node("n1").node("n2").pool("net", 1, {"allNodes": True}).hold("a", "net/d0"),
        ask(1), "n1", ["a"],
    ),
    "a claim without a node": (
        lambda: World().node("n1").node("n2").pool("net", 1, {"allNodes": True}).hold("a", "net/d0"),
        ask(1, needs_node=False), None, ["a"],
    ),
    "a device of the network and one of the node": (
        lambda: World().node("n1", 1).node("n2", 1).pool("net", 1, {"allNodes": True})
        .hold("far", "net/d0").hold("a", "n1/d0", priority=9).hold("b", "n2/d0", priority=5),
        ask(2), "n2", ["far", "b"],
    ),
    "every matching device": (
        lambda: World().node("n1", 2).node("n2", 2).hold("a", "n1/d0").hold("b", "n1/d1").hold("c", "n2/d1", priority=50),
        ask({"allocationMode": "All", "count": None}), "n2", ["c"],
    ),
    "admin access takes nothing": (
        lambda: World().node("n1", 2).hold("a", "n1/d0").hold("b", "n1/d1", priority=50),
        ask({"count": 1, "adminAccess": True}, 1), "n1", ["a"],
    ),
    "first fit": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", priority=5).hold("b", "n1/d1"),
        ask(1, strategy=Strategy.FirstFit), "n1", ["b"],
    ),
    "room for the pod is freed with the devices": (
        lambda: World().node("n1", 2, cpu=2).hold("a", "n1/d0", cpu=("n1", 1)).hold("b", "n1/d1", cpu=("n1", 1), priority=5),
        ask(1), "n1", ["a"],
    ),
    "a pod can be in the way of the pod alone": (
        lambda: World().node("n1", 2, cpu=1).hold("a", "n1/d0", cpu=("n1", 1)),
        ask(1), "n1", ["a"],
    ),
    "nor does it matter which devices it has": (
        lambda: World().node("n1", numa(0, 1), cpu=1).hold("other", "n1/d1", cpu=("n1", 1)),
        ask({"count": 1, **where("numa", 0)}), "n1", ["other"],
    ),
    "among nodes alike, the one with room": (
        lambda: World().node("n1", cpu=0).node("n2", cpu=0).node("n3", cpu=1).pool("net", 1, {"allNodes": True}).hold("a", "net/d0"),
        ask(1), "n3", ["a"],
    ),
    "where there is room without more victims": (
        lambda: World().node("n1", 2, cpu=2).node("n2", 1, cpu=2)
        .hold("a", "n1/d0", cpu=("n1", 0)).hold("b", "n1/d1", cpu=("n1", 2), priority=1).hold("c", "n2/d0", cpu=("n2", 1), priority=50),
        ask(2, nodes=("n1",)), "n1", ["a", "b"],
    ),
    "nobody if it fits anyway": (
        lambda: World().node("n1", 1).node("n2", 1).hold("a", "n1/d0"),
        ask(1), "n2", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CHOSEN)
def test_who_is_chosen(row: str) -> None:
    build, problem, node, victims = CHOSEN[row]
    chosen = build().choose(problem)
    assert isinstance(chosen, Victims), chosen
    assert ([holder.uid for holder in chosen.holders], chosen.node) == (victims, node)


#: What the row shows: cluster, problem, the reasons, who would have to go otherwise.
REFUSED: dict[str, tuple[Callable[[], World], Problem, list[str], list[str]]] = {
    "equal priority": (
        lambda: World().node("n1", 1).hold("a", "n1/d0", priority=100),
        ask(1), ["nothing of priority 99 or lower holds a device on a node it could use"], [],
    ),
    "not preemptible": (
        lambda: World().node("n1", 1).hold("a", "n1/d0", preemptible=False),
        ask(1), ["not preemptible: pod team/a"], ["a"],
    ),
    "a budget": (
        lambda: World().node("n1", 1).hold("a", "n1/d0", labels={"app": "a"}).budget("keep", 0, {"app": "a"}),
        ask(1), ["disruption budget team/keep allows no more disruption, and 1 would be needed (team/a)"], ["a"],
    ),
    "a budget over several": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", labels={"app": "a"}).hold("b", "n1/d1", labels={"app": "a"})
        .budget("keep", 1, {"app": "a"}),
        ask(2), ["disruption budget team/keep allows 1 more disruption, and 2 would be needed (team/a, team/b)"], ["a", "b"],
    ),
    "too many": (
        lambda: World().node("n1", 9).hold("a", *[f"n1/d{number}" for number in range(9)], pods=9),
        ask(1), ["it would take 9 victims, and the policy allows 8"], ["a"],
    ),
    "several rules at once": (
        lambda: World().node("n1", 9).hold("a", *[f"n1/d{number}" for number in range(9)], pods=9, preemptible=False),
        ask(1),
        ["not preemptible: pod team/a-0, pod team/a-1, pod team/a-2, pod team/a-3, pod team/a-4, pod team/a-5, pod team/a-6, "
         "pod team/a-7, pod team/a-8", "it would take 9 victims, and the policy allows 8"], ["a"],
    ),
    "more than any node has": (
        lambda: World().node("n1", 2).hold("a", "n1/d0", "n1/d1"),
        ask(3), ["no node has the devices it asks for, whoever holds them"], [],
    ),
    "all that would do is kept for others": (
        lambda: World().node("n1", 2).hold("a", "n1/d0"),
        ask(2, forbidden=frozenset([DeviceId(DRIVER, "n1", "d0")])),
        ["no node has the devices it asks for, whoever holds them, beside those that are kept for others"], [],
    ),
    "higher priorities in between": (
        lambda: World().node("n1", 2).hold("a", "n1/d0").hold("b", "n1/d1", priority=500),
        ask(2), ["it would not fit even if everything of priority 99 or lower gave way"], [],
    ),
    "constraints nobody can satisfy": (
        lambda: World().node("n1", numa(0, 1)).hold("a", "n1/d0").hold("b", "n1/d1"),
        ask(2, constraints=NUMA), ["it would not fit even if everything of priority 99 or lower gave way"], [],
    ),
    "no room for the pod": (
        lambda: World().node("n1", 1, cpu=0).hold("a", "n1/d0", cpu=("n1", 0)),
        ask(1), ["devices could be freed (on node n1, say), but the pod would not fit there even then"], ["a"],
    ),
    "a class that does not exist": (
        lambda: World().node("n1", 1).hold("a", "n1/d0"),
        ask({"deviceClassName": "tpu"}),
        ["claim vip/wanted, request r0: device class tpu not found; create it or name another one"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_why_nobody_can(row: str) -> None:
    build, problem, reasons, closest = REFUSED[row]
    chosen = build().choose(problem)
    assert isinstance(chosen, NoVictims)
    assert (list(chosen.reasons), [holder.uid for holder in chosen.closest]) == (reasons, closest)


def test_how_far_below_victims_must_be() -> None:
    world = World().node("n1", 2).hold("a", "n1/d0", priority=95, since=9).hold("b", "n1/d1", priority=95)
    for delta, found in ((0, True), (1, True), (5, True), (6, False)):
        assert isinstance(world.choose(ask(1), min_delta=delta), Victims) == found
    assert isinstance(world.choose(ask(1), priority=95, min_delta=0), NoVictims)


def test_nobody_is_evicted_for_what_comes_free_anyway() -> None:
    world = World().node("n1", 2).hold("old", "n1/d0", priority=500).hold("a", "n1/d1")
    chosen = world.choose(ask(1), leaving=["claim-old"])
    assert isinstance(chosen, Victims)
    assert (chosen.holders, chosen.node) == ((), "n1")
    # What comes free is counted, and only the rest is evicted.
    chosen = world.choose(ask(2), leaving=["claim-old"])
    assert isinstance(chosen, Victims)
    assert chosen.claims == ("claim-a",)


def test_what_is_leaving_does_not_become_a_victim() -> None:
    world = World().node("n1", 2).hold("old", "n1/d0", since=99).hold("a", "n1/d1", priority=5)
    chosen = world.choose(ask(2), leaving=["claim-old"])
    assert isinstance(chosen, Victims)
    assert [holder.uid for holder in chosen.holders] == ["a"]


def test_what_only_the_whole_gang_can_give_is_counted() -> None:
    """Two members share a claim, and the gang can spare one pod: their share is to be had with all the others alone."""
    world = World().node("n1", [share("8"), share("4")])
    world.hold("pair", "n1/d0", pods=2, share={"memory": "8"}).hold("one", "n1/d1", share={"memory": "4"})
    world.gang("gang", "pair", "one", spare=1)
    world.index.drop("pair")
    chosen = world.choose(ask(memory("8")))
    assert isinstance(chosen, Victims)
    assert [holder.uid for holder in chosen.holders] == ["gang"]


def test_the_same_answer_whatever_the_order() -> None:
    answers = set()
    for seed in range(20):
        names = [f"n{number}" for number in range(6)]
        Random(seed).shuffle(names)
        world = World()
        for name in names:
            world.node(name, 2)
        for name in names:
            world.hold(f"a-{name}", f"{name}/d0").hold(f"b-{name}", f"{name}/d1")
        chosen = world.choose(ask(2))
        assert isinstance(chosen, Victims)
        answers.add((chosen.node, chosen.claims))
    assert answers == {("n0", ("claim-a-n0", "claim-b-n0"))}


@pytest.mark.parametrize("limits", [{"SETS": 3}, {"TRIES": 2}, {"LOOKS": 4}, {"SETS": 2, "LOOKS": 8, "FAR": 1}])
@pytest.mark.parametrize("seed", range(25))
def test_beyond_what_is_compared_victims_are_still_needed(
    seed: int, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sets are too many to compare: every victim may go and is needed, and some set is found whenever there is one."""
    for name, value in limits.items():
        monkeypatch.setattr({"SETS": site, "FAR": outlook}.get(name, search), name, value)
    random = Random(seed)
    world = World()
    for name in ("n1", "n2", "n3"):
        world.node(name, numa(*[random.randrange(2) for _ in range(8)]))
        for number in range(8):
            world.hold(
                f"{name}-{number}",
                f"{name}/d{number}",
                priority=random.choice((1, 5, 9, 10, 200)),
                since=float(random.randrange(100)),
            )
    world.pool("net", numa(0, 0, 1, 1), {"allNodes": True})
    for number in range(4):
        world.hold(f"net-{number}", f"net/d{number}", priority=random.choice((1, 9, 200)))
    problem = ask(random.choice((2, 3, 4)), constraints=NUMA)
    chosen = world.choose(problem, priority=10)
    monkeypatch.undo()
    exact = world.choose(problem, priority=10)
    assert isinstance(chosen, Victims) == isinstance(exact, Victims)
    if isinstance(chosen, NoVictims):
        return
    assert all(holder.priority < 10 for holder in chosen.holders)
    for spared in chosen.holders:
        gone = [holder.claims[0] for holder in chosen.holders if holder is not spared]
        without = world.choose(replace(problem, nodes=(str(chosen.node),)), priority=-100, leaving=gone)
        assert isinstance(without, NoVictims), f"{spared} need not go"
