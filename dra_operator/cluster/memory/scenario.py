"""The timeline of a simulation (`kind: Scenario`): what a person applies, deletes and finishes, and when.

Parsing names the step and the repair; playing goes through the server as a person would, except that applied objects keep the
status they bring (pre-allocated claims, running pods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.api.errors import InvalidField, InvalidObject, each
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.kubelets import seconds
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.values import Object, clone
from dra_operator.cluster.memory.world import STEP, World
from dra_operator.cluster.rest import BY_KIND, PODS, RESOURCES, Request, Resource, Response

#: Reads the objects of a file that a step names, relative to the scenario's own. Raises InvalidField.
ReadFile = Callable[[str], Sequence[Object]]

_SHORT = {
    "po": "Pod",
    "no": "Node",
    "ns": "Namespace",
    "deploy": "Deployment",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "pdb": "PodDisruptionBudget",
    "pc": "PriorityClass",
    "claim": "ResourceClaim",
}
_KINDS = {
    **_SHORT,
    **{resource.kind.lower(): resource.kind for resource in RESOURCES},
    **{resource.plural: resource.kind for resource in RESOURCES},
}

#: What others refer to comes first; all else keeps the order written, which is its age.
_FIRST = (
    "Namespace",
    "PriorityClass",
    "DeviceClass",
    "NetworkDeviceClass",
    "Node",
    "DeviceTaintRule",
    "ResourceSlice",
    "AllocationPolicy",
    "ClaimGroup",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "PodDisruptionBudget",
)

#: Seconds between two looks at whether an object that is being deleted has gone, and how often.
_REPLACE_EVERY, _REPLACE_TRIES = 0.05, 200


@dataclass(frozen=True, slots=True)
class Target:
    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key}"

    @classmethod
    def parse(cls, text: Any) -> Target:
        """`kind/namespace/name`, or `kind/name` for cluster-scoped kinds. Raises InvalidField."""
        parts = str(text).split("/")
        kind = _KINDS.get(parts[0].lower())
        if kind is None:
            raise InvalidField(f"{text!r}: kind {parts[0]!r} is not known; write for example pod/NAMESPACE/NAME")
        resource = BY_KIND[kind]
        shape = f"{kind.lower()}/NAMESPACE/NAME" if resource.namespaced else f"{kind.lower()}/NAME"
        if len(parts) != (3 if resource.namespaced else 2) or not all(parts):
            raise InvalidField(f"{text!r} does not name a {kind}; write {shape}")
        return cls(resource, Key(*parts[1:]) if resource.namespaced else Key("", parts[1]))


@dataclass(frozen=True, slots=True)
class Step:
    """`at`: seconds from the start. Within a step: apply, then delete, then finish."""

    at: float
    apply: tuple[Object, ...] = ()
    delete: tuple[Target, ...] = ()
    finish: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """`until`: seconds from the start, None = until nothing changes. Steps are in order of time."""

    steps: tuple[Step, ...] = ()
    until: float | None = None

    @classmethod
    def from_dict(cls, data: Object, read_file: ReadFile | None = None) -> Scenario:
        """Raises InvalidObject naming the step."""
        name = str((data.get("metadata") or {}).get("name") or "")
        try:
            spec = data.get("spec") or {}
            until = None if spec.get("until") is None else _time(spec["until"], "spec.until")
            steps = each("spec.steps", spec.get("steps"), lambda step: _step(step, read_file))
        except InvalidField as error:
            raise InvalidObject("Scenario", "", name, error) from None
        return cls(tuple(sorted(steps, key=lambda step: step.at)), until)


def _time(value: Any, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = seconds(str(value))
    if found is None:
        raise InvalidField(f'{value!r} is not a duration; write for example "30s" or "2m"', path)
    return found


def _step(data: Any, read_file: ReadFile | None) -> Step:
    if not isinstance(data, dict):
        raise InvalidField('expected a step such as {at: "30s", apply: [...]}')
    unknown = sorted(set(data) - {"at", "apply", "delete", "finish"})
    if unknown:
        raise InvalidField(f"unknown field {unknown[0]!r}; a step has at, apply, delete, finish")
    finish = each("finish", data.get("finish"), Target.parse)
    for index, target in enumerate(finish):
        if target.resource is not PODS:
            raise InvalidField("only pods finish; write pod/NAMESPACE/NAME", f"finish[{index}]")
    return Step(
        at=_time(data.get("at") or 0, "at"),
        apply=tuple(
            item for group in each("apply", data.get("apply"), lambda item: _objects(item, read_file)) for item in group
        ),
        delete=each("delete", data.get("delete"), Target.parse),
        finish=finish,
    )


def _objects(item: Any, read_file: ReadFile | None) -> Sequence[Object]:
    if isinstance(item, dict):
        return [item]
    if read_file is None:
        raise InvalidField(f"{item!r}: files cannot be read here; write the object itself")
    return read_file(str(item))


@dataclass(frozen=True, slots=True)
class Trouble:
    """A step that could not be carried out, in words for a person."""

    at: float
    object: str
    message: str


class Player:
    """Carries out steps in a world. What goes wrong is collected in `troubles`; the rest goes on."""

    def __init__(self, world: World) -> None:
        self.troubles: list[Trouble] = []
        self._world = world
        self._start = world.now

    def schedule(self, scenario: Scenario) -> None:
        """Put the steps on the world's agenda, counted from now; those after `until` are left out."""
        self._start = self._world.now
        for step in scenario.steps:
            if scenario.until is None or step.at <= scenario.until:
                self._world.at(self._start + step.at, lambda step=step: self.play(step), rank=STEP)  # type: ignore[misc]

    def play(self, step: Step) -> None:
        """Carry out one step now."""
        self.apply(step.apply)
        for target in step.delete:
            response = self._send("DELETE", target.resource, target.key)
            self._note(str(target), response)
        for target in step.finish:
            status = {
                "phase": "Succeeded",
                "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}],
            }
            self._note(str(target), self._send("PATCH", PODS, target.key, {"status": status}, "status"))

    def apply(self, objects: Iterable[Object]) -> None:
        """Create or replace, what others refer to first."""
        ranks = {kind: rank for rank, kind in enumerate(_FIRST)}
        for item in sorted(objects, key=lambda item: ranks.get(str(item.get("kind")), len(_FIRST))):
            try:
                self._apply(item)
            except Refused as refusal:
                self._trouble(_called(item), refusal.message)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                self._trouble(_called(item), f"cannot be read ({type(error).__name__}: {error})")

    def _apply(self, item: Object) -> None:
        resource = BY_KIND.get(str(item.get("kind")))
        if resource is None:
            self._trouble(_called(item), f"kind {item.get('kind')!r} is not simulated; leave it out")
            return
        meta = item.get("metadata") or {}
        key = Key((meta.get("namespace") or "default") if resource.namespaced else "", str(meta.get("name") or ""))
        old = self._world.server.store.get(resource, key) if key.name else None
        if old is None:
            self._world.server.load([item], exempt=False)
        else:
            self._replace(resource, key, item)

    def _replace(self, resource: Resource, key: Key, item: Object) -> None:
        """PUT over what is there; what cannot be changed is deleted and made anew."""
        body = clone(item)
        body["metadata"].pop("resourceVersion", None)
        body["metadata"].pop("uid", None)
        old = self._world.server.store.get(resource, key)
        if old is not None:
            body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            for field in ("finalizers", "ownerReferences"):
                if field in old["metadata"]:
                    body["metadata"].setdefault(field, clone(old["metadata"][field]))
        response = self._send("PUT", resource, key, body)
        if response.ok:
            if "status" in item:
                self._send("PUT", resource, key, {**response.body, "status": clone(item["status"])}, "status")
            return
        if response.reason != "Invalid":
            self._trouble(_called(item), response.message)
            return
        self._send("DELETE", resource, key, {"gracePeriodSeconds": 0})
        self._create_when_gone(resource, key, item, _REPLACE_TRIES)

    def _create_when_gone(self, resource: Resource, key: Key, item: Object, tries: int) -> None:
        if self._world.server.store.get(resource, key) is None:
            self.apply([item])
        elif tries:
            again = self._world.now + _REPLACE_EVERY
            self._world.at(again, lambda: self._create_when_gone(resource, key, item, tries - 1), rank=STEP)
        else:
            self._trouble(
                _called(item), "cannot be replaced: the old one does not go away (something holds its finalizer)"
            )

    def _send(self, method: str, resource: Resource, key: Key, body: Any = None, subresource: str = "") -> Response:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self._world.server.handle(Request(method, resource.path(*key, subresource), body, kind), ADMIN)

    def _note(self, name: str, response: Response) -> None:
        if not response.ok:
            self._trouble(name, response.message)

    def _trouble(self, name: str, message: str) -> None:
        self.troubles.append(Trouble(self._world.now, name, message))


def _called(item: Object) -> str:
    meta = item.get("metadata") or {}
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{str(item.get('kind')).lower()}/{place}{meta.get('name') or meta.get('generateName') or '(no name)'}"
