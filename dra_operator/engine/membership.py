"""Which pods and claims are ours to allocate for, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dra_operator.api.claims import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.names import DEFAULT_SCHEDULER, GATE, UNGATED_AT, USED_BY
from dra_operator.engine.view import SeenClaim, View


class Standing(Enum):
    """What a pod is to us."""

    FOREIGN = "never ours: exempt, older than the install, of another scheduler, or taken over by hand"
    LEAVE = "ours, but not to be placed by us: its gate goes at once"
    GATED_BY_OTHERS = "another scheduling gate still holds it"
    INCOMPLETE = "its claims are not all there yet"
    PLACE = "to be placed, or placed and not bound yet"
    BOUND = "bound to a node"
    REPAIR = "bound, but its claims are not allocated (any more): they are allocated on its node"
    GONE = "finished or being deleted"


@dataclass(frozen=True, slots=True)
class Membership:
    """`claims` are the pod's claims in order, complete for LEAVE, PLACE, REPAIR and BOUND. `missing` says what INCOMPLETE waits for."""

    standing: Standing
    claims: tuple[Key, ...] = ()
    missing: str = ""


def is_ours(pod: Pod) -> bool:
    """Gated by our policy, or ungated by us. The gate cannot be added later, so this is settled by the pod's first event."""
    return GATE in pod.gates or UNGATED_AT in pod.meta.annotations


def membership(pod: Pod, view: View) -> Membership:
    """How the pod stands now."""
    if pod.terminal or pod.meta.deleted is not None:
        return Membership(Standing.GONE)
    if pod.node_name is not None:
        used = tuple(dict.fromkeys(view.claim_keys(pod)))
        return Membership(Standing.REPAIR if is_ours(pod) and _lacks_devices(used, view) else Standing.BOUND, used)
    if not is_ours(pod):
        return Membership(Standing.FOREIGN)
    if pod.scheduling_group is not None:
        return Membership(Standing.LEAVE)
    if any(gate != GATE for gate in pod.gates):
        return Membership(Standing.GATED_BY_OTHERS)
    claims: list[Key] = []
    for state in view.pod_claims(pod):
        if state.needless:
            continue
        if state.key is None:
            return Membership(
                Standing.INCOMPLETE,
                missing=f"claim {state.name!r} has not been generated yet; that takes ResourceClaimTemplate {state.template} to exist",
            )
        seen = view.claims.get(state.key)
        if seen is None:
            return Membership(Standing.INCOMPLETE, missing=f"ResourceClaim {state.key} does not exist: create it")
        if seen.claim.meta.deleted is not None:
            return Membership(Standing.INCOMPLETE, missing=f"ResourceClaim {state.key} is being deleted")
        owner = seen.claim.meta.controller
        if owner is not None and owner.kind == "Pod" and owner.uid != pod.meta.uid:
            return Membership(
                Standing.INCOMPLETE, missing=f"ResourceClaim {state.key} belongs to another pod ({owner.name})"
            )
        if state.key not in claims:
            claims.append(state.key)
    if not any(view.claims[key].managed for key in claims):
        return Membership(Standing.LEAVE, tuple(claims))
    return Membership(Standing.PLACE, tuple(claims))


def _lacks_devices(claims: tuple[Key, ...], view: View) -> bool:
    """Clearing an allocation can cross with kube-scheduler's binding; the kubelet then waits for the claim."""
    seen = [view.claims.get(key) for key in claims]
    complete = [each for each in seen if each is not None and each.claim.meta.deleted is None]
    return len(complete) == len(claims) and any(each.managed and not each.allocated for each in complete)


def is_only_for(seen: SeenClaim, pod: Pod) -> bool:
    """Whether its devices were allocated for this pod, and nobody else uses them."""
    users = {consumer.uid for consumer in seen.claim.reserved_for}
    return seen.managed and seen.allocated and users == {pod.meta.uid}


