"""Members of a gang solved together: one row a rule, then random small gangs against every assignment there is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dra_operator.allocator import Failed, Solved, validate
from dra_operator.allocator.gathering import Gathering, Group, Limits, Spot
from dra_operator.allocator.joint import (
    GangConstraint,
    JointProblem,
    JointResult,
    JointSolved,
    JointUnsolved,
    Member,
    solve_jointly,
)
from dra_operator.allocator.problem import Problem, Strategy
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import DeviceId
from tests.allocator.gangs import DRIVER, Ask, Device, Gang, random_gang


def local(node: str, count: int, *, link: str | None = None, size: int = 1) -> list[Device]:
    return [Device(f"{node}-{number}", node, size, link) for number in range(count)]


def cluster(racks: dict[str, str | None], gpus: int = 8) -> list[Device]:
    return [device for node in racks for device in local(node, gpus)]


TWO_RACKS: dict[str, str | None] = {
    **{f"a{number}": "a" for number in range(3)},
    **{f"b{number}": "b" for number in range(4)},
}


def run(gang: Gang) -> JointResult:
    return solve_jointly(gang.problem(), gang.inventory().snapshot())


def placed(gang: Gang) -> list[str]:
    """The nodes of a gang that has a place."""
    answer = run(gang)
    assert isinstance(answer, JointSolved), answer
    check(gang, answer)
    return [str(member.node) for member in answer.members]


def check(gang: Gang, answer: JointSolved) -> None:
    """The validator agrees, one member on top of the other."""
    inventory = gang.inventory()
    snapshot = inventory.snapshot()
    for member, solved in zip(gang.problem().members, answer.members, strict=True):
        assert solved.node is not None
        assert validate(snapshot, member.problem.claims, solved.allocations, solved.node) == []
        for claim, allocation in zip(member.problem.claims, solved.allocations, strict=True):
            snapshot.use(claim.meta.uid, allocation)


# -- rows


def test_the_model_case() -> None:
    """Four pods of eight devices go to the one rack with four free nodes."""
    gang = Gang(TWO_RACKS, cluster(TWO_RACKS), [Ask(8)] * 4, topology="Same")
    assert sorted(placed(gang)) == ["b0", "b1", "b2", "b3"]


def test_all_or_nothing() -> None:
    """Three nodes have room, four are needed."""
    gang = Gang(TWO_RACKS, cluster(TWO_RACKS), [Ask(8)] * 4, topology="Same", used=frozenset({"b2-0"}))
    answer = run(gang)
    assert isinstance(answer, JointUnsolved)
    assert answer.most == 3
    assert (
        answer.message == "each of 4 members has a place by itself, but no value of node label "
        "example.com/rack has room for all of them (at most 3)"
    )
    assert len(placed(replace(gang, topology=None))) == 4


def test_who_has_no_place_alone_is_named() -> None:
    gang = Gang({"n": None}, local("n", 4), [Ask(2), Ask(5)])
    answer = run(gang)
    assert isinstance(answer, JointUnsolved)
    assert answer.alone is not None
    assert answer.alone[0] == 1


@pytest.mark.parametrize(
    ("cpu", "nodes"),
    [(9, ["n0", "n0"]), (3, ["n0", "n1"])],
)
def test_cpu_must_suffice_for_all_on_a_node(cpu: int, nodes: list[str]) -> None:
    """Devices do in either case."""
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    gang = Gang(racks, [*local("n0", 4), *local("n1", 2)], [Ask(2, cpu=2)] * 2, cpu={"n0": cpu, "n1": cpu})
    gang.strategy = Strategy.FirstFit
    assert sorted(placed(gang)) == nodes


def test_nodes_without_room_are_asked_about_once_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but two nodes have one of two devices taken; on one of these two a device is held for others."""
    asked: list[str] = []
    on = Gathering.on

    def counted(self: Gathering, name: str, group: Group, limits: Limits) -> Spot | None:
        asked.append(name)
        return on(self, name, group, limits)

    monkeypatch.setattr(Gathering, "on", counted)
    racks: dict[str, str | None] = {f"n{number:02}": None for number in range(40)}
    used = frozenset(f"{name}-0" for name in racks if name not in ("n20", "n30"))
    gang = Gang(racks, cluster(racks, 2), [Ask(2), Ask(2)], used=used)
    assert placed(gang) == ["n20", "n30"]
    assert set(asked) <= {"n00", "n20", "n30"}
    held = frozenset({DeviceId(DRIVER, "n20", "n20-1")})
    problem = gang.problem()
    members = tuple(
        replace(member, problem=replace(member.problem, forbidden=held), sort="alike") for member in problem.members
    )
    answer = solve_jointly(replace(problem, members=members), gang.inventory().snapshot())
    assert isinstance(answer, JointUnsolved)
    assert answer.most == 1
    assert len(asked) <= 30


