"""Changes that may let a gang start: of what its members ask for, of the group itself, and others going.

Proposals only, as in `changes`; whether one helps is found out by solving the joint problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dra_operator.allocator.joint import GangConstraint, JointProblem
from dra_operator.explain.bench import Bench
from dra_operator.explain.changes import Change
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import COPIES, Edit
from dra_operator.explain.joining import claims_by_member
from dra_operator.explain.looking import Look, Place
from dra_operator.explain.nearest import by_distance
from dra_operator.explain.releases import Release, by_mildness, holders_on, mildest
from dra_operator.explain.situation import Gang, Holding, Waiver

#: As in `engine.names`, which layers below must not import.
GROUP_LABEL = "dra-operator.dev/claim-group"
#: Values of the group's node label on which others are made to go.
_DOMAINS = 6
#: Holders in one domain that are taken into account.
_HOLDERS = 32


@dataclass(frozen=True, slots=True)
class Sort:
    """Members that are alike (numbers), and the look at one of them."""

    members: tuple[int, ...]
    look: Look


def for_all(change: Change, gang: Gang, sort: Sort, total: int) -> Change:
    """A change of one member, made to all that are alike."""
    text = change.text if total == 1 or change.kind == "node" else f"{change.text}, for {_whom(gang, sort, total)}"

    def apply(draft: Draft) -> Draft | None:
        claims, pods = list(draft.problem.claims), dict(draft.pods)
        shared = draft
        ranges = claims_by_member(gang)
        for number in sort.members:
            own = gang.members[number]
            mine = tuple(claims[index] for index in ranges[number])
            changed = change.apply(
                replace(shared, problem=replace(own.problem, claims=mine), pod=pods.get(number, own.pod))
            )
            if changed is None or changed.problem.constraints != own.problem.constraints:
                return None
            for index, claim in zip(ranges[number], changed.problem.claims, strict=True):
                claims[index] = claim
            if changed.pod is not None and changed.pod is not own.pod:
                pods[number] = changed.pod
            shared = changed
        edits: list[Edit] = []
        for edit in shared.edits:
            if edit not in edits:
                edits.append(edit)
        problem = replace(draft.problem, claims=tuple(claims))
        return replace(shared, problem=problem, pod=draft.pod, pods=pods, edits=tuple(edits))

    return replace(change, text=text, apply=apply)


def _whom(gang: Gang, sort: Sort, total: int) -> str:
    if len(sort.members) == total:
        return f"each of the {total} members"
    if len(sort.members) == 1:
        return gang.members[sort.members[0]].subject
    return f"{len(sort.members)} of the {total} members"


# -- the group itself


def group_changes(gang: Gang, most: int) -> Iterator[Change]:
    """`most`: members that have room together."""
    if gang.missing:
        yield _apart(gang)
    if not gang.group:
        yield from _given_up(gang)
        return
    group = f"ClaimGroup {gang.group}"
    total = gang.served + len(gang.members)
    if gang.needed > total:
        yield _fewer(gang, len(gang.members))
    for count in range(min(most, len(gang.members) - 1), 0, -1):
        if gang.served + count < gang.needed:
            yield _fewer(gang, count)
    topology = gang.joint.topology
    if topology is not None and topology.mode != "Prefer":
        yield Change(
            "constraint",
            f"let {group} prefer one {topology.key} only (topology.mode: Prefer)",
            partial(_preferring, gang=gang, edit=Edit(group, "spec.topology.mode", "Prefer")),
            "group/topology",
            0.5,
        )
    yield from _given_up(gang)


def _fewer(gang: Gang, count: int) -> Change:
    least = gang.served + count
    total = gang.served + len(gang.members)
    those = "the members that are there" if count == len(gang.members) else f"{least} of its {total} members"
    edit = Edit(f"ClaimGroup {gang.group}", "spec.minMembers", least)

    def apply(draft: Draft) -> Draft:
        joint = draft.joint or gang.joint
        return replace(
            draft,
            joint=replace(joint, members=joint.members[:count], constraints=_among(joint, count)),
            least=least,
            edits=(*draft.edits, edit),
        )

    size = (gang.needed - least) / max(gang.needed, 1)
    return Change(
        "count", f"let ClaimGroup {gang.group} start with {those}: minMembers {least}", apply, "group/members", size
    )


def _apart(gang: Gang) -> Change:
    """Without the group that does not exist."""
    pods = [member.pod for member in gang.members if member.pod is not None]
    edits = [Edit(f"Pod {pod.key}", f"metadata.labels[{GROUP_LABEL}]", None) for pod in pods]
    edits += [
        Edit(f"ResourceClaim {claim.key}", f"metadata.labels[{GROUP_LABEL}]", None)
        for member in gang.members
        if member.pod is None
        for claim in member.problem.claims
    ]
    text = f"create ClaimGroup {gang.missing}, or take the label {GROUP_LABEL} off its members"
    return Change(
        "strategy",
        text,
        lambda draft: replace(draft, least=0, edits=(*draft.edits, *edits)),
        "group/missing",
    )


def _among(joint: JointProblem, count: int) -> tuple[GangConstraint, ...]:
    return tuple(
        replace(item, members=tuple(each for each in item.members if each[0] < count)) for item in joint.constraints
    )


def _preferring(draft: Draft, *, gang: Gang, edit: Edit) -> Draft:
    joint = draft.joint or gang.joint
    assert joint.topology is not None
    loose = replace(joint.topology, mode="Prefer")
    return replace(draft, joint=replace(joint, topology=loose), edits=(*draft.edits, edit))


def _given_up(gang: Gang) -> Iterator[Change]:
    for number, (item, waiver) in enumerate(zip(gang.joint.constraints, gang.waivers, strict=False)):
        if item.required and waiver is not None:
            yield Change(
                "constraint",
                waiver.text,
                partial(_without, gang=gang, waiver=waiver, number=number),
                f"group/{number}/drop",
                1.0,
            )


def _without(draft: Draft, *, gang: Gang, waiver: Waiver, number: int) -> Draft:
    joint = draft.joint or gang.joint
    kept = tuple(item for at, item in enumerate(joint.constraints) if at != number)
    return replace(draft, joint=replace(joint, constraints=kept), edits=(*draft.edits, waiver.edit))


# -- others going


def gang_releases(gang: Gang, sorts: Sequence[Sort], bench: Bench) -> list[Release]:
    """The fewest that have to go, of the mildest kind, anywhere the members could be."""
    best: dict[str, Release] = {}
    for places in _domains(gang, sorts):
        look = sorts[0].look
        where: dict[tuple[str, ...], str] = {}
        holders: dict[tuple[str, ...], Holding] = {}
        for place in places:
            for holding in holders_on(look, place.record):
                if len(holders) < _HOLDERS:
                    holders.setdefault(holding.claims, holding)
                    where.setdefault(holding.claims, place.record.name)
        everyone = list(holders.values())
        if not everyone or bench.left <= 0 or bench.fits(_gone(bench.start, everyone)) is None:
            continue
        for kind, allowed in by_mildness(look.situation, everyone):
            chosen = _fewest(bench, allowed)
            if chosen:
                nodes = tuple(sorted({where[holding.claims] for holding in chosen}))
                release = Release(kind, nodes, tuple(chosen))
                if kind not in best or release.rank < best[kind].rank:
                    best[kind] = release
    return mildest(best)


def _gone(start: Draft, holders: Sequence[Holding]) -> Draft:
    return Release("free", (), tuple(holders)).draft(start)


def _fewest(bench: Bench, holders: list[Holding]) -> list[Holding]:
    """As few as will do, the first in order rather than the last; nobody where even all of them do not, or that takes too long."""
    if not holders or bench.fits(_gone(bench.start, holders)) is None:
        return []
    low, high = 1, len(holders)
    while low < high:
        middle = (low + high) // 2
        if bench.fits(_gone(bench.start, holders[:middle])) is None:
            low = middle + 1
        else:
            high = middle
    chosen = holders[:high]
    for holder in list(chosen):
        rest = [other for other in chosen if other is not holder]
        if rest and bench.left > 0 and bench.fits(_gone(bench.start, rest)) is not None:
            chosen = rest
    return chosen


def _domains(gang: Gang, sorts: Sequence[Sort]) -> Iterator[list[Place]]:
    """Nodes on which members may be together, the nearest first: all of them, or those under one value of the group's node label."""
    topology = gang.joint.topology
    limit = len(gang.members) + 2
    found: dict[str | None, dict[str, Place]] = {}
    for sort in sorts:
        for place in by_distance(sort.look):
            if place.misfit is not None and not place.misfit.resource:
                continue
            value = None
            if topology is not None and topology.mode == "Same":
                value = topology.value(place.record.name)
                if value is None:
                    continue
            nodes = found.setdefault(value, {})
            if len(nodes) < limit * len(sorts):
                nodes.setdefault(place.record.name, place)
    for nodes in list(found.values())[:_DOMAINS]:
        yield list(nodes.values())


# -- more nodes


def more_nodes(gang: Gang, sort: Sort, most: int, bench: Bench) -> tuple[Change, Draft] | None:
    """So many more nodes like one there is that those members fit on them that have no room now. Only where nothing ties members
    together, so that what holds for one new node holds for each."""
    joint = gang.joint
    spread = joint.topology is not None and joint.topology.mode != "Prefer"
    tied = spread or joint.constraints or bench.ahead or bench.situation.permits is not None
    if tied or gang.lacking(len(gang.members), None) or len(sort.members) != len(gang.members):
        return None
    found = bench.members_on_empty(len(gang.members) - most)
    if found is None:
        return None
    node, each = found
    count = -(-(len(gang.members) - most) // each)
    text = f"add a node like {node}" if count == 1 else f"add {count} nodes like {node}"
    draft = replace(bench.start, another_node=True, edits=(Edit(f"Node {node}", COPIES, count),))
    return Change("new node", text, lambda _: draft, "new node", float(count)), draft
