"""kube-scheduler: binds ungated pods to nodes they fit, with the claims they use.

A managed claim that the operator has allocated is only reserved (where that is needed); an unallocated one the scheduler tries to
allocate itself, through `FirstFit`, and for managed claims meets the guard. What it knows of claims comes late, by its own watch:
an operator that ungates sooner than that runs into the same race as on a real cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dra_operator.api.core import Node, Pod
from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.actor import Actor, Agenda
from dra_operator.cluster.memory.actors.node_fit import NodeUse, lacks, load, refuses
from dra_operator.cluster.memory.actors.objects import condition, key, uid
from dra_operator.cluster.memory.actors.preemption import choose_victims
from dra_operator.cluster.memory.actors.scheduler_claims import Chosen, PodClaims
from dra_operator.cluster.memory.actors.scheduling_errors import ClaimError, NotYet
from dra_operator.cluster.memory.actors.scheduling_queue import SchedulingQueue
from dra_operator.cluster.memory.identity import SCHEDULER
from dra_operator.cluster.memory.store import Change, Store
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Request,
    Resource,
)

NAME = "default-scheduler"


class FirstFit(Protocol):
    """The allocator of the scheduler's DynamicResources plugin."""

    def __call__(self, store: Store, claims: Sequence[Object], node: Object) -> list[Object] | None:
        """One `status.allocation` a claim for this node, None where they do not all fit. Raises ClaimError."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why a pod was not bound. `error`: not for want of a node, so no change wakes it."""

    message: str
    error: bool = False


