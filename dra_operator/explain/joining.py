"""The joint problem of a gang with a draft's changes made: members' claims and pods, nodes opened, pods gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

from dra_operator.allocator import Problem
from dra_operator.allocator.joint import JointProblem
from dra_operator.api.core import Pod
from dra_operator.api.taints import Toleration
from dra_operator.explain.situation import Gang, Situation
from dra_operator.queue.nodefit import UNSCHEDULABLE


def open_to(uncordoned: Collection[str], pod: Pod, node: str) -> Pod:
    """The pod as an uncordoned node sees it: one that does not mind the cordon."""
    if node not in uncordoned:
        return pod
    exists = Toleration(UNSCHEDULABLE.key, "Exists", "", UNSCHEDULABLE.effect, None)
    return replace(pod, tolerations=(*pod.tolerations, exists))


def claims_by_member(gang: Gang) -> list[range]:
    """Which of the situation's claims each member brings along."""
    ends = accumulate((len(member.problem.claims) for member in gang.joint.members), initial=0)
    return [range(start, end) for start, end in pairwise(ends)]


def joined(
    gang: Gang,
    joint: JointProblem,
    problem: Problem,
    pods: Mapping[int, Pod],
    uncordoned: frozenset[str],
    gone: frozenset[str],
) -> JointProblem:
    """`joint`: the gang's own, or one with another topology, other constraints or fewer members. `problem`: with the claims of all
    members; `pods`: those that are changed, by member."""
    members = []
    for number, (member, own, claims) in enumerate(
        zip(joint.members, gang.members, claims_by_member(gang), strict=False)
    ):
        pod = pods.get(number, own.pod)
        changed = replace(
            member.problem,
            claims=tuple(problem.claims[index] for index in claims),
            fits=None if pod is None else _fits(own, pod, uncordoned, gone),
            cost=None,
            forbidden=problem.forbidden,
        )
        members.append(replace(member, problem=changed))

    def room(name: str, numbers: tuple[int, ...]) -> bool:
        there = (pods.get(number, gang.members[number].pod) for number in numbers)
        return gang.together([open_to(uncordoned, pod, name) for pod in there if pod is not None], name, gone)

    return replace(joint, members=tuple(members), room=room, work_budget=problem.work_budget)


def _fits(own: Situation, pod: Pod, uncordoned: frozenset[str], gone: frozenset[str]) -> Callable[[str], bool]:
    misfit = own.misfit
    known: dict[str, bool] = {}

    def fits(name: str) -> bool:
        if name not in known:
            known[name] = misfit is None or misfit(open_to(uncordoned, pod, name), name, gone) is None
        return known[name]

    return fits
