"""Several units solved together, all or none: the members of a gang, each on a node of its own choice.

Values and the entry point. One member is a `Problem` with its own nodes and `fits`; several may share a node, where devices, cpu and
memory must suffice for all of them. What goes where is `jointsearch`, what they take on one node `gathering`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dra_operator.allocator.filling import Gathered, NodeTopology, Room
from dra_operator.allocator.gathering import Covered, Gathering, Link, Sort
from dra_operator.allocator.jointsearch import JointSearch
from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.problem import WORK_BUDGET, Failed, Problem, Solved, Unsolved
from dra_operator.allocator.search import Stopped, Work
from dra_operator.allocator.solving import solve
from dra_operator.allocator.statistics import warnings_of
from dra_operator.inventory import DeviceId, Snapshot


@dataclass(frozen=True, slots=True)
class Member:
    """One unit of the gang.

    `sort`: equal for members that may be exchanged: equal specs in the same order, and nodes, `fits` and constraints of the same
    meaning. `follows`: claims of other members that this one uses as well, (member, number of its claim): their devices must be in
    reach of its node. All members have the same `forbidden`, `strategy`, `demand` and `ignore_usage`.
    """

    problem: Problem
    sort: Hashable
    follows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GangConstraint:
    """A constraint over the devices of several members.

    `members`: (member, claim, request), empty = all requests of all members. `attributes`: the first that a device has counts.
    `present`: devices of members placed before, which count with the others. Preferred ones (`required` False) are kept to in
    their order, each as far as the gang still fits with those before it.
    """

    members: tuple[tuple[int, int, str], ...]
    attributes: tuple[str, ...]
    distinct: bool = False
    required: bool = True
    present: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True)
class JointProblem:
    """`room(node, members)`: may these members (numbers, two or more) run on the node together? Asked only where each one fits by
    itself; more members must never make it True."""

    members: tuple[Member, ...]
    topology: NodeTopology | None = None
    constraints: tuple[GangConstraint, ...] = ()
    room: Room | None = None
    work_budget: int = WORK_BUDGET


@dataclass(frozen=True, slots=True)
class JointSolved:
    """By member."""

    members: tuple[Solved, ...]


@dataclass(frozen=True, slots=True)
class JointUnsolved:
    """`alone`: a member that has no place even by itself, with the allocator's answer. Otherwise `message` says what keeps them from
    being placed together, and `most` how many were, at the best try."""

    alone: tuple[int, Unsolved] | None = None
    most: int = 0
    message: str = ""


#: Steps spent on saying why not.
_EXPLAINING = 20_000

JointResult = JointSolved | JointUnsolved | Failed


def solve_jointly(problem: JointProblem, snapshot: Snapshot) -> JointResult:
    """Places and devices for all members, or why not. Deterministic; leaves the snapshot as it was.

    Complete within the work budget, but for one thing: of a device in shares that several nodes reach, a node takes as many as the
    allocator gives it first, or none.
    """
    refused = _refused(problem, snapshot)
    if refused is not None:
        return refused
    work = Work(problem.work_budget)
    required = [item for item in problem.constraints if item.required]
    try:
        found, most = _run(problem, required, snapshot, work)
        if found is None:
            return _unsolved(problem, required, snapshot, most)
        for item in problem.constraints:
            if not item.required:
                better = _wished(problem, [*required, item], snapshot, work)
                if better is not None:
                    found, required = better, [*required, item]
    except Stopped:
        names = ", ".join(str(claim.key) for member in problem.members[:3] for claim in member.problem.claims[:1])
        return Failed(
            "budget",
            f"claims {names}{', …' if len(problem.members) > 3 else ''}: no solution for {len(problem.members)} members within "
            f"{problem.work_budget} steps of search; ask for fewer combined constraints, or make the members alike",
        )
    return _solved(problem, found, snapshot)


def _refused(problem: JointProblem, snapshot: Snapshot) -> Failed | None:
    """What is wrong with a member's claims as they are written."""
    memory = memory_of(snapshot.inventory)
    seen: set[Hashable] = set()
    for member in problem.members:
        if member.sort in seen:
            continue
        seen.add(member.sort)
        known = memory.known(member.problem)
        if isinstance(known, Failed):
            return known
        admin = member.problem.admin_access
        if admin is not None and any(way.admin for way in known.plan.ways):
            if not all(admin(claim.meta.namespace) for claim in member.problem.claims):
                answer = solve(member.problem, snapshot)
                if isinstance(answer, Failed):
                    return answer
    return None


def _run(
    problem: JointProblem,
    constraints: Sequence[GangConstraint],
    snapshot: Snapshot,
    work: Work,
    *,
    loose: bool = False,
) -> tuple[_Found | None, int]:
    """A solution, and how many members were placed at the best try. `loose`: wherever the topology says."""
    sorts = _sorts(problem, constraints)
    links = [Link(item.attributes, item.distinct, item.present) for item in constraints]
    gathering = Gathering(sorts, links, snapshot, work)
    for sort in sorts:
        # Plans first: they may have the inventory tell devices apart by more attributes.
        gathering.known((sort.index,))
    snapshot.inventory.refresh()
    search = JointSearch(
        gathering,
        [member.problem.claims for member in problem.members],
        [member.follows for member in problem.members],
        None if loose else problem.topology,
        problem.room,
        snapshot,
        work,
    )
    gathered = search.run()
    return None if gathered is None else _Found(search, gathered), search.most


