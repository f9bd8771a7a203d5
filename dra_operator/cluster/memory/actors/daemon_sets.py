"""The DaemonSet controller: one pod on every node that takes it, tied to the node by its name."""

from __future__ import annotations

from typing import Any

from dra_operator.api.core import Node, Pod
from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.node_fit import refuses
from dra_operator.cluster.memory.actors.objects import active, deleting, ready, terminal
from dra_operator.cluster.memory.actors.objects import key as key_of
from dra_operator.cluster.memory.actors.pod_templates import Workload, pod_from
from dra_operator.cluster.memory.identity import DAEMON_SET_CONTROLLER
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import DAEMON_SETS, NODES, PODS, Resource

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController(Workload):
    user = DAEMON_SET_CONTROLLER
    owners = DAEMON_SETS
    watches = {DAEMON_SETS: 0.005, PODS: 0.005, NODES: 0.005}  # noqa: RUF012

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is NODES:
            for item in self.store.listed(DAEMON_SETS):
                self.mark(DAEMON_SETS, key_of(item))
        else:
            super().on_change(resource, change)

    def reconcile(self, resource: Resource, key: Key) -> None:
        owner = self.get(DAEMON_SETS, key)
        if owner is None or deleting(owner):
            return
        wanted = {node["metadata"]["name"] for node in self.store.listed(NODES) if self._takes(owner, node)}
        placed: dict[str, Object] = {}
        for pod in self.owned(owner):
            name = tied_to(pod)
            if (terminal(pod) and not deleting(pod)) or (active(pod) and (name not in wanted or name in placed)):
                self.delete(PODS, pod)
            elif name is not None:
                placed[name] = pod
        for name in sorted(wanted - placed.keys()):
            self.make(owner, _pod(owner, name))
        living = [pod for pod in placed.values() if active(pod)]
        self.tell(
            owner,
            {
                "desiredNumberScheduled": len(wanted),
                "currentNumberScheduled": len(living),
                "numberReady": sum(map(ready, living)),
                "numberMisscheduled": 0,
            },
        )

    def _takes(self, owner: Object, item: Object) -> bool:
        """By taints, cordon and selectors, as the controller predicts it; room and devices are the scheduler's business."""
        body = _pod(owner, item["metadata"]["name"])
        body["metadata"]["name"] = body["metadata"].pop("generateName")
        try:
            return refuses(Pod.from_dict(body), Node.from_dict(item)) is None
        except InvalidObject:
            return False


def _pod(owner: Object, node: str) -> Object:
    body = pod_from(DAEMON_SETS, owner, dig(owner, "spec", "template") or {})
    spec = body["spec"]
    here: dict[str, Any] = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = dig(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms") or [{}]
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{**clone(term), "matchFields": [here]} for term in terms]
    }
    tolerations = spec.setdefault("tolerations", [])
    tolerations += [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    return body


def tied_to(pod: Object) -> str | None:
    """The node a DaemonSet pod is meant for."""
    if dig(pod, "spec", "nodeName"):
        return str(pod["spec"]["nodeName"])
    terms = dig(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    for term in terms or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In":
                return str(field["values"][0])
    return None