def test_an_early_member_makes_way() -> None:
    """The first would do with either node; the second needs the one that is listed first."""
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    gang = Gang(racks, [*local("n0", 2, size=2), *local("n1", 2)], [Ask(2), Ask(2, size=2)])
    gang.strategy = Strategy.FirstFit
    assert placed(gang) == ["n1", "n0"]


def test_members_on_one_node_leave_each_other_what_they_need() -> None:
    """Only one device will do for the second member, and the first leaves it alone."""
    gang = Gang({"n": None}, [Device("big", "n", 2), Device("small", "n", 1)], [Ask(1), Ask(1, size=2)])
    answer = run(gang)
    assert isinstance(answer, JointSolved)
    assert [member.allocations[0].results[0].device for member in answer.members] == ["small", "big"]


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        (2, {"a": 1, "b": 1}),
        (3, {"a": 1, "b": 1, "c": 1}),
        (4, {"a": 2, "b": 1, "c": 1}),
        (6, {"a": 2, "b": 2, "c": 2}),
    ],
)
def test_spread(asks: int, expected: dict[str, int]) -> None:
    """No value twice while another is possible, and then evenly."""
    racks: dict[str, str | None] = {"n0": "a", "n1": "a", "n2": "b", "n3": "c", "n4": None}
    gang = Gang(racks, cluster(racks, 4), [Ask(1)] * asks, topology="Spread")
    counts = Counter(racks[node] for node in placed(gang))
    assert sorted(counts.values(), reverse=True) == sorted(expected.values(), reverse=True)
    assert None not in counts


def test_spread_minds_those_placed_before() -> None:
    racks: dict[str, str | None] = {"n0": "a", "n1": "b"}
    gang = Gang(racks, cluster(racks, 4), [Ask(1)], topology="Spread", present=("a",))
    assert placed(gang) == ["n1"]


@pytest.mark.parametrize(("present", "nodes"), [(("a",), ["a0"]), (("b",), ["b0"]), ((), ["a0"])])
def test_same_stays_where_the_group_is(present: tuple[str, ...], nodes: list[str]) -> None:
    gang = Gang({"a0": "a", "b0": "b"}, cluster({"a0": "a", "b0": "b"}), [Ask(8)], topology="Same", present=present)
    assert placed(gang) == nodes


def test_same_leaves_large_places_whole() -> None:
    """Rack a has room for three, b for four: two members go to a."""
    gang = Gang(TWO_RACKS, cluster(TWO_RACKS), [Ask(8)] * 2, topology="Same")
    assert {node[0] for node in placed(gang)} == {"a"}
    assert {node[0] for node in placed(replace(gang, strategy=Strategy.Spread))} == {"b"}


def test_prefer_is_same_where_possible_and_few_values_else() -> None:
    gang = Gang(TWO_RACKS, cluster(TWO_RACKS), [Ask(8)] * 4, topology="Prefer")
    assert {node[0] for node in placed(gang)} == {"b"}
    gang = replace(gang, asks=[Ask(8)] * 5)
    assert Counter(node[0] for node in placed(gang)) == {"b": 4, "a": 1}


def test_match_across_members() -> None:
    """Devices of one link on two nodes; the link with most devices on one node is not it."""
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    devices = [
        *(Device(f"n0-x{number}", "n0", 1, "x") for number in range(3)),
        Device("n0-y", "n0", 1, "y"),
        Device("n1-y", "n1", 1, "y"),
    ]
    gang = Gang(racks, devices, [Ask(1, cpu=1)] * 2, cpu={"n0": 1, "n1": 1}, match=True)
    assert sorted(placed(gang)) == ["n0", "n1"]
    answer = run(replace(gang, used=frozenset({"n1-y"})))
    assert isinstance(answer, JointUnsolved)


