"""Rules on what an object is: kind and version, fields the kind has, values of the right type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.fieldpath import FieldPath, path_text
from dra_operator.api.fieldtypes import check_fields
from dra_operator.api.group import ClaimGroup
from dra_operator.api.networkclass import NetworkDeviceClass
from dra_operator.api.policy import AllocationPolicy
from dra_operator.cluster.rest import BY_KIND, OPERATOR_GROUP
from dra_operator.lint.findings import Edit, Found, check_for, declare, rule
from dra_operator.lint.paths import find_path, value_at
from dra_operator.lint.scope import Scope, nearest, same_but_for_case
from dra_operator.lint.subjects import Subject, mapping, mappings, pod_spec

RESOURCE_GROUP = "resource.k8s.io"
_OWN_GROUPS = frozenset({RESOURCE_GROUP, OPERATOR_GROUP})
_FORMER_GROUPS = frozenset({"extensions"})
#: Kinds of our groups that the API server does not have in v1, or that only `simulate` knows.
_OTHER_KINDS = frozenset({"Scenario", "ResourcePoolStatusRequest"})
_LAST_SERVED = {
    "v1beta2": "is deprecated and not served from Kubernetes 1.39 on",
    "v1beta1": "is not served from Kubernetes 1.38 on",
}
_CONVERT = "kubectl-dra convert -f FILE"
#: Kinds whose fields are the same in v1beta1 as in v1.
_UNCHANGED = frozenset({"DeviceClass"})

declare(
    "unreadable",
    "Text that is not YAML or JSON, or not UTF-8; a file that is not there or holds nothing.",
    "kubectl refuses the file",
    "Repair the syntax at this line.",
)
declare(
    "unknown-field",
    "A field that the kind does not have.",
    "kubectl refuses it, other clients' objects lose it silently",
    "Spell the field as the API does, or remove it.",
)
declare(
    "wrong-type",
    "A value of another type than the field has.",
    "the API server cannot decode the object and refuses it",
    "Write a value of the type that is named.",
)


@rule(
    "not-an-object",
    what="A document without apiVersion, kind or a name.",
    outcome="the API server refuses it",
    repair="Add apiVersion, kind and metadata.name.",
)
def not_an_object(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.kind:
        yield Found((), "this is no object: it has no kind")
    elif not subject.api_version:
        known = BY_KIND.get(subject.kind)
        fix = f"Add apiVersion: {known.api_version}." if known else ""
        yield Found(("kind",), f"{subject.title} has no apiVersion", fix)
    elif not subject.name and subject.kind != "Scenario":
        yield Found(("kind",), f"{subject.kind} has no metadata.name")


@rule(
    "unknown-kind",
    what="A kind that its API group does not have.",
    outcome="the API server has no such kind and refuses it",
    repair="Spell the kind, or its apiVersion, as the API does.",
)
def unknown_kind(subject: Subject, scope: Scope) -> Iterator[Found]:
    known = BY_KIND.get(subject.kind)
    if not subject.kind or not subject.api_version or subject.kind in _OTHER_KINDS:
        return
    if known is None and subject.group in _OWN_GROUPS and not _is_former(subject):
        near = nearest(subject.kind, (kind for kind, item in BY_KIND.items() if item.group == subject.group))
        edits = (Edit(("kind",), "set", near),) if near and same_but_for_case(near, subject.kind) else ()
        yield Found(("kind",), f"{subject.group} has no kind {subject.kind}", f"Write {near}." if near else "", edits)
    elif known is not None and subject.group != known.group and (known.group in _OWN_GROUPS and not subject.group):
        yield Found(
            ("apiVersion",),
            f"{subject.kind} is not a kind of {subject.api_version}",
            f"Write apiVersion: {known.api_version}.",
            (Edit(("apiVersion",), "set", known.api_version),),
        )


def _is_former(subject: Subject) -> bool:
    """A kind that earlier versions had, which is for the rule on versions, or that the dialect has."""
    return subject.api_version != f"{RESOURCE_GROUP}/v1" and subject.group == RESOURCE_GROUP


@rule(
    "removed-version",
    what="An API version that is not served any more, or will soon not be.",
    outcome="the API server refuses it, and this operator reads v1 only",
    repair=_CONVERT,
)
def removed_version(subject: Subject, scope: Scope) -> Iterator[Found]:
    if subject.kind in _OTHER_KINDS or not subject.api_version or is_dialect(subject):
        return
    known = BY_KIND.get(subject.kind)
    same_group = known is not None and subject.group in (known.group, *_FORMER_GROUPS)
    if known is None and subject.group == RESOURCE_GROUP and _is_former(subject):
        yield Found(("apiVersion",), f"{subject.kind} of {subject.api_version} is gone")
        return
    if known is None or not same_group or subject.api_version == known.api_version:
        return
    version = subject.api_version.rpartition("/")[2]
    if known.group != RESOURCE_GROUP:
        yield Found(
            ("apiVersion",), f"{subject.api_version} is not served any more", f"Write it as {known.api_version}."
        )
        return
    when = _LAST_SERVED.get(version, "is not served any more")
    certain = version == "v1beta2" or (version == "v1beta1" and subject.kind in _UNCHANGED)
    edits = (Edit(("apiVersion",), "set", known.api_version),) if certain else ()
    fix = f"Write apiVersion: {known.api_version}; the fields are the same." if certain else ""
    yield Found(("apiVersion",), f"{subject.api_version} {when}", fix, edits)


@rule(
    "old-dialect",
    what="A manifest in the string dialect of early documents about DRA, or a pod's claim through `source`.",
    outcome="the API server refuses it, or drops these fields",
    repair=_CONVERT,
)
def old_dialect(subject: Subject, scope: Scope) -> Iterator[Found]:
    for path, problem in _dialect(subject):
        yield Found(path, problem)


def is_dialect(subject: Subject) -> bool:
    return any(True for _ in _dialect(subject))


def _dialect(subject: Subject) -> Iterator[tuple[FieldPath, str]]:
    spec = mapping(subject.value.get("spec"))
    if subject.group == RESOURCE_GROUP:
        for path, selector in mappings(spec.get("selectors"), ("spec", "selectors")):
            if "CELExpression" in selector:
                yield (*path, "CELExpression"), "`CELExpression` is not the field of a selector"
        inner = ("spec", "spec") if "resourceClassName" in mapping(spec.get("spec")) else ("spec",)
        if "resourceClassName" in spec or len(inner) > 1:
            yield (*inner, "resourceClassName"), "`resourceClassName` is not a field of claims"
        if subject.kind == "ResourceSlice" and "devices" in spec and not spec.keys() & {"driver", "pool"}:
            yield ("spec",), "the slice has no driver and no pool"
        if subject.kind == "NetworkDeviceClass":
            yield ("apiVersion",), f"NetworkDeviceClass is a kind of {OPERATOR_GROUP}"
    pod = pod_spec(subject)
    if pod is not None:
        path, value = pod
        if "resourceClaimTemplates" in value:
            yield (*path, "resourceClaimTemplates"), "claim templates are objects of their own"
        for at, claim in mappings(value.get("resourceClaims"), (*path, "resourceClaims")):
            if "source" in claim:
                yield (*at, "source"), "`source` is gone: the reference stands in the claim itself"


@rule(
    "given-twice",
    what="Two objects of one name that differ.",
    outcome="the one applied last replaces the other",
    repair="Keep one of them, or give one another name.",
)
def given_twice(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not mapping(subject.value.get("metadata")).get("name") or not subject.name:
        return
    first = scope.first(subject)
    if first.index < subject.index and first.value != subject.value:
        yield Found(("metadata", "name"), f"{subject.title} was given before, differently")


@check_for()
def shape(subject: Subject, scope: Scope) -> Iterator[Found]:
    """unknown-field and wrong-type, by the types that the API server publishes."""
    if not subject.current:
        return
    if subject.group == OPERATOR_GROUP:
        yield from _own_kind(subject)
        return
    dialect = {path_text(path) for path, _ in _dialect(subject)}
    version = subject.api_version.rpartition("/")[2]
    found = check_fields(subject.group, version, subject.kind, subject.value)
    for unknown in found.unknown:
        if unknown.path not in dialect:
            yield _unknown(subject, unknown)
    for error in found.errors:
        yield _wrong(subject, error)


def _unknown(subject: Subject, unknown: InvalidField) -> Found:
    path = find_path(subject.value, unknown.path)
    near = re.search(r"did you mean (.+)\?", unknown.message)
    name = str(path[-1])
    if near is None:
        return Found(path, f"the field `{name}` is not known", code="unknown-field")
    meant = near[1]
    taken = meant in mapping(value_at(subject.value, path[:-1]))
    edits = (Edit(path, "rename", meant),) if same_but_for_case(name, meant) and not taken else ()
    return Found(path, f"the field `{name}` is not known", f"Write `{meant}`.", edits, "unknown-field")


def _wrong(subject: Subject, error: InvalidField) -> Found:
    path = find_path(subject.value, error.path)
    value = value_at(subject.value, path)
    fix = ""
    edits: tuple[Edit, ...] = ()
    if "put it in quotes" in error.message:
        fix, edits = "Put it in quotes.", (Edit(path, "quote"),)
    elif "without quotes" in error.message and isinstance(value, str):
        meant = _unquoted(value, error.message)
        if meant is not None:
            fix, edits = "Write it without quotes.", (Edit(path, "set", meant),)
    problem, _, repair = error.message.partition("; ")
    return Found(path, problem, fix or (f"{repair[:1].upper()}{repair[1:]}." if repair else ""), edits, "wrong-type")


def _unquoted(text: str, message: str) -> Any:
    if "true or false" in message:
        return {"true": True, "false": False}.get(text.lower())
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


_OWN: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "AllocationPolicy": AllocationPolicy.from_dict,
    "ClaimGroup": ClaimGroup.from_dict,
    "NetworkDeviceClass": NetworkDeviceClass.from_dict,
}


def _own_kind(subject: Subject) -> Iterator[Found]:
    """The project's own kinds, whose models say what is wrong with the first field that is."""
    reader = _OWN.get(subject.kind)
    if reader is None:
        return
    try:
        reader(dict(subject.value))
    except InvalidObject as error:
        path = find_path(subject.value, error.field.path)
        unknown = error.field.message.startswith("unknown field")
        near = re.search(r"did you mean (.+)\?", error.field.message)
        if unknown and near is not None:
            meant = near[1]
            edits = (Edit(path, "rename", meant),) if same_but_for_case(str(path[-1]), meant) else ()
            yield Found(path, f"the field `{path[-1]}` is not known", f"Write `{meant}`.", edits, "unknown-field")
        else:
            yield Found(path, error.field.message, code="unknown-field" if unknown else "invalid-value")
