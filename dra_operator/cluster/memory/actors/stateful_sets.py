"""The StatefulSet controller: numbered pods, one after the other (OrderedReady) or all at once (Parallel). Without volumes."""

from __future__ import annotations

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.objects import deleting, ready, terminal, uid
from dra_operator.cluster.memory.actors.pod_templates import Workload, pod_from, template_hash
from dra_operator.cluster.memory.identity import STATEFUL_SET_CONTROLLER
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import PODS, STATEFUL_SETS, Resource

REVISION_LABEL = "controller-revision-hash"


class StatefulSetController(Workload):
    user = STATEFUL_SET_CONTROLLER
    owners = STATEFUL_SETS
    watches = {STATEFUL_SETS: 0.005, PODS: 0.005}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        #: By uid: the hash of the template at first sight, and the revision it has in the cluster it comes from.
        self._brought: dict[str, tuple[str, str]] = {}

    def reconcile(self, resource: Resource, key: Key) -> None:
        owner = self.get(STATEFUL_SETS, key)
        if owner is None or deleting(owner):
            return
        pods = {pod["metadata"]["name"]: pod for pod in self.owned(owner)}
        first = int(dig(owner, "spec", "ordinals", "start") or 0)
        wanted = int(dig(owner, "spec", "replicas") or 0)
        names = [f"{key.name}-{first + index}" for index in range(wanted)]
        parallel = dig(owner, "spec", "podManagementPolicy") == "Parallel"
        if self._grow(owner, names, pods, first, parallel=parallel) or parallel:
            self._shrink(names, pods, parallel=parallel)
            self._update(owner, names, pods)
        living = [pod for pod in self.owned(owner) if not terminal(pod)]
        running = sum(map(ready, living))
        counts = {"replicas": len(living), "readyReplicas": running, "availableReplicas": running}
        self.tell(owner, {**counts, "updateRevision": self._revision(owner)})

    def _grow(self, owner: Object, names: list[str], pods: dict[str, Object], first: int, *, parallel: bool) -> bool:
        """Make what is missing; True when every wanted pod is there and ready."""
        complete = True
        for index, name in enumerate(names):
            pod = pods.get(name)
            if pod is not None and terminal(pod) and not deleting(pod):
                self.delete(PODS, pod)
                pod = self.get(PODS, Key(owner["metadata"]["namespace"], name))
            if pod is None:
                labels = {
                    "statefulset.kubernetes.io/pod-name": name,
                    "apps.kubernetes.io/pod-index": str(first + index),
                    REVISION_LABEL: self._revision(owner),
                }
                template = dig(owner, "spec", "template") or {}
                body = pod_from(STATEFUL_SETS, owner, template, name=name, labels=labels)
                body["spec"]["hostname"] = name
                self.make(owner, body)
            if pod is None or deleting(pod) or not ready(pod):
                complete = False
                if not parallel:
                    return False
        return complete

    def _shrink(self, names: list[str], pods: dict[str, Object], *, parallel: bool) -> None:
        surplus = sorted((name for name in pods if name not in names), key=_ordinal, reverse=True)
        for name in surplus:
            if not deleting(pods[name]):
                self.delete(PODS, pods[name])
            if not parallel:
                return

    def _update(self, owner: Object, names: list[str], pods: dict[str, Object]) -> None:
        """RollingUpdate: from the highest number down to the partition, one at a time, each after its successor is ready."""
        if dig(owner, "spec", "updateStrategy", "type") != "RollingUpdate":
            return
        partition = int(dig(owner, "spec", "updateStrategy", "rollingUpdate", "partition") or 0)
        for name in reversed(names):
            pod = pods.get(name)
            if pod is None or _ordinal(name) < partition:
                continue
            if deleting(pod):
                return
            if (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) != self._revision(owner):
                self.delete(PODS, pod)
                return
            if not ready(pod):
                return

    def _revision(self, owner: Object) -> str:
        """What the pods of the present template are labelled with. A set from a running cluster brings the name with it."""
        current = template_hash(dig(owner, "spec", "template") or {})
        if uid(owner) not in self._brought:
            revision = dig(owner, "status", "updateRevision")
            settled = dig(owner, "status", "observedGeneration") == owner["metadata"].get("generation")
            self._brought[uid(owner)] = (current, str(revision)) if revision and settled else ("", "")
        template, revision = self._brought[uid(owner)]
        return revision if template == current else f"{owner['metadata']['name']}-{current}"


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
