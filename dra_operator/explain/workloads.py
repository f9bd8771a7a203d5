"""Rolling updates, as far as pods show them: which workload a pod belongs to, and which pods are of an older revision of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.explain.situation import Holding

_TEMPLATE_HASH = "pod-template-hash"
_REVISION_HASH = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class Update:
    """A workload that replaces its pods, new ones before old ones if its strategy says so. `revision` tells the pods apart."""

    kind: str
    namespace: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def repair(self) -> str:
        """What lets the old pods go first."""
        if self.kind == "Deployment":
            return (
                f"let {self} end old pods before it starts new ones: "
                "strategy.rollingUpdate {maxSurge: 0, maxUnavailable: 1}, or strategy.type Recreate"
            )
        return f"let {self} end old pods before it starts new ones: updateStrategy.rollingUpdate.maxSurge 0"


def update_of(pod: Pod) -> Update | None:
    """The workload whose controller can run old and new pods side by side; None for pods of others."""
    controller = pod.meta.controller
    if controller is None:
        return None
    revision = pod.meta.labels.get(_TEMPLATE_HASH)
    if controller.kind == "ReplicaSet" and revision and controller.name.endswith(f"-{revision}"):
        name = controller.name.removesuffix(f"-{revision}")
        return Update("Deployment", pod.meta.namespace, name, revision)
    revision = pod.meta.labels.get(_REVISION_HASH)
    if controller.kind == "DaemonSet" and revision:
        return Update("DaemonSet", pod.meta.namespace, controller.name, revision)
    return None


def older_siblings(pod: Pod, holders: Iterable[Holding]) -> list[Holding]:
    """Those holders that are pods of another revision of the pod's own workload."""
    own = update_of(pod)
    if own is None:
        return []
    return [holder for holder in holders if holder.pods and all(_is_older(own, other) for other in holder.pods)]


def _is_older(own: Update, pod: Pod) -> bool:
    other = update_of(pod)
    return (
        other is not None
        and (other.kind, other.namespace, other.name) == (own.kind, own.namespace, own.name)
        and other.revision != own.revision
    )
