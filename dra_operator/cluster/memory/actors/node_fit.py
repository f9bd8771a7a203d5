"""Which nodes a pod fits, as kube-scheduler's filters see it. Written apart from the engine's own check, so that each tests the other.

Covered: cordons, taints, node selector and required affinity, requests against what is bound, host ports. Not covered: volumes,
inter-pod affinity, topology spread.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.api.core import Node, Pod
from dra_operator.api.taints import Taint

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeUse:
    """The pods that take room on one node, by uid."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.used: dict[str, int] = {}

    def add(self, pod: Pod) -> None:
        self.remove(pod.meta.uid)
        self.pods[pod.meta.uid] = pod
        for name, amount in pod.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            for name, amount in pod.requests.items():
                self.used[name] -= amount


def refuses(pod: Pod, node: Node) -> str | None:
    """Why the node can never take the pod, whatever runs there; in the words of kube-scheduler."""
    if node.unschedulable and not any(toleration.tolerates(_CORDON) for toleration in pod.tolerations):
        return "node(s) were unschedulable"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(item.tolerates(taint) for item in pod.tolerations):
            return f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value}}}"
    if not pod.fits_affinity(node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def lacks(
    pod: Pod, node: Node, use: NodeUse, *, without: Iterable[str] = (), covered: frozenset[str] = frozenset()
) -> str | None:
    """Why there is no room for the pod now. `without`: uids of pods taken as gone; `covered`: resources that claims provide."""
    gone = set(without)
    others = [other for uid, other in use.pods.items() if uid not in gone and uid != pod.meta.uid]
    for mine in pod.host_ports:
        if any(mine.conflicts(theirs) for other in others for theirs in other.host_ports):
            return "node(s) didn't have free ports for the requested pod ports"
    for name, amount in pod.requests.items():
        if name in covered or not amount:
            continue
        used = sum(other.requests.get(name, 0) for other in others) if gone else use.used.get(name, 0)
        if used + amount > node.allocatable.get(name, 0):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return None


def load(node: Node, use: NodeUse) -> float:
    """How full the node is by cpu and memory, 0…1: the emptier, the better (LeastAllocated)."""
    shares = [
        use.used.get(name, 0) / node.allocatable[name] for name in ("cpu", "memory") if node.allocatable.get(name)
    ]
    return sum(shares) / len(shares) if shares else 0.0
