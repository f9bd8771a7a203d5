"""What the API server's validation would refuse: the embedded API server's own checks, told with the field and a repair."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dra_operator.api.fieldpath import FieldPath, path_text
from dra_operator.api.fieldtypes import check_fields
from dra_operator.cluster.memory import defaults
from dra_operator.cluster.memory.refusals import Cause
from dra_operator.cluster.memory.validation import claims, pods
from dra_operator.cluster.memory.values import clone
from dra_operator.lint.findings import Edit, Found, check_for, declare
from dra_operator.lint.paths import find_path, value_at
from dra_operator.lint.scope import Scope, nearest, same_but_for_case
from dra_operator.lint.subjects import Subject, mapping, mappings, pod_spec

_REFUSED = "the API server refuses the object"

declare("missing-field", "A required field is missing.", _REFUSED, "Fill the field in.")
declare(
    "invalid-value",
    "A value that the API's validation does not accept.",
    _REFUSED,
    "Write a value as the message asks for.",
)
declare("unsupported-value", "A word that is none of the possible ones.", _REFUSED, "Choose one of the words listed.")
declare("duplicate-name", "Two entries of one name in a list.", _REFUSED, "Give each its own name.")
declare("over-limit", "More entries, or a longer text, than the API takes.", _REFUSED, "Split it, or leave some out.")
declare(
    "unknown-pod-claim",
    "A container uses a claim that the pod does not have.",
    _REFUSED,
    "Name one of spec.resourceClaims of the pod.",
)
declare(
    "unknown-request",
    "A constraint or a config names a request that the claim does not have.",
    _REFUSED,
    "Name a request of the claim, or request/subrequest.",
)

_CODES = {
    "FieldValueRequired": "missing-field",
    "FieldValueInvalid": "invalid-value",
    "FieldValueForbidden": "invalid-value",
    "FieldValueNotSupported": "unsupported-value",
    "FieldValueDuplicate": "duplicate-name",
    "FieldValueTooMany": "over-limit",
    "FieldValueTooLong": "over-limit",
    "FieldValueNotFound": "unknown-pod-claim",
}
#: Attributes that drivers publish under one common domain.
STANDARD_DOMAIN = "resource.kubernetes.io"
STANDARD_ATTRIBUTES = frozenset({"numaNode", "pciBusID", "pcieRoot"})
_UNKNOWN_REQUEST = "must be the name of a request in the claim"


def _claim(item: dict[str, Any]) -> list[Cause]:
    defaults.claim(item)
    return claims.claim_created(item)


def _template(item: dict[str, Any]) -> list[Cause]:
    defaults.claim_template(item)
    return claims.template_created(item)


_VALIDATIONS: Mapping[str, Callable[[dict[str, Any]], list[Cause]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceClass": claims.class_valid,
}


@check_for()
def refused(subject: Subject, scope: Scope) -> Iterator[Found]:
    """All that validation says about claims, templates, classes and the pods that workloads make."""
    if not subject.current:
        return
    validation = _VALIDATIONS.get(subject.kind)
    if validation is not None:
        yield from _told(subject, scope, (), _causes(validation, _decodable(subject)))
        return
    pod = pod_spec(subject)
    if pod is not None:
        path, _ = pod
        spec = value_at(_decodable(subject), path)
        yield from _told(subject, scope, path, _causes(pods.created, {"spec": spec}))


def _decodable(subject: Subject) -> dict[str, Any]:
    """A copy without the values of wrong types, which are told by the rule on these."""
    item: dict[str, Any] = clone(dict(subject.value))
    version = subject.api_version.rpartition("/")[2]
    for error in check_fields(subject.group, version, subject.kind, subject.value).errors:
        path = find_path(item, error.path)
        holder = value_at(item, path[:-1])
        if isinstance(holder, dict) and path:
            holder.pop(str(path[-1]), None)
    return item


def _causes(validation: Callable[[dict[str, Any]], list[Cause]], item: dict[str, Any]) -> list[Cause]:
    """Validation expects what decodes; where it does not, the rule on types has said so."""
    try:
        return validation(item)
    except (AttributeError, TypeError, ValueError, KeyError):
        return []


def _told(subject: Subject, scope: Scope, prefix: FieldPath, causes: list[Cause]) -> Iterator[Found]:
    for cause in causes:
        field = cause.field.removeprefix("spec.") if prefix else cause.field
        path = find_path(subject.value, f"{path_text(prefix)}.{field}" if prefix else field)
        if _UNKNOWN_REQUEST in cause.message:
            yield _reference(subject, path)
        elif cause.reason == "FieldValueNotFound":
            yield _pod_claim(subject, path)
        elif not _in_dialect(subject, path):
            yield _plain(subject, scope, path, cause)


def _plain(subject: Subject, scope: Scope, path: FieldPath, cause: Cause) -> Found:
    """What validation says, without the patterns that only machines read."""
    problem = re.sub(
        r"^(Required value|Invalid value|Unsupported value|Duplicate value|Forbidden|Too many|Too long): ",
        "",
        cause.message,
    )
    problem = re.sub(r" \(e\.g\. .*\)$", "", problem)
    if cause.message == "Required value":
        problem = f"{path_text(path)} is missing"
    code, fix, value = _CODES.get(cause.reason, "invalid-value"), "", value_at(subject.value, path)
    if path[-1:] == ("deviceClassName",) and isinstance(value, str):
        near = nearest(value, scope.class_names)
        if near is not None:
            edits = (Edit(path, "set", near),) if same_but_for_case(near, value) else ()
            return Found(path, problem, f"Write {near}.", edits, code)
    if "must include a domain" in problem:
        domain = STANDARD_DOMAIN if value in STANDARD_ATTRIBUTES else "DRIVER"
        fix = f"Write {domain}/{value}."
    return Found(path, problem, fix, code=code)


def _reference(subject: Subject, path: FieldPath) -> Found:
    value = value_at(subject.value, path)
    devices = value_at(subject.value, path[: path.index("devices")])
    known = sorted(str(name) for name in claims.request_names(dict(mapping(devices))) if name)
    near = nearest(str(value), known)
    edits = (Edit(path, "set", near),) if near and same_but_for_case(near, str(value)) else ()
    fix = f"Write {near}." if near else f"Name one of {', '.join(known)}." if known else ""
    return Found(path, f"the claim has no request {value!r}", fix, edits, "unknown-request")


def _pod_claim(subject: Subject, path: FieldPath) -> Found:
    path = (*path, "name")
    value, pod = value_at(subject.value, path), pod_spec(subject)
    entries = mappings(pod[1].get("resourceClaims"), ()) if pod else ()
    known = [str(entry.get("name")) for _, entry in entries]
    near = nearest(str(value), known)
    edits = (Edit(path, "set", near),) if near and same_but_for_case(near, str(value)) else ()
    fix = f"Write {near}." if near else f"Name one of {', '.join(known)}." if known else "Add the claim to the pod."
    return Found(path, f"the pod has no claim {value!r}", fix, edits, "unknown-pod-claim")


def _in_dialect(subject: Subject, path: FieldPath) -> bool:
    """A selector without `cel`, a pod's claim without a reference: in the dialect these have other names, said already."""
    if path[-1:] == ("cel",):
        return "CELExpression" in mapping(value_at(subject.value, path[:-1]))
    return "source" in mapping(value_at(subject.value, path))
