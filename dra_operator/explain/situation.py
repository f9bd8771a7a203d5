"""What an explanation starts from: the unit's problem, the inventory at one instant, and who has, holds and keeps the devices.

Values and callbacks that the engine fills in; nothing here knows the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator import Problem
from dra_operator.allocator.joint import JointProblem
from dra_operator.api.claims import Allocation, ResourceClaim
from dra_operator.api.core import Pod
from dra_operator.explain.explanation import Edit
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId, Snapshot
from dra_operator.queue.nodefit import Misfit

#: Why a pod does not fit a node once the pods with these UIDs are gone, None if it does.
NodeFit = Callable[[Pod, str, frozenset[str]], Misfit | None]

#: Why these claims may not have these allocations once the claims with these UIDs are free, None if they may.
Permits = Callable[[Sequence[ResourceClaim], Sequence[Allocation], frozenset[str]], str | None]


@dataclass(frozen=True, slots=True)
class Holding:
    """Who has devices, and what goes with it if it goes: a pod with all its claims, several pods that share claims, or a claim.

    `name`: "pod default/a" or "claim default/a". `objects`: what to delete so that it goes, as `pod/NAMESPACE/NAME`. `claims`: UIDs of
    all claims released with it. `idle`: why nobody needs it ("its pod default/a has finished"), "" where somebody does.
    """

    name: str
    objects: tuple[str, ...]
    claims: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    priority: int = 0
    preemptible: bool = True
    idle: str = ""

    def __str__(self) -> str:
        if self.idle:
            return f"{self.name} ({self.idle})"
        return f"{self.name} (priority {self.priority}, {'' if self.preemptible else 'not '}preemptible)"


@dataclass(frozen=True, slots=True)
class Kept:
    """Devices kept for somebody else: held for a unit (`reserved` False), or reserved by a policy. `name` says for whom."""

    name: str
    reserved: bool = False
    priority: int | None = None


def nobody(_: str) -> None:
    return None


def nothing_relaxed(_: Sequence[ResourceClaim], __: Sequence[Allocation]) -> None:
    return None


def nobody_ahead(_: int) -> tuple[Ahead, ...]:
    return ()


def kept_for_nobody(_: DeviceId) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Ahead:
    """A unit before this one in the queue. `held`: devices set aside for it, free for others once it is served. `gang`: if it is one;
    `problem` has the claims of all its members then."""

    problem: Problem
    pod: Pod | None = None
    misfit: NodeFit | None = None
    held: frozenset[DeviceId] = frozenset()
    gang: Gang | None = None


@dataclass(frozen=True, slots=True)
class Waiver:
    """A constraint across claims that could be given up: in words, and as the edit that does it."""

    text: str
    edit: Edit


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Members that are placed together, each on a node of its own choice; or one that is tied to devices allocated already.

    `joint`: the problem as it is solved, but that the members' `fits` and `cost` and its `room` are not looked at: `members`, in the
    same order, and `together` (may these pods run on one node once the pods with these UIDs are gone?) stand in; `room_on_empty` is
    the same of a node like the one named on which nothing runs. `group`: namespace/name of the ClaimGroup, "" if there is none
    (`missing`: the one that the members name does not exist); it needs `needed` members, and has `served` besides those of the
    problem. `waivers`: by constraint of the joint problem. `focus`: the member that was asked about.
    """

    joint: JointProblem
    members: tuple[Situation, ...]
    together: Callable[[Sequence[Pod], str, frozenset[str]], bool]
    room_on_empty: Callable[[Sequence[Pod], str], bool]
    group: str = ""
    needed: int = 0
    served: int = 0
    missing: str = ""
    focus: int = 0
    waivers: tuple[Waiver | None, ...] = ()

    def lacking(self, members: int, least: int | None) -> bool:
        """Are so many members too few, if it needs only `least` (None: as many as it says)?"""
        if least is None:
            return bool(self.missing) or self.served + members < self.needed
        return self.served + members < least


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`problem`: as it is solved, but that `fits` and `cost` are not looked at: `pod` and `misfit` stand in (`pod` None: bare claims).

    `empty_misfit`: why the pod would not fit an empty node like the one named. `elsewhere`: why other nodes than `problem.nodes` are
    out of the question. `subject`: "pod default/a". `origins`: the object to edit for each claim, such as
    "ResourceClaimTemplate default/gpu". `holding`: by claim UID; `kept`: by device, of those in `problem.forbidden`. `permits`: what
    budgets say (None: there are none); `quota_users`: who else is counted to the unit's quotas. `ahead`: the first so many units before
    it that want some of the same devices, in order. `blocker`: what the unit itself says it waits for. `relaxed`: the change of the one
    budget that forbids these allocations. `behind_for_quota`: others before it wait for the quota that it waits for. `waivers`: by
    constraint across the claims (the first of `problem.constraints`; what the policy prefers comes after them). `wrong`: the pod's
    annotation about constraints cannot be followed; what takes it away. `gang`: where there are members to be placed together;
    `problem` has the claims of all of them then, one member after the other, and no pod. `unmade`: by name of a DeviceClass that a
    NetworkDeviceClass should have made, what that says instead. `anew`: of a pod that was bound without its devices, the pod as it would be
    made anew, which may go elsewhere.
    """

    problem: Problem
    snapshot: Snapshot
    elsewhere: str = "the unit is tied to another node"
    subject: str = ""
    origins: tuple[str, ...] = ()
    priority: int = 0
    pod: Pod | None = None
    misfit: NodeFit | None = None
    empty_misfit: Callable[[Pod, str], Misfit | None] | None = None
    holding: Callable[[str], Holding | None] = nobody
    kept: Callable[[DeviceId], Kept | None] = kept_for_nobody
    permits: Permits | None = None
    quota_users: Callable[[], Sequence[Holding]] = tuple
    ahead: Callable[[int], Sequence[Ahead]] = nobody_ahead
    blocker: Blocker | None = None
    relaxed: Callable[[Sequence[ResourceClaim], Sequence[Allocation]], Waiver | None] = nothing_relaxed
    behind_for_quota: bool = False
    waivers: tuple[Waiver | None, ...] = ()
    unmade: Mapping[str, str] = field(default_factory=dict)
    wrong: Waiver | None = None
    gang: Gang | None = None
    anew: Pod | None = None

    def origin(self, claim: int) -> str:
        """The object to edit for a claim of the problem."""
        if claim < len(self.origins):
            return self.origins[claim]
        return f"ResourceClaim {self.problem.claims[claim].key}"

    def misfit_of(self, node: str) -> Misfit | None:
        """Why the unit cannot run on a node, whatever devices it has."""
        if self.problem.nodes is not None and node not in self.problem.nodes:
            return Misfit(self.elsewhere)
        if self.pod is None or self.misfit is None:
            return None
        return self.misfit(self.pod, node, NONE_GONE)


NONE_GONE: frozenset[str] = frozenset()
