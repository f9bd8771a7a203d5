"""Answers of the API server that are not success: `metav1.Status` bodies with the reasons, codes and wording of apimachinery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.rest import Resource, Response


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error. `reason` is a metav1.CauseType such as FieldValueInvalid; `message` what Go's field.Error prints after the field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def unsupported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {choices}")


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def too_long(field: str, most: int) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


class Refused(Exception):
    """Raised while a request is served; becomes its response."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def response(self) -> Response:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return Response(self.code, body)


def qualified(resource: Resource) -> str:
    """`pods`, `resourceclaims.resource.k8s.io`: how messages name a kind's collection."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return {**details, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f'{qualified(resource)} "{name}" not found', _details(resource, name))


def already_exists(resource: Resource, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{qualified(resource)} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
    return Refused(409, "Conflict", message, _details(resource, name))


def stale(resource: Resource, name: str) -> Refused:
    return conflict(
        resource, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def forbidden(resource: Resource, name: str, why: str) -> Refused:
    return Refused(403, "Forbidden", f'{qualified(resource)} "{name}" is forbidden: {why}', _details(resource, name))


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def unprocessable(resource: Resource, name: str, causes: Sequence[Cause]) -> Refused:
    """422 Invalid, with one cause a field error."""
    texts = [str(cause) for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {listed}', details)


def over_budget(budget: str, needed: int, healthy: int) -> Refused:
    """The Eviction API's answer when the disruption budget is used up."""
    return Refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently",
                }
            ]
        },
    )


def expired(version: int, oldest: int) -> Refused:
    return Refused(410, "Expired", f"too old resource version: {version} ({oldest})")


def unsupported_media_type(accepted: Sequence[str]) -> Refused:
    return Refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def internal_error(message: str) -> Refused:
    return Refused(500, "InternalError", message)