class Scheduler(Actor):
    user = SCHEDULER
    watches = {  # noqa: RUF012
        PODS: 0.001,
        NODES: 0.001,
        RESOURCE_CLAIMS: 0.003,
        RESOURCE_SLICES: 0.003,
        DEVICE_CLASSES: 0.003,
        DEVICE_TAINT_RULES: 0.003,
    }

    def __init__(self, first_fit: FirstFit | None = None) -> None:
        super().__init__()
        self._first_fit = first_fit
        self._claims: dict[Key, Object] = {}
        self._nodes: dict[str, tuple[Node, Object]] = {}
        self._names: list[str] = []
        self._use: dict[str, NodeUse] = {}
        self._place: dict[str, str] = {}
        self._pods: dict[str, Pod] = {}
        self._queue: SchedulingQueue | None = None

    def attach(self, agenda: Agenda) -> None:
        super().attach(agenda)
        self._queue = SchedulingQueue(agenda, self.work)

    @property
    def queue(self) -> SchedulingQueue:
        assert self._queue is not None
        return self._queue

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is PODS:
            self._on_pod(change)
        elif resource is RESOURCE_CLAIMS:
            self._on_claim(change)
        elif resource is NODES:
            self._on_node(change)
        else:
            self.queue.wake()

    def _on_pod(self, change: Change) -> None:
        item, name = change.object, uid(change.object)
        try:
            pod = Pod.from_dict(item)
        except InvalidObject:
            return
        if change.type == "DELETED" or pod.terminal:
            self._forget(name)
            return
        if pod.node_name:
            self.queue.remove(name)
            self._pods.pop(name, None)
            self._occupy(pod, pod.node_name)
            return
        if pod.scheduler_name != NAME or pod.gates or pod.meta.deleted is not None:
            self.queue.remove(name)
            return
        self._pods[name] = pod
        previous = change.previous
        if (
            previous is None
            or previous.get("spec") != item.get("spec")
            or _claim_statuses(previous) != _claim_statuses(item)
        ):
            self.queue.add(pod, forget_backoff=name not in self.queue)

    def _forget(self, name: str) -> None:
        self.queue.remove(name)
        self._pods.pop(name, None)
        node = self._place.pop(name, None)
        if node is not None:
            self._use[node].remove(name)
            self.queue.wake()

    def _occupy(self, pod: Pod, node: str) -> None:
        before = self._place.get(pod.meta.uid)
        if before is not None and before != node:
            self._use[before].remove(pod.meta.uid)
        self._place[pod.meta.uid] = node
        self._use.setdefault(node, NodeUse()).add(pod)

    def _on_claim(self, change: Change) -> None:
        claim_key = key(change.object)
        if change.type == "DELETED":
            self._claims.pop(claim_key, None)
        else:
            self._claims[claim_key] = change.object
        freed = dig(change.previous, "status", "allocation") is not None and (
            change.type == "DELETED" or dig(change.object, "status", "allocation") is None
        )
        if freed:
            self.queue.wake()
        else:
            self.queue.wake(lambda pod: _uses(pod, claim_key))

    def _on_node(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "DELETED":
            self._nodes.pop(name, None)
            self._names = sorted(self._nodes)
            return
        try:
            node = Node.from_dict(change.object)
        except InvalidObject:
            return
        known = self._nodes.get(name)
        self._nodes[name] = node, change.object
        if known is None:
            self._names = sorted(self._nodes)
        if known is None or (known[0].taints, known[0].unschedulable, known[0].labels, known[0].allocatable) != (
            node.taints,
            node.unschedulable,
            node.labels,
            node.allocatable,
        ):
            self.queue.wake()

    def work(self) -> None:
        while (pod := self.queue.pop()) is not None:
            live = self.get(PODS, pod.key)
            if live is None or uid(live) != pod.meta.uid or dig(live, "spec", "nodeName"):
                self.queue.remove(pod.meta.uid)
                continue
            failure = self._schedule(self._pods.get(pod.meta.uid, pod), live)
            if failure is None:
                self.queue.remove(pod.meta.uid)
            else:
                self.queue.failed(pod, error=failure.error)
                self._report(live, failure)

    def _schedule(self, pod: Pod, item: Object) -> Unplaced | None:
        """One scheduling cycle and, if a node was found, the binding cycle."""
        try:
            claims = PodClaims.gather(item, self._claims, self.store)
        except NotYet as wait:
            return Unplaced(str(wait))
        try:
            found = self._filter(pod, claims)
            if isinstance(found, Unplaced):
                return found
            node, chosen = found
            claims.bind(self, chosen, self.now)
        except ClaimError as error:
            return Unplaced(str(error), error=True)
        body = {"metadata": {"name": pod.meta.name, "uid": pod.meta.uid}, "target": {"kind": "Node", "name": node}}
        response = self.send(Request("POST", PODS.path(*pod.key, "binding"), body))
        if not response.ok:
            return Unplaced(response.message, error=True)
        self._occupy(pod, node)
        return None

    def _filter(self, pod: Pod, claims: PodClaims) -> tuple[str, Chosen] | Unplaced:
        """The best node that fits, with the allocations to write there; else what is done about it (PostFilter)."""
        reasons: dict[str, int] = {}
        fitting: list[tuple[float, str, Chosen]] = []
        unavailable: set[Key] = set()
        resolvable: list[str] = []
        here = claims.only_node()
        if here in self._nodes and claims.tied and self._fits(pod, here, claims):
            return here, Chosen({})
        for name in self._names:
            node, item = self._nodes[name]
            use = self._use.setdefault(name, NodeUse())
            why = refuses(pod, node)
            if why is None and (why := lacks(pod, node, use, covered=claims.covered_on(node))) is not None:
                if claims.misplaced(node) is None:
                    resolvable.append(name)
            elif why is None and (wrong := claims.misplaced(node)) is not None:
                unavailable |= wrong
                why = "resourceclaim not available on the node"
            elif why is None:
                chosen = claims.allocate(self._first_fit, self.store, node, item)
                if chosen is not None and not claims.tied:
                    return name, chosen
                if chosen is not None:
                    fitting.append((load(node, use), name, chosen))
                    continue
                why = "cannot allocate all claims"
            reasons[why] = reasons.get(why, 0) + 1
        if fitting:
            return min(fitting, key=lambda entry: entry[:2])[1:]
        if not claims.clear_one(self, unavailable, pod.meta.uid):
            self._preempt(pod, resolvable, claims)
        told = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        return Unplaced(f"0/{len(self._nodes)} nodes are available: {told or 'no nodes'}.")

    def _fits(self, pod: Pod, name: str, claims: PodClaims) -> bool:
        node, use = self._nodes[name][0], self._use.setdefault(name, NodeUse())
        if refuses(pod, node) is not None or lacks(pod, node, use, covered=claims.covered_on(node)) is not None:
            return False
        return claims.misplaced(node) is None

    def _preempt(self, pod: Pod, names: list[str], claims: PodClaims) -> None:
        """DefaultPreemption: make room in cpu, memory or ports by deleting pods of lower priority."""
        candidates = [
            (node, self._use[node.name], claims.covered_on(node)) for node in (self._nodes[name][0] for name in names)
        ]
        for victim in choose_victims(pod, candidates):
            item = self.get(PODS, victim.key)
            if item is not None and uid(item) == victim.meta.uid and not item["metadata"].get("deletionTimestamp"):
                self.delete(PODS, item)

    def _report(self, item: Object, failure: Unplaced) -> None:
        reason = "SchedulerError" if failure.error else "Unschedulable"
        told = {"type": "PodScheduled", "status": "False", "reason": reason, "message": failure.message}
        known = condition(item, "PodScheduled") or {}
        if {name: known.get(name) for name in told} != told:
            patch = {"metadata": {"uid": uid(item)}, "status": {"conditions": [told]}}
            self.patch(PODS, key(item), patch, "status")


def _claim_statuses(item: Object) -> object:
    return dig(item, "status", "resourceClaimStatuses")


def _uses(pod: Pod, claim: Key) -> bool:
    if pod.meta.namespace != claim.namespace:
        return False
    return any((entry.claim_name or pod.generated_claims.get(entry.name)) == claim.name for entry in pod.claims)
