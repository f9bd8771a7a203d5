"""A Scenario among the manifests, read step by step: its files opened, each mistake named, the other steps kept.

    spec:
      until: 10m
      steps:
      - {at: 30s, apply: [objects or file names]}      # file names are relative to the Scenario's own file
      - {at: 60s, delete: [kind/namespace/name], finish: [pod/namespace/name]}

Plays nothing: `cluster.memory.scenario` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField
from dra_operator.cli.manifests import SCENARIO, Manifest, Manifests, Problem, read_more, read_values
from dra_operator.cluster.memory.scenario import Scenario, Step, Target
from dra_operator.cluster.rest import PODS

_ACTS = ("apply", "delete", "finish")


def read_scenario(manifests: Manifests, until: float | None = None) -> tuple[Scenario, list[Manifest]]:
    """The Scenario among the objects (without one: no steps), and all that its steps apply.

    `until`, in seconds, takes the place of the Scenario's own. Steps after it are left out. Mistakes go to `manifests`.
    """
    given = manifests.of_kind(SCENARIO.kind)
    for other in given[1:]:
        message = f"{other.title}: a run has one Scenario; {given[0].title} ({given[0].source}) is played"
        manifests.problems.append(Problem(other.source, message))
    if not given:
        return Scenario(until=until), []
    reader = _Reader(given[0], manifests)
    own, steps = reader.read()
    until = own if until is None else until
    kept = sorted((step for step in steps if until is None or step.at <= until), key=lambda step: step.at)
    return Scenario(tuple(kept), until), reader.applied


class _Reader:
    def __init__(self, manifest: Manifest, found: Manifests) -> None:
        self.manifest = manifest
        self.found = found
        self.applied: list[Manifest] = []

    def read(self) -> tuple[float | None, list[Step]]:
        spec = self.manifest.object.get("spec", {})
        if not isinstance(spec, dict):
            self._complain("spec is no mapping")
            return None, []
        self._unknown(spec, ("until", "steps"), "spec")
        until = self._duration(spec["until"], "spec.until") if spec.get("until") is not None else None
        steps = spec.get("steps", [])
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
            for manifest in self._objects(item, f"{path}.apply[{index}]")
        ]
        self.applied += apply
        delete = self._targets(lists["delete"], f"{path}.delete")
        finish = self._targets(lists["finish"], f"{path}.finish", pods=True)
        return Step(at, tuple(manifest.object for manifest in apply), delete, finish)

    def _items(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._complain(f"{path} is no list; put it in brackets")
            return []
        return value

    def _objects(self, item: Any, path: str) -> list[Manifest]:
        if not isinstance(item, str):
            return list(read_values(item, self.manifest.source, self.found))
        directory = os.path.dirname(self.manifest.source.file)
        file = os.path.join(directory, item)
        if not os.path.exists(file):
            self._complain(f"{path}: there is no file {file}")
            return []
        return [manifest for manifest in read_more(file, self.found) if manifest.resource is not SCENARIO]

    def _targets(self, items: list[Any], path: str, *, pods: bool = False) -> tuple[Target, ...]:
        found = []
        for index, item in enumerate(items):
            try:
                target = Target.parse(item)
            except InvalidField as error:
                self._complain(f"{path}[{index}]: {error}")
                continue
            if pods and target.resource is not PODS:
                self._complain(f"{path}[{index}]: only pods finish; write pod/NAMESPACE/NAME")
                continue
            found.append(target)
        return tuple(found)

    def _duration(self, value: Any, path: str) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
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
