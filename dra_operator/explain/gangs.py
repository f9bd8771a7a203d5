"""Explanations of gangs: which member has no place even by itself, or what keeps them from having places together.

The counts are of members that are alike, one for all; fixes are changes of all of them, of the group, or of others, each solved jointly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from dra_operator.allocator import Failed, trial
from dra_operator.allocator.joint import JointProblem, JointSolved, JointUnsolved, Member, solve_jointly
from dra_operator.explain.bench import Bench, Effort
from dra_operator.explain.causes import by_constraints, by_releases, causes_of
from dra_operator.explain.changes import Asked, Change
from dra_operator.explain.conjuncts import kinds_of, terms_of
from dra_operator.explain.constraintchanges import constraint_changes
from dra_operator.explain.devicechanges import device_changes
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import Cause, NearNode, RequestExplanation, counted, on_nodes
from dra_operator.explain.fixes import Found, find_fixes, outranking, relaxing
from dra_operator.explain.gangchanges import Sort, for_all, gang_releases, group_changes, more_nodes
from dra_operator.explain.joining import joined
from dra_operator.explain.looking import Look
from dra_operator.explain.nearest import by_distance, nearest
from dra_operator.explain.podchanges import pod_changes
from dra_operator.explain.releases import within_quota
from dra_operator.explain.requests import requests_of
from dra_operator.explain.selectorchanges import selector_changes
from dra_operator.explain.situation import Gang, Situation

#: Sorts of members that are looked at; members of one sort are alike.
_SORTS = 4
_NEAREST = 5
#: Nodes, or values of the group's node label, of which it is told how many members have room there.
_DOMAINS_SOLVED = 64


@dataclass(frozen=True, slots=True)
class Findings:
    """What is found out about a gang, before it is put in order."""

    requests: tuple[RequestExplanation, ...]
    causes: tuple[Cause, ...]
    nodes: tuple[NearNode, ...]
    more_nodes: int
    found: tuple[Found, ...]
    looks: tuple[Look, ...]


def look_at_gang(situation: Situation, effort: Effort | None) -> Findings | Failed:
    """Failed: a member's claim or class is wrong."""
    gang = situation.gang
    assert gang is not None
    start = Draft(situation.problem, None)
    # Before anything is looked at: plans may have the inventory tell devices apart by more attributes.
    joint = joined(gang, gang.joint, start.problem, start.pods, start.uncordoned, start.gone)
    answer = solve_jointly(joint, situation.snapshot)
    if isinstance(answer, Failed):
        return answer
    sorts = _sorts(situation, gang)
    if isinstance(sorts, Failed):
        return sorts
    kinds = kinds_of(sorts[0].look.inventory)
    terms = [[terms_of(way, kinds) for way in sort.look.plan.ways] for sort in sorts]
    requests = tuple(
        replace(item, members=len(sort.members))
        for sort, of in zip(sorts, terms, strict=True)
        for item in requests_of(sort.look, of)
    )
    alone = answer.alone[0] if isinstance(answer, JointUnsolved) and answer.alone is not None else None
    troubled = [sort for sort in sorts if alone is None or alone in sort.members] or sorts
    most = len(gang.members) if isinstance(answer, JointSolved) else answer.most
    nodes, more = nearest(troubled[0].look, _NEAREST)
    if len(gang.members) > 1 and alone is None:
        nodes, more = _rooms(gang, [sort.look for sort in sorts], joint, situation), 0
    causes = () if isinstance(answer, JointSolved) else tuple(_causes(gang, troubled, requests, answer, effort))
    found: list[Found] = []
    if effort is not None:
        bench = Bench(situation, None, effort)
        fits = bench.fits(bench.start)
        if fits is not None:
            where = on_nodes(fits.nodes) if fits.nodes else "any node"
            causes, nodes, more = (Cause("fits", f"nothing keeps its devices from it: it fits {where}"),), (), 0
        else:
            if isinstance(answer, JointSolved):
                nodes, more = (), 0
            changes = [
                for_all(change, gang, sort, len(gang.members))
                for sort, of in zip(sorts, terms, strict=True)
                if sort in troubled
                for change in _of_member(sort.look, Asked(sort.look, of, kinds, learn=effort.learn))
            ]
            changes += group_changes(gang, most)
            freed = [] if isinstance(answer, JointSolved) else gang_releases(gang, troubled, bench)
            if situation.blocker is not None and situation.blocker.reason == "QuotaExceeded":
                freed += within_quota(bench, situation.quota_users())
            found = find_fixes(bench, None, changes, [release.change(situation) for release in freed], pairs=True)
            placed = bench.without_budgets()
            if placed is not None:
                found = sorted([*found, *relaxing(bench, placed)], key=lambda item: item.cost)
            grown = more_nodes(gang, sorts[0], most, bench)
            if grown is not None:
                found.append(Found.of(situation, *grown))
            causes = (*by_releases(troubled[0].look, freed, {item.fix.kind for item in found}), *causes)
    return Findings(requests, causes, nodes, more, tuple(found), tuple(sort.look for sort in sorts))


