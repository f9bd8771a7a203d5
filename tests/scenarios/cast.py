"""The objects that a scenario file names in a word or two, as Kubernetes has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.engine.stage import (
    GPU,
    Object,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)

GROUP = "dra-operator.dev/claim-group"
PRIORITY = "dra-operator.dev/priority-class"
CONSTRAINTS = "dra-operator.dev/constraints"


def objects(data: dict[str, Any]) -> Iterator[Object]:
    """In an order in which they can be applied, and in the order written within a kind: that is their age."""
    makers = {
        "namespaces": _namespace,
        "priorities": _priority,
        "policies": _policy,
        "classes": _class,
        "nodes": _node,
        "slices": _slice,
        "taints": _taint,
        "budgets": _budget,
        "groups": _group,
        "claims": _claims,
        "pods": _pod,
        "deployments": _deployment,
        "jobs": _job,
    }
    for field, make in makers.items():
        for name, spec in (data.get(field) or {}).items():
            yield from make(name, {} if spec is None else spec)


def _namespace(name: str, labels: dict[str, str]) -> Iterator[Object]:
    yield namespace(name, **labels)


def _priority(name: str, spec: Any) -> Iterator[Object]:
    yield priority_class(name, **(spec if isinstance(spec, dict) else {"value": spec}))


def _policy(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield policy(name, **spec)


def _class(name: str, selector: str) -> Iterator[Object]:
    yield device_class(name, selector)


def _node(name: str, spec: Any) -> Iterator[Object]:
    """`node: 4` is a node with 4 GPUs."""
    fields = spec if isinstance(spec, dict) else {"gpus": spec}
    yield node(name, cpu=str(fields.get("cpu", 32)), **(fields.get("labels") or {}))
    if fields.get("gpus"):
        found = gpus(name, fields["gpus"], **(fields.get("attributes") or {}))
        found["spec"]["pool"]["generation"] = fields.get("generation", 1)
        yield found


def _slice(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    """Devices of any kind: on one `node`, or without one reachable from everywhere. Counters stand in a slice of their own."""
    where: Object = {"nodeName": spec["node"]} if "node" in spec else {"allNodes": True}
    devices = [_device(device, fields or {}) for device, fields in spec["devices"].items()]
    bodies: list[Object] = [{"devices": devices}]
    if "counters" in spec:
        counters = {counter: {"value": value} for counter, value in spec["counters"].items()}
        bodies.append({"sharedCounters": [{"name": "all", "counters": counters}]})
    for index, body in enumerate(bodies):
        pool = {"name": name, "generation": 1, "resourceSliceCount": len(bodies)}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name if not index else f"{name}-counters"},
            "spec": {"driver": GPU, "pool": pool, **where, **body},
        }


def _device(name: str, spec: dict[str, Any]) -> Object:
    found: Object = {"name": name}
    if attributes := spec.get("attributes"):
        found["attributes"] = {key: _value(value) for key, value in attributes.items()}
    if capacity := spec.get("capacity"):
        found["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    if consumes := spec.get("consumes"):
        counters = {key: {"value": value} for key, value in consumes.items()}
        found["consumesCounters"] = [{"counterSet": "all", "counters": counters}]
    if spec.get("shared"):
        found["allowMultipleAllocations"] = True
    return found


def _value(value: Any) -> Object:
    if isinstance(value, list):
        return {"ints": value} if isinstance(value[0], int) else {"strings": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def _taint(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    taint = {"key": "example.com/broken", "effect": spec.get("effect", "NoSchedule")}
    selector = {"driver": GPU, "pool": spec["pool"], "device": spec["device"]}
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def _budget(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    selector = {"matchLabels": {"app": spec["app"]}}
    rest = {field: value for field, value in spec.items() if field != "app"}
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **rest},
    }


def _group(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _claims(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield _claim(name, spec)


def _claim(name: str, spec: dict[str, Any]) -> Object:
    """`share`: how much of the capacity of one device."""
    where, of = spec.get("namespace", "default"), spec.get("class", "gpu")
    found = claim(name, spec.get("gpus", 1), namespace=where, of=of, selector=spec.get("selector"))
    if "share" in spec:
        found["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": spec["share"]}
    if "together" in spec:
        found["spec"]["devices"]["constraints"] = [{"matchAttribute": spec["together"]}]
    labels = dict(spec.get("labels") or {})
    if "group" in spec:
        labels[GROUP] = spec["group"]
    found["metadata"]["labels"] = labels
    # A pod's own priority counts; a claim without one has it in an annotation.
    found["metadata"]["annotations"] = {PRIORITY: spec["priority"]} if "priority" in spec else {}
    return found


def _pod(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    uses = spec.get("uses")
    if uses is None:
        own = {field: value for field, value in spec.items() if field not in ("priority", "group", "aligned")}
        yield _claim(name, own)
        uses = [name]
    fields = _pod_fields(spec)
    if "gates" in spec:
        fields["schedulingGates"] = [{"name": gate} for gate in spec["gates"]]
    labels = {"app": spec.get("app", name)}
    if "group" in spec:
        labels[GROUP] = spec["group"]
    found = pod(name, *uses, namespace=spec.get("namespace", "default"), labels=labels, **fields)
    annotations = {}
    if "for" in spec:
        annotations["dra-operator.dev/run-for"] = spec["for"]
    if "aligned" in spec:
        annotations[CONSTRAINTS] = json.dumps(spec["aligned"])
    if annotations:
        found["metadata"]["annotations"] = annotations
    yield found


def _pod_fields(spec: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"terminationGracePeriodSeconds": spec.get("grace", 1), "cpu": str(spec.get("cpu", 1))}
    if "priority" in spec:
        fields["priorityClassName"] = spec["priority"]
    if "deadline" in spec:
        fields["activeDeadlineSeconds"] = spec["deadline"]
    return fields


def _deployment(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield from _workload("Deployment", name, spec)


def _job(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield from _workload("Job", name, spec)


def _workload(kind: str, name: str, spec: dict[str, Any]) -> Iterator[Object]:
    """A template and the workload, both of this name; its pods have the label `app: NAME`."""
    where = spec.get("namespace", "default")
    yield template(name, spec.get("gpus", 1), namespace=where, of=spec.get("class", "gpu"))
    found = workload(kind, name, spec.get("replicas", 1), namespace=where, templates=[name], **_pod_fields(spec))
    metadata = found["spec"]["template"]["metadata"]
    metadata["labels"] = {"app": name}
    if "group" in spec:
        metadata["labels"][GROUP] = spec["group"]
    if "for" in spec:
        metadata["annotations"] = {"dra-operator.dev/run-for": spec["for"]}
    yield found
