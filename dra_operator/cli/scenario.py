"""A Scenario read: a timeline of what a person does to a cluster, its files opened, its mistakes named. Plays nothing itself.

spec:
  until: 10m
  steps:
  - {at: 30s, apply: [objects or file names]}      # file names are relative to the Scenario's file
  - {at: 60s, delete: [kind/namespace/name], finish: [pod/namespace/name]}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField
from dra_operator.api.meta import Key
from dra_operator.cli.manifests import Manifest, Manifests, Problem, Source, read_more, read_values
from dra_operator.cluster.rest import BY_KIND, PODS, Resource

_ACTS = ("apply", "delete", "finish")
_ALIASES = {
    "po": "Pod",
    "no": "Node",
    "ns": "Namespace",
    "claim": "ResourceClaim",
    "class": "DeviceClass",
    "slice": "ResourceSlice",
    "template": "ResourceClaimTemplate",
    "deploy": "Deployment",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "pc": "PriorityClass",
    "pdb": "PodDisruptionBudget",
}
_KINDS: Mapping[str, Resource] = {
    **{resource.kind.lower(): resource for resource in BY_KIND.values()},
    **{resource.plural: resource for resource in BY_KIND.values()},
    **{alias: BY_KIND[kind] for alias, kind in _ALIASES.items()},
}


@dataclass(frozen=True, slots=True)
class Named:
    """An object a step names. `source` is the Scenario's, for messages."""

    resource: Resource
    key: Key
    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class Step:
    """`at` in seconds from the start."""

    at: float
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Named, ...] = ()
    finish: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """`until` in seconds, None: until nothing changes. Steps are in the order of their times."""

    until: float | None = None
    steps: tuple[Step, ...] = ()


def read_scenario(manifests: Manifests, until: float | None = None) -> Scenario:
    """The Scenario among the objects (without one: no steps). `until` takes the place of its own. Mistakes go to `manifests`."""
    given = manifests.of_kind("Scenario")
    for other in given[1:]:
        message = f"{other.title}: a run has one Scenario; {given[0].title} ({given[0].source}) is played"
        manifests.problems.append(Problem(other.source, message))
    if not given:
        return Scenario(until)
    reader = _Reader(given[0], manifests)
    own, steps = reader.read()
    until = own if until is None else until
    kept = sorted((step for step in steps if until is None or step.at <= until), key=lambda step: step.at)
    return Scenario(until, tuple(kept))


class _Reader:
    def __init__(self, manifest: Manifest, found: Manifests) -> None:
        self.manifest = manifest
        self.found = found

    def read(self) -> tuple[float | None, list[Step]]:
        spec = self.manifest.object.get("spec") or {}
        if not isinstance(spec, dict):
            self._complain("spec is no mapping")
            return None, []
        self._unknown(spec, ("until", "steps"), "spec")
        until = self._duration(spec["until"], "spec.until") if spec.get("until") is not None else None
        steps = spec.get("steps") or []
        if not isinstance(steps, list):
            self._complain("spec.steps is no list")
            return until, []
        read = [self._step(step, f"spec.steps[{index}]") for index, step in enumerate(steps)]
        return until, [step for step in read if step is not None]

    def _step(self, step: Any, path: str) -> Step | None:
        if not isinstance(step, dict):
            self._complain(f"{path} is no mapping; write it as {{at: 30s, apply: […]}}")
            return None
        self._unknown(step, ("at", *_ACTS), path)
        if step.get("at") is None:
            self._complain(f"{path}.at is missing; say when, as in 30s")
            return None
        at = self._duration(step["at"], f"{path}.at")
        if at is None:
            return None
        lists = {act: self._items(step.get(act), f"{path}.{act}") for act in _ACTS}
        apply = [
            manifest
            for index, item in enumerate(lists["apply"])
            for manifest in self._applied(item, f"{path}.apply[{index}]")
        ]
        delete = [self._named(item, f"{path}.delete[{index}]") for index, item in enumerate(lists["delete"])]
        finish = [self._pod(item, f"{path}.finish[{index}]") for index, item in enumerate(lists["finish"])]
        return Step(at, tuple(apply), tuple(filter(None, delete)), tuple(filter(None, finish)))

    def _items(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._complain(f"{path} is no list; put it in brackets")
            return []
        return value

    def _applied(self, item: Any, path: str) -> list[Manifest]:
        if not isinstance(item, str):
            return list(read_values(item, self.manifest.source, self.found))
        directory = os.path.dirname(self.manifest.source.file)
        file = os.path.join(directory, item)
        if not os.path.exists(file):
            self._complain(f"{path}: there is no file {file}")
            return []
        return [manifest for manifest in read_more(file, self.found) if manifest.resource.kind != "Scenario"]

    def _named(self, item: Any, path: str) -> Named | None:
        parts = item.split("/") if isinstance(item, str) else []
        resource = _KINDS.get(parts[0].lower()) if parts else None
        if resource is None or not all(parts):
            near = get_close_matches(parts[0].lower(), _KINDS, 1) if parts else []
            meant = f"; did you mean {near[0]}?" if near and resource is None else ""
            self._complain(f"{path}: {item!r:.60} names no object; write it as kind/namespace/name{meant}")
            return None
        if resource.namespaced and len(parts) in (2, 3):
            namespace = parts[1] if len(parts) == 3 else "default"
            return Named(resource, Key(namespace, parts[-1]), item, self.manifest.source)
        if not resource.namespaced and len(parts) == 2:
            return Named(resource, Key("", parts[1]), item, self.manifest.source)
        form = "kind/namespace/name" if resource.namespaced else "kind/name"
        self._complain(f"{path}: {item!r:.60}: write a {resource.kind} as {form}")
        return None

    def _pod(self, item: Any, path: str) -> Named | None:
        named = self._named(item, path)
        if named is not None and named.resource is not PODS:
            self._complain(f"{path}: only pods finish, {item!r:.60} is a {named.resource.kind}")
            return None
        return named

    def _duration(self, value: Any, path: str) -> float | None:
        try:
            return parse_duration(value)
        except InvalidField as error:
            self._complain(f"{path}: {error}")
            return None

    def _unknown(self, mapping: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
        for name in mapping:
            if name not in known:
                near = get_close_matches(str(name), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self._complain(f"{path}.{name} is not known; {hint}")

    def _complain(self, message: str) -> None:
        self.found.problems.append(Problem(self.manifest.source, f"{self.manifest.title}: {message}"))
