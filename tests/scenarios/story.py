"""Scenario files: a cluster, what happens in it, and what must be so then. One behaviour a file, readable without the code.

given   nodes {name: gpus | {gpus, cpu, labels, attributes}}, priorities {name: value | {value, preemptionPolicy}},
        policies {name: spec}, classes {name: selector}, budgets {name: {app, minAvailable}}, namespaces {name: labels}
        (class `gpu` takes every device)
when    steps: at, and any of: all of `given`; pods {name: {gpus, class, selector, priority, app, cpu, grace, for, deadline, uses, namespace,
        gates}} (each with a claim of its own name, unless it `uses` claims by name); claims {name: {gpus, class, selector, labels, namespace}};
        deployments {name: {replicas, gpus, priority}}; delete, cordon, uncordon ([kind/name], [node]); scale {deployment: replicas}
then    checks: at, and any of: pods {name: node | waiting | gone}, running {app: count}, claims {name: phase}, why {claim: text in its summary},
        position {claim: n}, evicted [names, in order], events {reason: count}, devices {claim: [pool/device]}
real    true: plays on the real control plane as well, with policies' times as written
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dra_operator.api.duration import parse_duration
from tests.engine.stage import (
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

HERE = Path(__file__).parent
_STEP_KEYS = {
    "at",
    "nodes",
    "priorities",
    "policies",
    "classes",
    "budgets",
    "namespaces",
    "pods",
    "claims",
    "deployments",
} | {
    "delete",
    "cordon",
    "uncordon",
    "scale",
}
_CHECK_KEYS = {"at", "pods", "running", "claims", "why", "position", "evicted", "events", "devices"}


@dataclass(frozen=True, slots=True)
class Step:
    """`at` in seconds from the start."""

    at: float
    objects: tuple[Object, ...]
    delete: tuple[tuple[str, str], ...] = ()
    cordon: tuple[tuple[str, bool], ...] = ()
    scale: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    at: float
    expected: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    told: str
    real: bool
    given: tuple[Object, ...]
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]


def stories() -> list[Story]:
    """All files, by name."""
    return [read(path) for path in sorted(HERE.glob("*/*.yaml"))]


def read(path: Path) -> Story:
    """Raises ValueError for a file that says something this module does not understand."""
    name = f"{path.parent.name}/{path.stem}"
    data = yaml.safe_load(path.read_text())
    for step in data["when"]:
        _known(name, step, _STEP_KEYS)
    for check in data["then"]:
        _known(name, check, _CHECK_KEYS)
    return Story(
        name=name,
        told=data["story"],
        real=bool(data.get("real")),
        given=(device_class(), *_objects(data.get("given") or {})),
        steps=tuple(_step(step) for step in data["when"]),
        checks=tuple(Check(parse_duration(str(check.pop("at"))), check) for check in data["then"]),
    )


def _known(name: str, part: dict[str, Any], keys: set[str]) -> None:
    if unknown := part.keys() - keys:
        raise ValueError(f"{name}: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(keys))}")


def _step(data: dict[str, Any]) -> Step:
    kinds = {
        "pod": "Pod",
        "claim": "ResourceClaim",
        "node": "Node",
        "policy": "AllocationPolicy",
        "deployment": "Deployment",
    }
    kinds |= {"class": "DeviceClass", "slice": "ResourceSlice"}
    deleted = (item.split("/", 1) for item in data.get("delete") or ())
    return Step(
        at=parse_duration(str(data["at"])),
        objects=tuple(_objects(data)),
        delete=tuple((kinds[kind], name) for kind, name in deleted),
        cordon=tuple((name, True) for name in data.get("cordon") or ())
        + tuple((name, False) for name in data.get("uncordon") or ()),
        scale=tuple((data.get("scale") or {}).items()),
    )


def _objects(data: dict[str, Any]) -> Iterator[Object]:
    for name, labels in (data.get("namespaces") or {}).items():
        yield namespace(name, **(labels or {}))
    for name, spec in (data.get("priorities") or {}).items():
        fields = spec if isinstance(spec, dict) else {"value": spec}
        yield priority_class(name, **fields)
    for name, spec in (data.get("policies") or {}).items():
        yield policy(name, **(spec or {}))
    for name, selector in (data.get("classes") or {}).items():
        yield device_class(name, selector)
    for name, spec in (data.get("nodes") or {}).items():
        yield from _node(name, spec if isinstance(spec, dict) else {"gpus": spec})
    for name, spec in (data.get("budgets") or {}).items():
        yield _budget(name, dict(spec))
    for name, spec in (data.get("claims") or {}).items():
        yield _claim(name, dict(spec or {}))
    for name, spec in (data.get("pods") or {}).items():
        yield from _pod(name, dict(spec or {}))
    for name, spec in (data.get("deployments") or {}).items():
        yield from _deployment(name, dict(spec or {}))


def _node(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield node(name, cpu=str(spec.get("cpu", 32)), **(spec.get("labels") or {}))
    if spec.get("gpus"):
        found = gpus(name, spec["gpus"], **(spec.get("attributes") or {}))
        found["spec"]["pool"]["generation"] = spec.get("generation", 1)
        yield found


def _budget(name: str, spec: dict[str, Any]) -> Object:
    app = spec.pop("app")
    metadata = {"name": name, "namespace": "default"}
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }


def _claim(name: str, spec: dict[str, Any]) -> Object:
    where = spec.get("namespace", "default")
    found = claim(
        name, spec.get("gpus", 1), namespace=where, of=spec.get("class", "gpu"), selector=spec.get("selector")
    )
    found["metadata"]["labels"] = spec.get("labels") or {}
    found["metadata"]["annotations"] = spec.get("annotations") or {}
    return found


def _pod(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    uses = spec.get("uses")
    if uses is None:
        yield _claim(name, spec)
        uses = [name]
    fields: dict[str, Any] = {"terminationGracePeriodSeconds": spec.get("grace", 1)}
    if "priority" in spec:
        fields["priorityClassName"] = spec["priority"]
    if "deadline" in spec:
        fields["activeDeadlineSeconds"] = spec["deadline"]
    if "gates" in spec:
        fields["schedulingGates"] = [{"name": gate} for gate in spec["gates"]]
    labels = {"app": spec.get("app", name)}
    found = pod(
        name, *uses, namespace=spec.get("namespace", "default"), labels=labels, cpu=str(spec.get("cpu", 1)), **fields
    )
    if "for" in spec:
        found["metadata"]["annotations"] = {"dra-operator.dev/run-for": spec["for"]}
    yield found


def _deployment(name: str, spec: dict[str, Any]) -> Iterator[Object]:
    yield template(name, spec.get("gpus", 1), of=spec.get("class", "gpu"))
    fields = {"priorityClassName": spec["priority"]} if "priority" in spec else {}
    yield workload("Deployment", name, spec.get("replicas", 1), templates=[name], **fields)
