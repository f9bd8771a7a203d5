"""The ReplicaSet and Deployment controllers: as many pods as asked for, and rolling updates in their simple form."""

from __future__ import annotations

import math
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.objects import active, deleting, key, owner_reference, ready
from dra_operator.cluster.memory.actors.pod_templates import Workload, pod_from, template_hash, victims_first
from dra_operator.cluster.memory.identity import DEPLOYMENT_CONTROLLER, REPLICA_SET_CONTROLLER
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import DEPLOYMENTS, PODS, REPLICA_SETS, Resource

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class ReplicaSetController(Workload):
    user = REPLICA_SET_CONTROLLER
    owners = REPLICA_SETS
    watches = {REPLICA_SETS: 0.005, PODS: 0.005}  # noqa: RUF012

    def reconcile(self, resource: Resource, key: Key) -> None:
        owner = self.get(REPLICA_SETS, key)
        if owner is None:
            return
        pods = [pod for pod in self.owned(owner) if active(pod)]
        wanted = int(dig(owner, "spec", "replicas") or 0)
        if not deleting(owner):
            for _ in range(wanted - len(pods)):
                if not self.make(owner, pod_from(REPLICA_SETS, owner, dig(owner, "spec", "template") or {})):
                    break
            for pod in victims_first(pods)[: max(0, len(pods) - wanted)]:
                self.delete(PODS, pod)
        pods = [pod for pod in self.owned(owner) if active(pod)]
        running = sum(map(ready, pods))
        self.tell(owner, {"replicas": len(pods), "readyReplicas": running, "availableReplicas": running})


class DeploymentController(Workload):
    user = DEPLOYMENT_CONTROLLER
    owners = DEPLOYMENTS
    dependents = REPLICA_SETS
    watches = {DEPLOYMENTS: 0.005, REPLICA_SETS: 0.005}  # noqa: RUF012

    def reconcile(self, resource: Resource, key: Key) -> None:
        owner = self.get(DEPLOYMENTS, key)
        if owner is None or deleting(owner):
            return
        sets = self.owned(owner)
        name = f"{key.name}-{template_hash(dig(owner, 'spec', 'template') or {})}"
        current = next((item for item in sets if item["metadata"]["name"] == name), None)
        # In a running cluster the hash is another; there, too, the template decides.
        current = current or next((item for item in sets if _same_template(item, owner)), None)
        old = [item for item in sets if item is not current]
        if current is None:
            current = self._new_set(owner, name, old)
            if current is None:
                return
        self._scale(owner, current, old)
        self._tell(owner, self.owned(owner), current["metadata"]["name"])

    def _new_set(self, owner: Object, name: str, old: list[Object]) -> Object | None:
        template: Object = clone(dig(owner, "spec", "template") or {})
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[HASH_LABEL] = name.rpartition("-")[2]
        revision = 1 + max((int(_annotation(item, REVISION) or 0) for item in old), default=0)
        body: Object = {
            "metadata": {
                "name": name,
                "labels": dict(labels),
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [owner_reference(DEPLOYMENTS, owner)],
            },
            "spec": {
                "replicas": 0 if any(_replicas(item) for item in old) else int(dig(owner, "spec", "replicas") or 0),
                "selector": {
                    "matchLabels": {
                        **(dig(owner, "spec", "selector", "matchLabels") or {}),
                        HASH_LABEL: labels[HASH_LABEL],
                    }
                },
                "template": template,
            },
        }
        if not self.make(owner, body):
            return None
        return self.get(REPLICA_SETS, Key(owner["metadata"]["namespace"], name))

    def _scale(self, owner: Object, current: Object, old: list[Object]) -> None:
        wanted = int(dig(owner, "spec", "replicas") or 0)
        if dig(owner, "spec", "strategy", "type") == "Recreate":
            for item in old:
                self._resize(item, 0)
            if not any(_replicas(item) or _status(item, "replicas") for item in old):
                self._resize(current, wanted)
            return
        surge, unavailable = _bounds(dig(owner, "spec", "strategy", "rollingUpdate") or {}, wanted)
        total = _replicas(current) + sum(map(_replicas, old))
        if not any(map(_replicas, old)):
            self._resize(current, wanted)
            return
        if _replicas(current) > wanted:
            self._resize(current, wanted)
        elif total < wanted + surge:
            self._resize(current, min(wanted, _replicas(current) + wanted + surge - total))
        current = self.get(REPLICA_SETS, key(current)) or current
        total = _replicas(current) + sum(map(_replicas, old))
        pending = max(0, _replicas(current) - _status(current, "availableReplicas"))
        spare = total - (wanted - unavailable) - pending
        for item in old:
            # Old pods that do not run are of no use to anybody: they go first and do not count.
            idle = max(0, _replicas(item) - _status(item, "availableReplicas"))
            cut = min(_replicas(item), max(0, spare), max(idle, _replicas(item)))
            self._resize(item, _replicas(item) - cut)
            spare -= cut

    def _resize(self, item: Object, replicas: int) -> None:
        if _replicas(item) != replicas:
            self.patch(REPLICA_SETS, key(item), {"spec": {"replicas": replicas}})

    def _tell(self, owner: Object, sets: list[Object], current: str) -> None:
        available = sum(_status(item, "availableReplicas") for item in sets)
        self.tell(
            owner,
            {
                "replicas": sum(_status(item, "replicas") for item in sets),
                "readyReplicas": sum(_status(item, "readyReplicas") for item in sets),
                "availableReplicas": available,
                "unavailableReplicas": max(0, int(dig(owner, "spec", "replicas") or 0) - available),
                "updatedReplicas": sum(
                    _status(item, "replicas") for item in sets if item["metadata"]["name"] == current
                ),
            },
        )


def _same_template(item: Object, owner: Object) -> bool:
    """Whether a ReplicaSet makes the Deployment's pods; its template has the hash as a label on top."""
    template = clone(dig(item, "spec", "template") or {})
    labels = (template.get("metadata") or {}).get("labels") or {}
    return bool(labels.pop(HASH_LABEL, None)) and template == dig(owner, "spec", "template")


def _replicas(item: Object) -> int:
    return int(dig(item, "spec", "replicas") or 0)


def _status(item: Object, field: str) -> int:
    return int(dig(item, "status", field) or 0)


def _annotation(item: Object, name: str) -> str | None:
    found: str | None = (item["metadata"].get("annotations") or {}).get(name)
    return found


def _bounds(rolling: dict[str, Any], wanted: int) -> tuple[int, int]:
    """maxSurge rounded up and maxUnavailable rounded down, never both 0."""
    surge = _share(rolling.get("maxSurge", "25%"), wanted, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, math.floor)
    return surge, unavailable if surge or unavailable else 1


def _share(value: int | str, of: int, rounding: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounding(int(value[:-1]) * of / 100))
    return int(value)
