"""Which object a path means, and which objects a list request selects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.memory.refusals import bad_request, no_such_path
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import RESOURCES, Resource

_BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class Route:
    """`namespace` "" with a namespaced kind is the collection over all namespaces; `name` "" the collection."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


def route(path: str) -> Route:
    """Raises Refused (404) for a path nothing is served under."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    # namespaces/NAME and namespaces/NAME/status are the Namespace object itself.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = _BY_PATH.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    return Route(resource, namespace, name, rest[2] if len(rest) > 2 else "")


Selects = Callable[[Object], bool]

#: Field selectors beside metadata.name and metadata.namespace, by kind and field.
_FIELDS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("Pod", "spec.nodeName"): (("spec", "nodeName"), ""),
    ("Pod", "spec.schedulerName"): (("spec", "schedulerName"), ""),
    ("Pod", "status.phase"): (("status", "phase"), ""),
    ("ResourceSlice", "spec.nodeName"): (("spec", "nodeName"), ""),
    ("ResourceSlice", "spec.driver"): (("spec", "driver"), ""),
    ("ResourceSlice", "spec.pool.name"): (("spec", "pool", "name"), ""),
    ("Namespace", "status.phase"): (("status", "phase"), ""),
}


def field_selector(resource: Resource, text: str) -> Selects:
    """Comma-separated `field=value`, `field==value`, `field!=value`. Raises Refused (400) for a field the kind has no index on."""
    checks: list[tuple[tuple[str, ...], str, bool]] = []
    for term in filter(None, text.split(",")):
        field, equal, value = _split(term)
        if field in ("metadata.name", "metadata.namespace"):
            path: tuple[str, ...] = tuple(field.split("."))
        elif (resource.kind, field) in _FIELDS:
            path = _FIELDS[resource.kind, field][0]
        else:
            raise bad_request(
                f'Unable to find "{resource.api_version}, Resource={resource.plural}" that match field selector "{text}": '
                f"field label not supported: {field}"
            )
        checks.append((path, value, equal))
    return lambda item: all(((dig(item, *path) or "") == value) == equal for path, value, equal in checks)


def label_selector(text: str) -> Selects:
    """The text form: `a=b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`. Raises Refused (400)."""
    checks = [_label_check(term.strip()) for term in _terms(text) if term.strip()]
    return lambda item: all(check(item["metadata"].get("labels") or {}) for check in checks)


def _terms(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    terms, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            terms.append(text[start:index])
            start = index + 1
    return [*terms, text[start:]]


def _label_check(term: str) -> Callable[[dict[str, Any]], bool]:
    words = term.replace("(", " (").split()
    if len(words) > 2 and words[1] in ("in", "notin"):
        values = {value.strip() for value in term[term.index("(") + 1 : term.rindex(")")].split(",")}
        key, inside = words[0], words[1] == "in"
        if inside:
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if "=" in term:
        key, equal, value = _split(term)
        return lambda labels: (labels.get(key) == value) == equal
    if term.startswith("!"):
        return lambda labels: term[1:].strip() not in labels
    if len(words) != 1:
        raise bad_request(f"unable to parse requirement: {term!r}")
    return lambda labels: term in labels


def _split(term: str) -> tuple[str, bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        if operator in term:
            left, _, right = term.partition(operator)
            return left.strip(), equal, right.strip()
    raise bad_request(f"invalid selector: {term!r}; can't understand it")