@dataclass(frozen=True, slots=True)
class _Found:
    search: JointSearch
    gathered: Gathered


def _wished(
    problem: JointProblem, constraints: Sequence[GangConstraint], snapshot: Snapshot, work: Work
) -> _Found | None:
    """With one more preferred constraint; a search that takes too long counts as no."""
    own = Work(work.left // 2)
    try:
        return _run(problem, constraints, snapshot, own)[0]
    except Stopped:
        return None
    finally:
        work.left -= work.left // 2 - max(own.left, 0)


def _sorts(problem: JointProblem, constraints: Sequence[GangConstraint]) -> list[Sort]:
    covered_by: list[list[Covered]] = [[] for _ in problem.members]
    for item in constraints:
        for number, member in enumerate(problem.members):
            covered_by[number].append(_covered(item, number, member.problem))
    members: dict[Hashable, list[int]] = {}
    for number, member in enumerate(problem.members):
        # Who shares claims is nobody's double.
        alone = number if member.follows or _followed(problem, number) else None
        members.setdefault((member.sort, tuple(covered_by[number]), alone), []).append(number)
    return [
        Sort(index, problem.members[numbers[0]].problem, tuple(numbers), tuple(covered_by[numbers[0]]))
        for index, numbers in enumerate(members.values())
    ]


def _followed(problem: JointProblem, number: int) -> bool:
    return any(owner == number for member in problem.members for owner, _ in member.follows)


def _covered(item: GangConstraint, number: int, problem: Problem) -> Covered:
    if not item.members:
        return tuple(
            (index, request.name) for index, claim in enumerate(problem.claims) for request in claim.spec.requests
        )
    return tuple((claim, request) for member, claim, request in item.members if member == number) or None


def _solved(problem: JointProblem, found: _Found, snapshot: Snapshot) -> JointSolved:
    search, gathered = found.search, found.gathered
    memory = memory_of(snapshot.inventory)
    answers: dict[int, Solved] = {}
    for name, members in gathered.members.items():
        spot = gathered.spots[name]
        for number in members:
            own = problem.members[number].problem
            allocations = search.reconciling.allocations_of(number, members, spot)
            node: str | None = name
            if not own.needs_node and all(item.node_selector is not spot.record.selector for item in allocations):
                node = None
            known = memory.known(own)
            warnings = () if isinstance(known, Failed) else warnings_of(known, snapshot.inventory, own)
            answers[number] = Solved(node, allocations, warnings)
    return JointSolved(tuple(answers[number] for number in range(len(problem.members))))


def _unsolved(
    problem: JointProblem, required: Sequence[GangConstraint], snapshot: Snapshot, most: int
) -> JointUnsolved | Failed:
    seen: set[Hashable] = set()
    for number, member in enumerate(problem.members):
        if member.sort not in seen:
            seen.add(member.sort)
            answer = solve(member.problem, snapshot)
            if isinstance(answer, Failed):
                return answer
            if isinstance(answer, Unsolved):
                return JointUnsolved(alone=(number, answer))
    try:
        message = _together(problem, required, snapshot, Work(_EXPLAINING), most)
    except Stopped:
        message = _apart(len(problem.members), most)
    return JointUnsolved(most=most, message=message)


def _apart(count: int, most: int) -> str:
    if count == 1:
        return "it has a place by itself, but not with the members placed before"
    return f"each of {count} members has a place by itself, but at most {most} {'has' if most == 1 else 'have'} room together"


def _together(
    problem: JointProblem, required: Sequence[GangConstraint], snapshot: Snapshot, work: Work, most: int
) -> str:
    """Why members that fit one by one do not fit together: what would have to be dropped. Raises Stopped."""
    count, topology = len(problem.members), problem.topology
    head = "it has a place by itself" if count == 1 else f"each of {count} members has a place by itself"
    if required and _run(problem, (), snapshot, work)[0] is not None:
        names = ", ".join(
            f"{'distinctAttribute' if item.distinct else 'matchAttribute'} {item.attributes[0]}" for item in required
        )
        return f"{head}, but not under the group's constraints ({names})"
    if topology is not None and topology.mode == "Same" and _run(problem, required, snapshot, work, loose=True)[0]:
        most_text = "" if count == 1 else f" for all of them (at most {most})"
        if topology.present and count == 1:
            return f"{head}, but not under the group's value of node label {topology.key}"
        return f"{head}, but no value of node label {topology.key} has room{most_text}"
    return _apart(count, most)


__all__ = [
    "GangConstraint",
    "JointProblem",
    "JointResult",
    "JointSolved",
    "JointUnsolved",
    "Member",
    "NodeTopology",
    "solve_jointly",
]
