"""The kubelets of all nodes: run what is bound and reserved, end it when its time is over, take terminating pods away.

No containers: a pod runs for as long as its `dra-operator.dev/run-for` annotation or its deadline says, else until it is deleted.
"""

from __future__ import annotations

import re
from typing import ClassVar

from dra_operator.api.meta import Key, format_time, parse_time
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import claim_names, deleting, key, node_of, reserved_for, terminal, uid
from dra_operator.cluster.memory.identity import User, kubelet
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import NODES, PODS, RESOURCE_CLAIMS, Resource

RUN_FOR = "dra-operator.dev/run-for"
#: A node with this label set to "off" has no kubelet: its pods neither start nor go away.
KUBELET_LABEL = "devcluster.dra-operator.dev/kubelet"

_START = 0.02
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def seconds(text: str | None) -> float | None:
    """A duration such as "85s" or "1h30m" in seconds, None where it is none."""
    found = _DURATION.fullmatch(text or "")
    if not text or found is None:
        return None
    factors = (3600.0, 60.0, 1.0, 0.001)
    return sum(float(part) * factor for part, factor in zip(found.groups(), factors, strict=True) if part)


class Kubelets(Reconciler):
    user: ClassVar[User] = kubelet("all")
    watches = {PODS: 0.01, RESOURCE_CLAIMS: 0.01, NODES: 0.01}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._starting: dict[str, float] = {}
        self._waiting: dict[Key, set[Key]] = {}
        self._deadlines: dict[tuple[str, float], float] = {}
        self._timers: dict[tuple[str, str], float] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is RESOURCE_CLAIMS:
            for pod in sorted(self._waiting.pop(key(change.object), ())):
                self.mark(PODS, pod)
        elif resource is NODES:
            if change.type == "ADDED":
                self._mark_pods_of(change.object["metadata"]["name"])
        elif node_of(change.object):
            self.mark(PODS, key(change.object))
        if resource is PODS and change.type == "DELETED":
            self._starting.pop(uid(change.object), None)

    def _mark_pods_of(self, node: str) -> None:
        for pod in self.store.all(PODS):
            if node_of(pod) == node:
                self.mark(PODS, key(pod))

    def reconcile(self, resource: Resource, key: Key) -> None:
        pod = self.get(PODS, key)
        if pod is None or not self._has_kubelet(node_of(pod)):
            return
        if deleting(pod):
            self._terminate(key, pod)
        elif dig(pod, "status", "phase") == "Pending":
            self._start(key, pod)
        elif not terminal(pod):
            self._follow(key, pod)

    def _has_kubelet(self, node: str | None) -> bool:
        found = self.get(NODES, Key("", node)) if node else None
        return found is not None and (found["metadata"].get("labels") or {}).get(KUBELET_LABEL) != "off"

    def _start(self, pod_key: Key, pod: Object) -> None:
        for name in claim_names(pod).values():
            claim_key = Key(pod_key.namespace, name) if name else None
            claim = self.get(RESOURCE_CLAIMS, claim_key) if claim_key else None
            if claim is None or dig(claim, "status", "allocation") is None or not reserved_for(claim, uid(pod)):
                if claim_key is not None:
                    self._waiting.setdefault(claim_key, set()).add(pod_key)
                return
        begun = self._starting.get(uid(pod))
        if begun is None:
            self._starting[uid(pod)] = self.now
            self.after(_START, PODS, pod_key)
        elif self.now >= begun + _START:
            self._report(pod_key, pod, "Running", ready=True)

    def _follow(self, pod_key: Key, pod: Object) -> None:
        """End a running pod when its time is over, or come back then."""
        started = parse_time(dig(pod, "status", "startTime")) or self.now
        started = max(started, self._starting.get(uid(pod), started))
        run_for = seconds((pod["metadata"].get("annotations") or {}).get(RUN_FOR))
        deadline = dig(pod, "spec", "activeDeadlineSeconds")
        ends = [
            (started + length, phase, reason)
            for length, phase, reason in ((run_for, "Succeeded", None), (deadline, "Failed", "DeadlineExceeded"))
            if length is not None
        ]
        if not ends:
            return
        when, phase, reason = min(ends, key=lambda end: end[0])
        if self.now >= when:
            self._report(pod_key, pod, phase, ready=False, reason=reason)
        elif self._timers.get((uid(pod), phase)) != when:
            self._timers[uid(pod), phase] = when
            self.at(when, PODS, pod_key)

    def _terminate(self, pod_key: Key, pod: Object) -> None:
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        # Counted from when the kubelet hears of it: deletionTimestamp has lost the fraction of its second.
        gone = self._deadlines.get((uid(pod), grace))
        if gone is None:
            gone = self._deadlines[uid(pod), grace] = self.now + grace
        if self.now < gone:
            if self._timers.get((uid(pod), "deleted")) != gone:
                self._timers[uid(pod), "deleted"] = gone
                self.at(gone, PODS, pod_key)
            return
        if not terminal(pod):
            self._report(pod_key, pod, "Failed", ready=False)
        if pod["metadata"].get("deletionGracePeriodSeconds") or not pod["metadata"].get("finalizers"):
            self.delete(PODS, pod, gracePeriodSeconds=0)

    def _report(self, pod_key: Key, pod: Object, phase: str, *, ready: bool, reason: str | None = None) -> None:
        now = format_time(self.now)
        status: Object = {"phase": phase}
        if not dig(pod, "status", "startTime"):
            status["startTime"] = now
        if reason:
            status["reason"] = reason
        kinds = ("Initialized", "PodReadyToStartContainers") if ready else ()
        status["conditions"] = [
            {"type": type_, "status": "True" if ready else "False", "lastTransitionTime": now}
            for type_ in (*kinds, "Ready", "ContainersReady")
        ]
        self.patch(PODS, pod_key, {"metadata": {"uid": uid(pod)}, "status": status}, "status")
