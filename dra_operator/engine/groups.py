"""The roll of a ClaimGroup: which of its members are there, which of them have their devices.

Read off what the watches have shown, so that a restart changes nothing. What follows from it is `gangs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.api.group import ClaimGroup
from dra_operator.api.meta import Key
from dra_operator.engine.ages import since
from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.engine.membership import Standing, is_bare, is_ours, membership
from dra_operator.engine.names import GATE
from dra_operator.engine.pods import priority_of_claim, priority_of_pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.queue.units import UnitKey


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A pod with its claims in order, or a bare claim (`pod` None)."""

    pod: Pod | None
    claims: tuple[Key, ...]
    created: float
    priority: int
    uid: str

    @property
    def gated(self) -> bool:
        """It has not been let go yet. A bare claim has nothing to be let go."""
        return self.pod is None or GATE in self.pod.gates

    @property
    def bound(self) -> bool:
        return self.pod is not None and self.pod.node_name is not None

    @property
    def unit(self) -> UnitKey:
        """The unit it is by itself."""
        return UnitKey("claim", self.claims[0]) if self.pod is None else UnitKey("pod", self.pod.key)

    def __str__(self) -> str:
        return f"claim {self.claims[0]}" if self.pod is None else f"pod {self.pod.key}"


@dataclass(frozen=True, slots=True)
class Roll:
    """Members in the order in which they are served: highest priority, then oldest, then UID.

    `placed`: all their claims are allocated, by the watch, and stay so. `waiting`: the others that could be placed. `absent`: why
    further ones do not count yet. `done`: pods that finished beside others of their controller; they had their devices. `writing`:
    allocations of the group's unit are under way, or some of its devices are being taken back. `due`: when a claim will be old enough
    to count.
    """

    key: Key
    group: ClaimGroup | None
    placed: tuple[GroupMember, ...]
    waiting: tuple[GroupMember, ...]
    absent: tuple[str, ...]
    done: int
    writing: bool
    due: float | None

    @property
    def needed(self) -> int:
        return 0 if self.group is None else self.group.spec.min_members

    @property
    def present(self) -> int:
        return len(self.placed) + len(self.waiting) + self.done

    @property
    def complete(self) -> bool:
        """Are there enough members to be placed?"""
        return self.present >= self.needed

    @property
    def established(self) -> bool:
        """Have enough of them their devices? Then others come and go one by one."""
        return self.group is not None and len(self.placed) + self.done >= self.needed

    @property
    def spare(self) -> int:
        """How many of those with devices may go before the others must go too."""
        return max(0, len(self.placed) + self.done - self.needed)

    @property
    def least(self) -> tuple[Key, ...]:
        """The claims of the first members that wait, up to `minMembers`."""
        members = self.waiting[: max(self.needed - len(self.placed) - self.done, 1)]
        return tuple(dict.fromkeys(claim for member in members for claim in member.claims))

    @property
    def count(self) -> str:
        text = f"{self.present} of {self.needed} members"
        return f"{text} ({'; '.join(self.absent[:3])})" if self.absent else text


def call_roll(state: State, key: Key, now: float) -> Roll:
    """How the group stands now."""
    placed: list[GroupMember] = []
    waiting: list[GroupMember] = []
    absent: list[str] = []
    due: list[float] = []
    finished: list[Pod] = []
    users: set[Key] = set()
    for pod_key in state.groups.members(key, "pod"):
        pod = state.view.pods.get(pod_key)
        if pod is None:
            continue
        found = membership(pod, state.view)
        users.update(found.claims)
        if found.standing is Standing.GONE and pod.phase == "Succeeded":
            finished.append(pod)
        elif found.standing is Standing.GATED_BY_OTHERS:
            absent.append(f"pod {pod.key} is held by another scheduling gate")
        elif found.standing is Standing.INCOMPLETE:
            absent.append(f"pod {pod.key}: {found.missing}")
        elif found.standing in (Standing.PLACE, Standing.BOUND, Standing.REPAIR) and is_ours(pod):
            seen = [state.view.claims[each] for each in found.claims if each in state.view.claims]
            member = GroupMember(
                pod, found.claims, pod.meta.created or now, priority_of_pod(pod, seen, state), pod.meta.uid
            )
            # A bound pod runs, whatever becomes of its claims: these are repaired where it is.
            lacking = any(each.managed and (not each.allocated or _given_up(state, each)) for each in seen)
            (waiting if lacking and not member.bound else placed).append(member)
    for claim_key in state.groups.members(key, "claim"):
        claim = state.view.claims.get(claim_key)
        if claim is None or claim_key in users:
            continue
        own_since = _bare_since(claim, state, now)
        if own_since is None:
            continue
        if not claim.allocated and own_since + state.settings.bare_claim_age > now:
            due.append(own_since + state.settings.bare_claim_age)
            absent.append(f"claim {claim_key} is new")
            continue
        created = claim.claim.meta.created or now
        member = GroupMember(None, (claim_key,), created, priority_of_claim(claim, state), claim.uid)
        (placed if claim.allocated and not _given_up(state, claim) else waiting).append(member)
    return Roll(
        key=key,
        group=state.groups.get(key),
        placed=tuple(sorted(placed, key=_order)),
        waiting=tuple(sorted(waiting, key=_order)),
        absent=tuple(absent),
        done=_done(finished, [*placed, *waiting]),
        writing=_writing(state, UnitKey("group", key), waiting),
        due=min(due, default=None),
    )


def _order(member: GroupMember) -> tuple[int, float, str]:
    return (-member.priority, member.created, member.uid)


def _bare_since(seen: SeenClaim, state: State, now: float) -> float | None:
    """Since when the claim is a member of its own; None if it is none: a pod's, or one that a pod uses before it has devices."""
    meta = seen.claim.meta
    if meta.deleted is not None or not seen.managed or any(owner.kind in ("Pod", "PodGroup") for owner in meta.owners):
        return None
    if not seen.allocated and not is_bare(seen, state.view):
        return None
    return since(seen, now)


def _done(finished: list[Pod], members: list[GroupMember]) -> int:
    """Finished pods count beside others of their controller: a new run of a job starts from none."""
    alive = {
        member.pod.meta.controller.uid
        for member in members
        if member.pod is not None and member.pod.meta.controller is not None
    }
    return sum(1 for pod in finished if pod.meta.controller is not None and pod.meta.controller.uid in alive)


def _given_up(state: State, seen: SeenClaim) -> bool:
    """Are its devices being taken back?"""
    write = state.writes.get(seen.uid)
    return (
        write is not None
        and not write.denied
        and isinstance(write.decision, WriteClaimStatus)
        and write.allocation is None
    )


def _writing(state: State, unit: UnitKey, waiting: list[GroupMember]) -> bool:
    claims = [state.view.claims[key] for member in waiting for key in member.claims if key in state.view.claims]
    writes = [state.writes.get(seen.uid) for seen in claims]
    return any(write is not None and write.unit == unit for write in writes) or any(
        seen.allocated and _given_up(state, seen) for seen in claims
    )
