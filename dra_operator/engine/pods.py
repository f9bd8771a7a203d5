"""What is done to pods, and what is read off them: the ungating patch, pinning, priority."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dra_operator.api.core import Pod, pin_terms
from dra_operator.api.meta import format_time
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.api.selectors import NodeSelector
from dra_operator.engine.decisions import PatchPod
from dra_operator.engine.names import GATE, PRIORITY_CLASS, UNGATED_AT
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.queue.units import UnitKey

#: Controllers whose pods can be replaced by others elsewhere, if the node they are pinned to fails them.
PINNED_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet"})
#: Controllers that make a pod anew, wherever it fits.
MAKERS = frozenset({"ReplicaSet", "StatefulSet", "Job", "ReplicationController"})


def ungate(state: State, pod: Pod, node: str | None, pin: str | None, now: float) -> PatchPod:
    """The patch that removes our gate by name (others' gates stay), marks the pod as ours, and pins it to `pin`."""
    spec: dict[str, Any] = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
    if pin is not None:
        required = {"nodeSelectorTerms": pin_terms(pod.node_affinity, pin)}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    metadata = {"uid": pod.meta.uid, "annotations": {UNGATED_AT: format_time(now)}}
    decision = PatchPod(state.writes.next_id(), pod.key, pod.meta.uid, {"metadata": metadata, "spec": spec}, pin, node)
    state.writes.begin(decision, UnitKey("pod", pod.key), version=0, now=now, node=node)
    return decision


def pins(pod: Pod, terms: AllocationPolicySpec) -> bool:
    """Whether the policy wants this pod pinned. Job, bare and DaemonSet pods are not."""
    controller = pod.meta.controller
    return terms.placement.pin == "Auto" and controller is not None and controller.kind in PINNED_CONTROLLERS


def priority_of_pod(pod: Pod, claims: Iterable[SeenClaim], state: State) -> int:
    """The pod's if it names a PriorityClass, else what its claims say; a shared claim counts with the highest of its users."""
    own = pod.priority if pod.priority_class_name else max((_claim_priority(seen, state) for seen in claims), default=0)
    others = (
        other.priority
        for seen in claims
        for other in state.view.pods_of_claim(seen.key)
        if other.priority_class_name and not other.terminal
    )
    return max([own, *others])


def priority_of_users(seen: SeenClaim, state: State) -> int:
    """Of a claim in use: the highest of its pods'; of one that nobody uses its own."""
    pods = [pod for pod in state.view.pods_of_claim(seen.key) if not pod.terminal]
    return max((priority_of_pod(pod, [seen], state) for pod in pods), default=_claim_priority(seen, state))


def priority_of_claim(seen: SeenClaim, state: State) -> int:
    """Of a bare claim: its annotation's PriorityClass, else its policy's number."""
    return _claim_priority(seen, state)


def _claim_priority(seen: SeenClaim, state: State) -> int:
    name = seen.claim.meta.annotations.get(PRIORITY_CLASS)
    named = None if name is None else state.view.priority_classes.get(name)
    return named.value if named is not None else state.terms_of(seen)[1].priority


def ends_at(pod: Pod | None, now: float) -> float | None:
    """When the pod, started now, gives its devices back by its own deadline."""
    return None if pod is None or pod.active_deadline is None else now + pod.active_deadline


def has_not_started(pod: Pod) -> bool:
    """Is it bound, and no more: does its kubelet wait for its devices?"""
    return pod.node_name is not None and pod.phase == "Pending"


def tied_to_node(pod: Pod) -> bool:
    """Would its controller make it anew for the same node?"""
    return pod.meta.controller is not None and pod.meta.controller.kind == "DaemonSet"


def unpinned(pod: Pod) -> Pod:
    """The pod as its controller would make it anew: bound to no node, and without the operator's pin."""
    affinity, controller = pod.node_affinity, pod.meta.controller
    ours = UNGATED_AT in pod.meta.annotations and controller is not None and controller.kind in PINNED_CONTROLLERS
    if affinity is not None and ours and pod.pinned_to is not None:
        terms = tuple(replace(term, fields=()) for term in affinity.terms if term.expressions)
        affinity = NodeSelector(terms, affinity.source) if terms else None
    return replace(pod, node_name=None, node_affinity=affinity)