def is_early(seen: SeenClaim, view: View) -> bool:
    """Whether it got its devices as a bare claim, and the pods that use it have come since and wait.

    What ties its devices to those of other claims was not known then. An allocation that is made for a pod reserves it.
    """
    if not seen.managed or not seen.allocated or seen.claim.reserved_for:
        return False
    users = [pod for pod in view.pods_of_claim(seen.key) if not pod.terminal and pod.meta.deleted is None]
    return bool(users) and all(GATE in pod.gates for pod in users)


def abandoned_by(seen: SeenClaim, view: View) -> Pod | None:
    """The waiting pod that a claim with devices was generated for, where the pod names another one by now.

    kube-controller-manager generates a claim again when it has not seen its first one yet (it died in between, or the API server did),
    and may come back to the first later. What nobody names, nobody uses; a bound pod's kubelet may.
    """
    claim, owner = seen.claim, seen.claim.meta.controller
    if not seen.managed or not seen.allocated or owner is None or owner.kind != "Pod":
        return None
    pod = view.pod_by_uid(owner.uid)
    if pod is None or pod.node_name is not None or pod.terminal or pod.meta.deleted is not None:
        return None
    if EXTENDED_RESOURCE_CLAIM in claim.meta.annotations or any(user.uid != owner.uid for user in claim.reserved_for):
        return None
    named = [state.key for state in view.pod_claims(pod) if not state.needless]
    return None if None in named or seen.key in named else pod


def is_bare(seen: SeenClaim, view: View) -> bool:
    """A managed claim that no pod has used yet and none refers to.

    kube-controller-manager strips the finalizer of a claim it frees, in a second request after the one that frees it;
    `used-by` is set by whoever restores it.
    """
    meta = seen.claim.meta
    return (
        seen.managed
        and meta.deleted is None
        and DELETE_PROTECTION in meta.finalizers
        and USED_BY not in meta.annotations
        and seen.uid not in view.used
        and EXTENDED_RESOURCE_CLAIM not in meta.annotations
        and not any(owner.kind in ("Pod", "PodGroup") for owner in meta.owners)
        and not any(not pod.terminal and pod.meta.deleted is None for pod in view.pods_of_claim(seen.key))
    )


def is_stray(seen: SeenClaim, view: View) -> str | None:
    """Why a managed, unallocated claim is not ours after all and loses the label; None if it stays.

    Claims of pods that are kube-scheduler's would otherwise never be allocated: the guard keeps kube-scheduler away from them.
    """
    meta = seen.claim.meta
    if not seen.managed or seen.allocated or meta.deleted is not None:
        return None
    for owner in meta.owners:
        if owner.kind == "PodGroup":
            return f"it belongs to PodGroup {owner.name}, whose claims kube-scheduler allocates"
        if owner.kind == "Pod":
            pod = view.pod_by_uid(owner.uid)
            if pod is not None and pod.meta.deleted is None and not is_ours(pod):
                return _why_foreign(pod)
            if pod is not None and pod.scheduling_group is not None:
                return f"pod {pod.key} is scheduled as part of group {pod.scheduling_group}"
            return None
    users = [pod for pod in view.pods_of_claim(seen.key) if not pod.terminal and pod.meta.deleted is None]
    if users and not any(is_ours(pod) for pod in users):
        return _why_foreign(users[0])
    return None


def _why_foreign(pod: Pod) -> str:
    if pod.scheduler_name != DEFAULT_SCHEDULER:
        return f"pod {pod.key} is scheduled by {pod.scheduler_name}"
    if pod.node_name is not None:
        return f"pod {pod.key} was created with or bound to node {pod.node_name} without the operator"
    return f"pod {pod.key} is kube-scheduler's: it was created without the operator's scheduling gate"


def owner_key(pod: Pod) -> str:
    """Under which name avoided nodes are kept: the controller's, so that they outlive the pod; a StatefulSet's per pod."""
    controller = pod.meta.controller
    if controller is None:
        return f"Pod/{pod.meta.uid}"
    if controller.kind == "StatefulSet":
        return f"StatefulSet/{controller.uid}/{pod.meta.name}"
    return f"{controller.kind}/{controller.uid}"