def _sorts(situation: Situation, gang: Gang) -> list[Sort] | Failed:
    numbers: dict[Hashable, list[int]] = {}
    for number, member in enumerate(gang.joint.members):
        numbers.setdefault(member.sort, []).append(number)
    sorts = []
    for members in sorted(numbers.values(), key=lambda members: gang.focus not in members)[:_SORTS]:
        own = gang.members[gang.focus if gang.focus in members else members[0]]
        asked = trial(own.problem, situation.snapshot)
        if isinstance(asked, Failed):
            return asked
        sorts.append(Sort(tuple(members), Look(own, asked)))
    return sorts


def _of_member(look: Look, ground: Asked) -> Iterator[Change]:
    yield from selector_changes(ground)
    yield from device_changes(ground)
    yield from constraint_changes(ground)
    yield from pod_changes(look, look.trial)
    yield from outranking(look)


def _tied_down(gang: Gang) -> str:
    names = ", ".join(
        f"{'distinctAttribute' if item.distinct else 'matchAttribute'} {item.attributes[0]}"
        for item in gang.joint.constraints
    )
    return f"constraints across its claims ({names}) tie it to the devices that it has already, and there are no others for them"


def _causes(
    gang: Gang,
    troubled: list[Sort],
    requests: tuple[RequestExplanation, ...],
    answer: JointUnsolved,
    effort: Effort | None,
) -> Iterator[Cause]:
    if answer.alone is None:
        yield Cause("together", answer.message if gang.group else _tied_down(gang))
        return
    for sort in troubled:
        look = sort.look
        claims = {str(claim.key) for claim in look.situation.problem.claims}
        if effort is not None:
            yield from by_constraints(look, Bench(look.situation, look, effort))
        yield from causes_of(look, tuple(item for item in requests if item.claim in claims), look.trial)


def _rooms(gang: Gang, looks: list[Look], joint: JointProblem, situation: Situation) -> tuple[NearNode, ...]:
    """Where how many of the members have room: on single nodes, or under each value of the node label that all must share."""
    topology = joint.topology
    domains: dict[str, list[str]] = {}
    if topology is not None and topology.mode == "Same":
        for name in sorted(situation.snapshot.inventory.nodes):
            value = topology.value(name)
            if value is not None:
                domains.setdefault(f"{topology.key}={value}", []).append(name)
    else:
        domains = {place.record.name: [place.record.name] for look in looks for place in by_distance(look)}
    alike: dict[object, int] = {}
    rooms: dict[tuple[int, str], list[str]] = {}
    places = {place.record.name: place for place in looks[0].places}
    for text, names in list(domains.items())[:_DOMAINS_SOLVED]:
        place = places.get(text)
        misfit = "" if place is None or place.misfit is None else place.misfit.text()
        key = text if place is None else (id(place.spot), misfit)
        if key not in alike:
            within = tuple(_within(member, set(names)) for member in joint.members)
            answer = solve_jointly(replace(joint, members=within), situation.snapshot)
            most = len(within) if isinstance(answer, JointSolved) else 0 if isinstance(answer, Failed) else answer.most
            alike[key] = most
        rooms.setdefault((alike[key], misfit), []).append(text)
    total = counted(len(joint.members), "member")
    return tuple(
        NearNode(tuple(names[:_NEAREST]), len(names), (f"room for {most} of {total}{f': {misfit}' if misfit else ''}",))
        for (most, misfit), names in sorted(rooms.items(), key=lambda item: (-item[0][0], item[0][1]))
    )


def _within(member: Member, names: set[str]) -> Member:
    nodes = sorted(names) if member.problem.nodes is None else [name for name in member.problem.nodes if name in names]
    return replace(member, problem=replace(member.problem, nodes=nodes))