def test_values_count_not_patterns() -> None:
    """Two nodes that differ in nothing but the value of the link are one and the same to a single claim, not to a gang."""
    racks: dict[str, str | None] = {"n0": None, "n1": None, "n2": None}
    devices = [*local("n0", 2, link="x"), *local("n1", 2, link="y"), *local("n2", 2, link="y")]
    gang = Gang(racks, devices, [Ask(2)] * 2, match=True)
    assert sorted(placed(gang)) == ["n1", "n2"]
    gang = replace(gang, match=False, distinct=True, asks=[Ask(1)] * 2)
    assert len(placed(gang)) == 2
    assert isinstance(run(replace(gang, asks=[Ask(1)] * 3)), JointUnsolved)


def test_match_with_devices_that_are_there_already() -> None:
    gang = Gang({"n0": None, "n1": None}, [*local("n0", 2, link="x"), *local("n1", 2, link="y")], [Ask(1)])
    problem = gang.problem()
    for node, other in (("n0", "n1"), ("n1", "n0")):
        for distinct, wanted in ((False, node), (True, other)):
            link = GangConstraint((), (f"{DRIVER}/link",), distinct, present=(DeviceId(DRIVER, node, f"{node}-0"),))
            answer = solve_jointly(replace(problem, constraints=(link,)), gang.inventory().snapshot())
            assert isinstance(answer, JointSolved)
            assert answer.members[0].node == wanted


def test_a_preferred_constraint_is_kept_where_possible() -> None:
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    gang = Gang(racks, [*local("n0", 2, link="x"), *local("n1", 1, link="y")], [Ask(1)] * 2)
    wish = GangConstraint((), (f"{DRIVER}/link",), distinct=True, required=False)
    answer = solve_jointly(gang.problem(wishes=(wish,)), gang.inventory().snapshot())
    assert isinstance(answer, JointSolved)
    assert {member.node for member in answer.members} == {"n0", "n1"}
    gang = replace(gang, used=frozenset({"n1-0"}))
    answer = solve_jointly(gang.problem(wishes=(wish,)), gang.inventory().snapshot())
    assert isinstance(answer, JointSolved)
    assert {member.node for member in answer.members} == {"n0"}


def test_a_constraint_on_some_requests_only() -> None:
    """The match concerns the first member alone, so the second may take any link."""
    gang = Gang({"n": None}, [Device("x", "n", 1, "x"), Device("y", "n", 1, "y")], [Ask(1), Ask(1, cpu=2)])
    link = GangConstraint(((0, 0, "gpu"),), (f"{DRIVER}/link",))
    answer = solve_jointly(replace(gang.problem(), constraints=(link,)), gang.inventory().snapshot())
    assert isinstance(answer, JointSolved)


def test_a_member_that_uses_anothers_claim_goes_where_it_reaches_it() -> None:
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    gang = Gang(racks, [*local("n0", 2), *local("n1", 4)], [Ask(1), Ask(1, cpu=2)])
    gang.strategy = Strategy.Spread
    apart = placed(replace(gang, asks=[Ask(1), Ask(1, nodes=("n0",))]))
    assert apart == ["n1", "n0"]
    members = gang.problem().members
    follower = replace(members[1], follows=((0, 0),), problem=replace(members[1].problem, nodes=("n0",)))
    answer = solve_jointly(JointProblem((members[0], follower)), gang.inventory().snapshot())
    assert isinstance(answer, JointSolved)
    assert [member.node for member in answer.members] == ["n0", "n0"]


def test_devices_that_all_nodes_reach_go_to_who_needs_them() -> None:
    """FirstFit gives the first device to the first member; the second can use no other."""
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    devices = [Device("big", None, 2), Device("small", None, 1)]
    gang = Gang(racks, devices, [Ask(1, nodes=("n0",)), Ask(1, size=2, nodes=("n1",))], strategy=Strategy.FirstFit)
    assert placed(gang) == ["n0", "n1"]
    assert isinstance(run(replace(gang, used=frozenset({"small"}))), JointUnsolved)


@pytest.mark.parametrize("units", [2, 1])
def test_counters_of_a_pool_that_all_nodes_reach(units: int) -> None:
    """Alone, the first member would take a partition that leaves the other one none."""
    racks: dict[str, str | None] = {"n0": None, "n1": None}
    gang = Gang(racks, [], [Ask(1, nodes=("n0",)), Ask(1, size=2, nodes=("n1",))], strategy=Strategy.FirstFit)
    inventory = gang.inventory()
    for number, content in enumerate(
        (
            {"devices": [partition("half-a", 1, units=2), partition("half-b", 1), partition("half-c", 2)]},
            {"sharedCounters": [{"name": "card", "counters": {"units": {"value": str(units)}}}]},
        )
    ):
        pool = {"name": "net", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "pool": pool, "allNodes": True, **content}
        inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": f"net-{number}"}, "spec": spec}))
    answer = solve_jointly(gang.problem(), inventory.snapshot())
    if units == 1:
        assert isinstance(answer, JointUnsolved)
        return
    assert isinstance(answer, JointSolved)
    taken = [member.allocations[0].results[0].device for member in answer.members]
    assert taken == ["half-b", "half-c"]
    assert not inventory.usage.by_claim


