"""Scenario files: a cluster, what happens in it, and what must be so then. One behaviour a file, readable without the code.

given   nodes {name: gpus | {gpus, cpu, labels, attributes, generation}}, priorities {name: value | {value, preemptionPolicy}},
        policies {name: spec}, classes {name: selector}, budgets {name: {app, minAvailable}}, namespaces {name: labels},
        slices {name: {node, devices {name: {attributes, capacity, shared, consumes}}, counters}} (without `node`: reached from every node),
        taints {name: {pool, device, effect}}, groups {name: spec}
        (class `gpu` takes every device; its driver is gpu.example.com, a node's pool has the node's name, its devices are gpu-0 …)
when    steps: at, and any of: all of `given`; pods {name: {gpus, class, selector, share, together, priority, app, cpu, grace, for, deadline,
        uses, namespace, gates, group, labels, aligned [constraints across its claims]}} (each with a claim of its own name and labels, unless it `uses` claims by name);
        claims {name: {gpus, class, selector, share, together, labels, namespace, priority}};
        deployments, jobs {name: {replicas, gpus, class, priority, cpu, for, group, namespace}};
        delete, cordon, uncordon ([kind/name], [node]); finish, ungate ([pod]: it succeeds, others' gates go);
        scale {deployment: replicas}; restart: true (the operator is killed and started again)
then    checks: at, and any of: pods {name: node | waiting | gone}, running {app: count}, pods_on {app: {node: count}}, claims {name: phase}, why {claim: text in its
        summary}, reason {claim: word}, policy {claim: name}, position {claim: n}, effective {claim: priority}, hold {claim: node | none},
        victims {claim: [names]}, preempted_by {claim: name}, starved {claim: condition's status}, evicted [names, in order],
        events {reason: count}, devices {claim: [pool/device]}, phases {phase: count of claims}, tries {pod: attempts},
        valid {policy: reason of its condition | reason: text in its message}
real    true: plays on the real control plane as well, with policies' times as written
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dra_operator.api.duration import parse_duration
from tests.engine.stage import Object, device_class
from tests.scenarios.cast import objects

HERE = Path(__file__).parent
_GIVEN = frozenset(
    ["nodes", "priorities", "policies", "classes", "budgets", "namespaces", "slices", "taints", "groups"]
)
_STEP = _GIVEN | frozenset(
    [
        "at",
        "pods",
        "claims",
        "deployments",
        "jobs",
        "delete",
        "cordon",
        "uncordon",
        "finish",
        "ungate",
        "scale",
        "restart",
    ]
)
_CHECK = frozenset(
    [
        "at",
        "pods",
        "running",
        "pods_on",
        "claims",
        "why",
        "reason",
        "policy",
        "position",
        "effective",
        "hold",
        "victims",
        "preempted_by",
        "starved",
        "evicted",
        "events",
        "devices",
        "phases",
        "tries",
        "valid",
    ]
)
_KINDS = {
    "pod": "Pod",
    "claim": "ResourceClaim",
    "node": "Node",
    "policy": "AllocationPolicy",
    "deployment": "Deployment",
    "class": "DeviceClass",
    "slice": "ResourceSlice",
    "budget": "PodDisruptionBudget",
    "taint": "DeviceTaintRule",
    "group": "ClaimGroup",
    "priority": "PriorityClass",
}


@dataclass(frozen=True, slots=True)
class Step:
    """`at` in seconds from the start. `delete`: kind and name; `cordon`: node and whether it is to be off."""

    at: float
    objects: tuple[Object, ...]
    delete: tuple[tuple[str, str], ...] = ()
    cordon: tuple[tuple[str, bool], ...] = ()
    finish: tuple[str, ...] = ()
    ungate: tuple[str, ...] = ()
    scale: tuple[tuple[str, int], ...] = ()
    restart: bool = False


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

    @property
    def moments(self) -> list[Step | Check]:
        """Steps and checks in order of time; what happens comes before what is seen at the same time."""
        timed = [(step.at, 0, step) for step in self.steps] + [(check.at, 1, check) for check in self.checks]
        return [what for _, _, what in sorted(timed, key=lambda moment: moment[:2])]


def stories() -> list[Story]:
    """All files, by name."""
    return [read(path) for path in sorted(HERE.glob("*/*.yaml"))]


def read(path: Path) -> Story:
    """Raises ValueError for a file that says something this module does not understand."""
    name = f"{path.parent.name}/{path.stem}"
    data = yaml.safe_load(path.read_text())
    _known(name, data, frozenset({"story", "real", "given", "when", "then"}))
    _known(name, data["given"], _GIVEN)
    for step in data["when"]:
        _known(name, step, _STEP)
    for check in data["then"]:
        _known(name, check, _CHECK)
    return Story(
        name=name,
        told=data["story"],
        real=bool(data.get("real")),
        given=(device_class(), *objects(data["given"])),
        steps=tuple(_step(step) for step in data["when"]),
        checks=tuple(Check(parse_duration(str(check.pop("at"))), check) for check in data["then"]),
    )


def _known(name: str, part: dict[str, Any], keys: frozenset[str]) -> None:
    if unknown := part.keys() - keys:
        raise ValueError(f"{name}: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(keys))}")


def _step(data: dict[str, Any]) -> Step:
    deleted = (item.split("/", 1) for item in data.get("delete") or ())
    return Step(
        at=parse_duration(str(data["at"])),
        objects=tuple(objects(data)),
        delete=tuple((_KINDS[kind], name) for kind, name in deleted),
        cordon=tuple((name, True) for name in data.get("cordon") or ())
        + tuple((name, False) for name in data.get("uncordon") or ()),
        finish=tuple(data.get("finish") or ()),
        ungate=tuple(data.get("ungate") or ()),
        scale=tuple((data.get("scale") or {}).items()),
        restart=bool(data.get("restart")),
    )
