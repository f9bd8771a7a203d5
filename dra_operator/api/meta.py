"""Object metadata (`metav1.ObjectMeta`) and the key by which objects are looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from dra_operator.api.errors import SHAPE_ERRORS, InvalidField, InvalidObject, describe, each
from dra_operator.api.sharing import EMPTY, shared, shared_text, shared_texts

__all__ = ["EMPTY", "Key", "ObjectMeta", "OwnerReference"]
T = TypeVar("T")


class Key(NamedTuple):
    """Namespace ("" for cluster-scoped kinds) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class OwnerReference:
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """`created` and `deleted` are seconds since the epoch; `created` is None for objects that were never stored.

    The key is kept and not made from its parts: an object is looked up by it a hundred times while it is placed.
    """

    key: Key
    uid: str
    resource_version: str
    generation: int
    created: float | None
    deleted: float | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    owners: tuple[OwnerReference, ...]

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def controller(self) -> OwnerReference | None:
        """The managing controller's reference, where there is one."""
        return next((owner for owner in self.owners if owner.controller), None)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ObjectMeta:
        return cls(
            key=Key(shared_text(data.get("namespace") or ""), data.get("name") or ""),
            uid=data.get("uid") or "",
            resource_version=data.get("resourceVersion") or "",
            generation=data.get("generation") or 0,
            created=parse_time(data.get("creationTimestamp")),
            deleted=parse_time(data.get("deletionTimestamp")),
            labels=shared_texts(data.get("labels")),
            annotations=shared_texts(data.get("annotations")),
            finalizers=shared(tuple(data.get("finalizers") or ())),
            owners=each("ownerReferences", data.get("ownerReferences"), _owner),
        )

    def renamed(self, name: str) -> ObjectMeta:
        """The same under another name, in the same namespace."""
        return replace(self, key=Key(self.namespace, name))


def _owner(data: dict[str, Any]) -> OwnerReference:
    """A ReplicaSet is named by many pods; a pod by a claim or two, and its name is not worth remembering."""
    kind, name, uid = shared_text(data["kind"]), data["name"], data.get("uid") or ""
    if kind != "Pod":
        name, uid = shared_text(name), shared_text(uid)
    return OwnerReference(kind, name, uid, bool(data.get("controller")))


def parse_time(text: str | None) -> float | None:
    """RFC 3339 text as seconds since the epoch. Raises InvalidField."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, TypeError):
        raise InvalidField(f"{text!r} is not an RFC 3339 time") from None


def format_time(seconds: float) -> str:
    """Seconds since the epoch as `metav1.Time`: RFC 3339, UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Seconds since the epoch as `metav1.MicroTime` (Leases, Events)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_object(kind: str, data: dict[str, Any], parse: Callable[[dict[str, Any], ObjectMeta], T]) -> T:
    """Read one object with `parse(data, meta)`. Raises InvalidObject, whatever is wrong with `data`."""
    namespace = name = ""
    try:
        raw = data.get("metadata") or {}
        namespace, name = str(raw.get("namespace") or ""), str(raw.get("name") or raw.get("generateName") or "")
        return parse(data, ObjectMeta.from_dict(raw))
    except InvalidField as error:
        raise InvalidObject(kind, namespace, name, error) from None
    except SHAPE_ERRORS as error:
        raise InvalidObject(kind, namespace, name, InvalidField(f"cannot be read ({describe(error, data)})")) from None