def partition(name: str, size: int, units: int = 1) -> dict[str, object]:
    consumes = [{"counterSet": "card", "counters": {"units": {"value": str(units)}}}]
    return {"name": name, "attributes": {"size": {"int": size}}, "consumesCounters": consumes}


def test_an_unknown_class_is_said() -> None:
    gang = Gang({"n": None}, local("n", 2), [Ask(1)])
    inventory = gang.inventory()
    inventory.remove_class("gpu")
    answer = solve_jointly(gang.problem(), inventory.snapshot())
    assert isinstance(answer, Failed)
    assert answer.kind == "class"


def test_the_budget_ends_a_search() -> None:
    racks: dict[str, str | None] = {f"n{number}": None for number in range(12)}
    devices = [Device(f"{name}-{number}", name, 1, f"l{number}") for name in racks for number in range(2)]
    gang = Gang(racks, devices, [Ask(1)] * 6, distinct=True)
    answer = solve_jointly(gang.problem(work_budget=500), gang.inventory().snapshot())
    assert isinstance(answer, Failed)
    assert answer.reason == "SearchBudgetExceeded"


def test_large_gangs_of_one_sort_need_no_search() -> None:
    """A thousand members, and one too many: both answered within a budget that allows no guessing."""
    racks: dict[str, str | None] = {f"n{number:03}": "ab"[number % 2] for number in range(250)}
    gang = Gang(racks, cluster(racks, 4), [Ask(1)] * 1000)
    budget = {"work_budget": 40_000}
    inventory = gang.inventory()
    assert isinstance(solve_jointly(gang.problem(**budget), inventory.snapshot()), JointSolved)
    more = replace(gang, asks=[Ask(1)] * 1001)
    assert isinstance(solve_jointly(more.problem(**budget), inventory.snapshot()), JointUnsolved)
    crowded = replace(gang, asks=[Ask(1)] * 800, cpu={"n000": 1, "n100": 0} | {f"n{at:03}": 3 for at in range(1, 100)})
    answer = solve_jointly(crowded.problem(**budget), inventory.snapshot())
    assert isinstance(answer, JointSolved)


def test_the_snapshot_is_left_as_it_was() -> None:
    gang = random_gang(7)
    inventory = gang.inventory()
    before = dict(inventory.usage.by_claim)
    solve_jointly(gang.problem(), inventory.snapshot())
    assert dict(inventory.usage.by_claim) == before


def test_one_member_alone_is_solved_as_ever() -> None:
    gang = Gang({"n0": None, "n1": None}, cluster({"n0": None, "n1": None}), [Ask(3)])
    assert isinstance(gang.problem().members[0], Member)
    assert isinstance(gang.problem().members[0].problem, Problem)
    [solved] = run(gang).members  # type: ignore[union-attr]
    assert isinstance(solved, Solved)


# -- every assignment


@pytest.mark.parametrize("block", range(20))
def test_random_gangs(block: int) -> None:
    """Solvable exactly if some assignment keeps all rules; Spread and Prefer as good as the best of them."""
    for seed in range(block * 40, block * 40 + 40):
        gang = random_gang(seed)
        solutions = list(gang.solutions())
        answer = run(gang)
        assert not isinstance(answer, Failed), (seed, answer)
        assert isinstance(answer, JointSolved) == bool(solutions), seed
        if not isinstance(answer, JointSolved):
            continue
        check(gang, answer)
        nodes = tuple(str(member.node) for member in answer.members)
        devices = {device.name: device for device in gang.devices}
        picked = tuple(
            tuple(devices[result.device] for result in member.allocations[0].results) for member in answer.members
        )
        assert any(found == nodes and list(map(set, got)) == list(map(set, picked)) for found, got in solutions), seed
        if gang.topology == "Spread":
            assert gang.spread(nodes) == min(gang.spread(found) for found, _ in solutions), seed
        if gang.topology == "Prefer":
            assert gang.same(nodes) == any(gang.same(found) for found, _ in solutions), seed
