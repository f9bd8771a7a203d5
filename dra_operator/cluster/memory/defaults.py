"""What the API server fills in when an object is created: defaults of the types, and of the built-in admission plugins.

Only fields that something here or in the engine reads. Each function changes the object it is given.
"""

from __future__ import annotations

from typing import Any

from dra_operator.cluster.memory.values import Object, dig

#: The DefaultTolerationSeconds admission plugin.
_NODE_FAILURE_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def pod(item: Object) -> None:
    spec = item.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("serviceAccountName", "default")
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _requests_from_limits(container)
    tolerations = spec.setdefault("tolerations", [])
    for key in _NODE_FAILURE_KEYS:
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _covers(toleration: dict[str, Any], key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _requests_from_limits(container: dict[str, Any]) -> None:
    limits = dig(container, "resources", "limits")
    if limits:
        requests = container["resources"].setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def claim(item: Object) -> None:
    _claim_spec(item.setdefault("spec", {}))


def claim_template(item: Object) -> None:
    _claim_spec(item.setdefault("spec", {}).setdefault("spec", {}))


def _claim_spec(spec: dict[str, Any]) -> None:
    for request in dig(spec, "devices", "requests") or ():
        if not isinstance(request, dict):
            continue
        for detail in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if not isinstance(detail, dict):
                continue
            detail.setdefault("allocationMode", "ExactCount")
            if detail["allocationMode"] == "ExactCount" and not detail.get("count"):
                detail.setdefault("count", 1)
            for toleration in detail.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def priority_class(item: Object) -> None:
    item.setdefault("preemptionPolicy", "PreemptLowerPriority")


def deployment(item: Object) -> None:
    spec = item.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")


def replica_set(item: Object) -> None:
    item.setdefault("spec", {}).setdefault("replicas", 1)


def stateful_set(item: Object) -> None:
    spec = item.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})


def daemon_set(item: Object) -> None:
    item.setdefault("spec", {}).setdefault("updateStrategy", {"type": "RollingUpdate"})


def job(item: Object) -> None:
    spec = item.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    if not spec.get("selector") and not spec.get("manualSelector"):
        meta = item["metadata"]
        labels.setdefault("batch.kubernetes.io/controller-uid", meta["uid"])
        labels.setdefault("batch.kubernetes.io/job-name", meta["name"])
        labels.setdefault("controller-uid", meta["uid"])
        labels.setdefault("job-name", meta["name"])
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}


def namespace(item: Object) -> None:
    item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]
    item.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def device_taint_rule(item: Object, now: str) -> None:
    taint = dig(item, "spec", "taint")
    if isinstance(taint, dict):
        taint.setdefault("timeAdded", now)


#: What a node of a simulation has where its manifest does not say.
_ROOMY = {"cpu": "256", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "250"}


def node(item: Object) -> None:
    """What the kubelet of a node would have registered."""
    item["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/hostname", item["metadata"].get("name"))
    status = item.setdefault("status", {})
    if not status.get("allocatable"):
        status["allocatable"] = dict(status.get("capacity") or _ROOMY)
        status["allocatable"].setdefault("pods", _ROOMY["pods"])
    status.setdefault("capacity", dict(status["allocatable"]))
