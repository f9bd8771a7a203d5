"""The objects that are looked at, and the parts of them that several rules read.

Whatever an object holds, nothing here raises: a part of the wrong shape is left out, and the rule on shapes says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.fieldpath import FieldPath
from dra_operator.cluster.rest import BY_KIND

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """One object of the input. `index` is its place in it."""

    index: int
    value: Object

    @property
    def kind(self) -> str:
        kind = self.value.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def api_version(self) -> str:
        version = self.value.get("apiVersion")
        return version if isinstance(version, str) else ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def name(self) -> str:
        metadata = mapping(self.value.get("metadata"))
        name = metadata.get("name") or metadata.get("generateName")
        return name if isinstance(name, str) else ""

    @property
    def namespace(self) -> str:
        """As kubectl fills it in; "" for cluster-scoped kinds."""
        resource = BY_KIND.get(self.kind)
        if resource is not None and not resource.namespaced:
            return ""
        namespace = mapping(self.value.get("metadata")).get("namespace")
        return namespace if isinstance(namespace, str) and namespace else "default"

    @property
    def current(self) -> bool:
        """Whether it has the version of its kind that the rules know."""
        resource = BY_KIND.get(self.kind)
        return resource is not None and resource.api_version == self.api_version

    @property
    def title(self) -> str:
        name = self.name or "(no name)"
        return f"{self.kind or 'object'} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"


@dataclass(frozen=True, slots=True)
class Detail:
    """What one request, or one of its alternatives, asks for. `reference` is "request" or "request/subrequest"."""

    path: FieldPath
    reference: str
    value: Object

    @property
    def device_class(self) -> str:
        name = self.value.get("deviceClassName")
        return name if isinstance(name, str) else ""

    @property
    def count(self) -> int:
        """The fewest devices it takes."""
        count = self.value.get("count")
        return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1


@dataclass(frozen=True, slots=True)
class Place:
    """A selector's expression and where it stands."""

    path: FieldPath
    expression: str


def mapping(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Object]]:
    """The mappings in a list, with their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                yield (*path, index), item


def texts(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """The texts in a list, with their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, str):
                yield (*path, index), item


def claim_devices(subject: Subject) -> tuple[FieldPath, Object]:
    """`devices` of a claim or a claim template, with its path."""
    if subject.kind == "ResourceClaimTemplate":
        inner = mapping(mapping(subject.value.get("spec")).get("spec"))
        return ("spec", "spec", "devices"), mapping(inner.get("devices"))
    return ("spec", "devices"), mapping(mapping(subject.value.get("spec")).get("devices"))


def details(subject: Subject) -> Iterator[Detail]:
    """All that the requests of a claim or template ask for, alternatives one by one."""
    path, devices = claim_devices(subject)
    for at, request in mappings(devices.get("requests"), (*path, "requests")):
        name = str(request.get("name") or "")
        if isinstance(request.get("exactly"), Mapping):
            yield Detail((*at, "exactly"), name, request["exactly"])
        for inner, alternative in mappings(request.get("firstAvailable"), (*at, "firstAvailable")):
            yield Detail(inner, f"{name}/{alternative.get('name') or ''}", alternative)


def selectors(value: Object, path: FieldPath) -> Iterator[Place]:
    """The expressions in `selectors` of a part of an object."""
    for at, selector in mappings(value.get("selectors"), (*path, "selectors")):
        expression = mapping(selector.get("cel")).get("expression")
        if isinstance(expression, str) and expression:
            yield Place((*at, "cel", "expression"), expression)


def all_selectors(subject: Subject) -> Iterator[Place]:
    """All expressions in an object."""
    spec = mapping(subject.value.get("spec"))
    match subject.kind:
        case "DeviceClass" | "NetworkDeviceClass":
            yield from selectors(spec, ("spec",))
        case "ResourceClaim" | "ResourceClaimTemplate":
            for detail in details(subject):
                yield from selectors(detail.value, detail.path)
        case "AllocationPolicy":
            for field in ("quota", "reserve"):
                for at, item in mappings(spec.get(field), ("spec", field)):
                    yield from selectors(item, at)


_POD_PATHS: Mapping[str, FieldPath] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        ("spec", "template", "spec"),
    ),
}


def pod_spec(subject: Subject) -> tuple[FieldPath, Object] | None:
    """The spec of the pod that an object is or makes."""
    path = _POD_PATHS.get(subject.kind)
    if path is None or subject.group not in ("", "apps", "batch"):
        return None
    value: Any = subject.value
    for step in path:
        value = mapping(value).get(str(step))
    return (path, value) if isinstance(value, Mapping) else None


def containers(spec: Object, path: FieldPath) -> Iterator[tuple[FieldPath, Object]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from mappings(spec.get(field), (*path, field))
