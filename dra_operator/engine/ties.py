"""What goes together: claims and pods tied to each other by sharing, and the holder they make for the choice of victims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.evicting import as_victim
from dra_operator.engine.pods import priority_of_claim, priority_of_pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holders import Holder, Spare


@dataclass(frozen=True, slots=True)
class Standing:
    """What policies and PriorityClasses say of one claim, as far as its holder shows it."""

    priority: int
    preemptible: bool


def standing_of(state: State, seen: SeenClaim) -> Standing:
    return Standing(priority_of_claim(seen, state), state.terms_of(seen)[1].preemptible)


@dataclass(slots=True)
class Tied:
    """Allocated claims and the pods that use them, by UID: all of them go, or none."""

    claims: dict[str, SeenClaim] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def add(self, other: Tied) -> None:
        self.claims.update(other.claims)
        self.pods.update(other.pods)


def tie(state: State, seen: SeenClaim) -> Tied:
    """Everything that is tied to this claim by sharing."""
    found = Tied({seen.uid: seen})
    todo = [seen]
    while todo:
        for pod in users(state, todo.pop()):
            if pod.meta.uid in found.pods:
                continue
            found.pods[pod.meta.uid] = pod
            for key in state.view.claim_keys(pod):
                other = state.view.claims.get(key)
                if other is not None and other.allocated and other.uid not in found.claims:
                    found.claims[other.uid] = other
                    todo.append(other)
    return found


def users(state: State, seen: SeenClaim) -> list[Pod]:
    """Pods that have the claim reserved and are not done."""
    found = (state.view.pod_by_uid(consumer.uid) for consumer in seen.claim.reserved_for)
    return [pod for pod in found if pod is not None and not pod.terminal]


def groups_of(state: State, tied: Tied) -> tuple[Key, ...]:
    """The ClaimGroups whose members are among them."""
    named = [state.groups.of("pod", pod.key) for pod in tied.pods.values()]
    named += [state.groups.of("claim", seen.key) for seen in tied.claims.values() if not users(state, seen)]
    return tuple(dict.fromkeys(key for key in named if key is not None and state.groups.get(key) is not None))


def being_written(state: State, tied: Tied) -> str | None:
    """The first of them (UID) on which a write is under way."""
    return next((uid for uid in (*tied.claims, *tied.pods) if state.writes.get(uid) is not None), None)


def make_holder(
    state: State,
    tied: Tied,
    uid: str,
    *,
    spares: tuple[tuple[Spare, int], ...] = (),
    repeats: bool = False,
) -> tuple[Holder, list[str | None]]:
    """The holder, and of each of its devices the one node that it belongs to."""
    devices = [device for seen in tied.claims.values() for device in _devices(seen)]
    first = min(seen.key for seen in tied.claims.values())
    holder = Holder(
        key=first if not tied.pods else min(pod.key for pod in tied.pods.values()),
        uid=uid,
        claims=tuple(tied.claims),
        pods=tuple(map(as_victim, tied.pods.values())),
        priority=_priority(state, tied),
        since=_since(tied),
        devices=len(devices),
        preemptible=_may_go(state, tied),
        spares=spares,
        repeats=repeats,
    )
    offers = map(state.inventory.offer, devices)
    return holder, [None if offer is None else offer.home for offer in offers]


def _devices(seen: SeenClaim) -> list[DeviceId]:
    results = () if seen.claim.allocation is None else seen.claim.allocation.results
    return [DeviceId(result.driver, result.pool, result.device) for result in results if not result.admin_access]


def _priority(state: State, tied: Tied) -> int:
    seen = list(tied.claims.values())
    idle = [priority_of_claim(each, state) for each in seen if not users(state, each)]
    return max([*idle, *(priority_of_pod(pod, seen, state) for pod in tied.pods.values())])


def _since(tied: Tied) -> float:
    started = [pod.started or pod.meta.created or 0.0 for pod in tied.pods.values()]
    allocated = [seen.claim.allocation.timestamp or 0.0 for seen in tied.claims.values() if seen.claim.allocation]
    return min(started or allocated, default=0.0)


def _may_go(state: State, tied: Tied) -> bool:
    """All of it is ours and may be preempted, and nothing of it is on its way already."""
    for seen in tied.claims.values():
        if not seen.managed or state.writes.get(seen.uid) is not None or not state.terms_of(seen)[1].preemptible:
            return False
        if len(users(state, seen)) < len(seen.claim.reserved_for):
            return False  # a user that is done, or not a pod: it is being freed, or not ours to end
    return all(
        pod.node_name is not None and pod.meta.deleted is None and state.writes.get(pod.meta.uid) is None
        for pod in tied.pods.values()
    )


def names_of(holders: Iterable[Holder]) -> tuple[str, ...]:
    """Everybody who goes: pods, and claims that no pod uses."""
    found: list[str] = []
    for holder in holders:
        found += [f"pod {pod}" for pod in holder.pods] or [str(holder)]
    return tuple(found)
