"""ClaimReport and DeviceClassReport (`dra-operator.dev/v1alpha1`): bodies to write, and what a restart reads back.

A report has no spec and no status subresource, so one write creates it whole. `status` is a plain dictionary in the
API's own words (camelCase), made by the engine; here are its metadata, what follows from it, and the parts the engine
must know again. Reading is lenient: a part that cannot be read is left out, for a report is only ever replaced by a
better one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, NotRequired, TypedDict

from dra_operator.api.errors import InvalidField
from dra_operator.api.meta import ObjectMeta, format_time, parse_time, read_object
from dra_operator.api.sharing import shared_text

API_VERSION = "dra-operator.dev/v1alpha1"


class Phase(StrEnum):
    """In order of precedence: the first that applies."""

    Lost = "Lost"
    Drifted = "Drifted"
    Reserved = "Reserved"
    Allocated = "Allocated"
    Preempting = "Preempting"
    QuotaExceeded = "QuotaExceeded"
    Unsatisfiable = "Unsatisfiable"
    Starved = "Starved"
    Queued = "Queued"


# Times are RFC 3339 text (`meta.format_time`).
class ConditionDict(TypedDict):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str


class QueueDict(TypedDict, total=False):
    """`position` from 1, absent once allocated; `nextAttempt` while backed off."""

    position: int
    waitingSince: str
    priority: int
    effectivePriority: int
    attempts: int
    nextAttempt: str


class DeviceDict(TypedDict):
    """One allocated device, or (without `request`) one held."""

    request: NotRequired[str]
    driver: str
    pool: str
    device: str


class VictimDict(TypedDict):
    name: str
    namespace: NotRequired[str]
    uid: NotRequired[str]
    priority: NotRequired[int]


class PreemptionDict(TypedDict, total=False):
    """`preemptedBy`: namespace/name of the pod or claim that this one made room for."""

    victims: list[VictimDict]
    preemptedBy: str


class HoldDict(TypedDict):
    nodes: list[str]
    devices: list[DeviceDict]
    since: str


#: `for` is the key of the owner whose pods avoid the node: a keyword, hence this form.
AvoidDict = TypedDict("AvoidDict", {"for": str, "node": str, "until": str, "why": str})


class UserDict(TypedDict):
    name: str
    uid: str


class ClassMarkDict(TypedDict):
    hash: str
    generation: int


class ClassDict(TypedDict):
    """`hash` and `generation` as they were at the allocation. `now`: where they are others; `drift`: what does not match any more."""

    name: str
    hash: str
    generation: NotRequired[int]
    now: NotRequired[ClassMarkDict]
    drift: NotRequired[str]


class ClaimStatusDict(TypedDict, total=False):
    """`status` of a ClaimReport. `deviceNames` is filled in by `claim_report_body`."""

    phase: str
    reason: str
    conditions: list[ConditionDict]
    policy: str
    queue: QueueDict
    node: str
    deviceNames: str
    devices: list[DeviceDict]
    explanation: dict[str, Any]
    preemption: PreemptionDict
    hold: HoldDict
    avoid: list[AvoidDict]
    usedBy: UserDict
    classes: list[ClassDict]


class ClassStatusDict(TypedDict, total=False):
    """`status` of a DeviceClassReport. total = allocated + free + held + reserved + unusable.

    `fragmentation`: percent of the free devices that typical demand cannot use.
    """

    total: int
    allocated: int
    free: int
    held: int
    reserved: int
    unusable: int
    tainted: int
    incomplete: int
    waitingClaims: int
    oldestWait: str
    largestFreeGroup: int
    fragmentation: int
    message: str


def claim_report_body(
    claim: ObjectMeta, status: Mapping[str, Any], resource_version: str | None = None
) -> dict[str, Any]:
    """The whole report of a claim, owned by it so that it goes with it.

    `resource_version` is the one of the report to replace, None to create it. What is None in `status` is left out.
    """
    filled = _present(status)
    if devices := filled.get("devices"):
        filled["deviceNames"] = device_names(devices)
    metadata: dict[str, Any] = {
        "namespace": claim.namespace,
        "name": claim.name,
        # Not blockOwnerDeletion: it needs a right over the claim's finalizers, and the report must not keep the claim.
        "ownerReferences": [
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": claim.name, "uid": claim.uid}
        ],
    }
    return _body("ClaimReport", metadata, filled, resource_version)


def class_report_body(
    class_name: str, status: Mapping[str, Any], resource_version: str | None = None
) -> dict[str, Any]:
    """The whole report of a device class. Without an owner: it stays while claims wait for a class that was deleted."""
    return _body("DeviceClassReport", {"name": class_name}, _present(status), resource_version)


def condition(
    type: str,
    status: bool | None,
    reason: str,
    message: str,
    *,
    now: float,
    previous: Iterable[Mapping[str, Any]] = (),
) -> ConditionDict:
    """A condition after the API conventions: its time is that of the last change of `status` (None: Unknown).

    `previous` are the conditions of the report that this one replaces; `now` is in seconds since the epoch.
    """
    word = "Unknown" if status is None else str(status)
    since = format_time(now)
    for known in previous:
        if known.get("type") == type and known.get("status") == word:
            since = known.get("lastTransitionTime") or since
    return {"type": type, "status": word, "lastTransitionTime": since, "reason": reason, "message": message}


def device_names(devices: Iterable[Mapping[str, Any]]) -> str:
    """The text of the DEVICES column, in the order of the allocation."""
    return ",".join(str(device["device"]) for device in devices)


def _body(kind: str, metadata: dict[str, Any], status: dict[str, Any], resource_version: str | None) -> dict[str, Any]:
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}


def _present(status: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None: the API server refuses a null where the schema has none."""
    return {name: _pruned(value) for name, value in status.items() if value is not None}


def _pruned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _present(value)
    return [_pruned(item) for item in value] if isinstance(value, list | tuple) else value


class Avoid(NamedTuple):
    """`owner` is the key of the pod's controller (or pod); `until` in seconds since the epoch."""

    owner: str
    node: str
    until: float
    why: str


class HeldDevice(NamedTuple):
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Hold:
    """`since` in seconds since the epoch."""

    nodes: tuple[str, ...]
    devices: tuple[HeldDevice, ...]
    since: float


class User(NamedTuple):
    """The pod that used a claim last."""

    name: str
    uid: str


class SeenClass(NamedTuple):
    """A class as it was when the devices were chosen."""

    name: str
    hash: str
    drift: str | None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """A report as stored. `status` is the dictionary as read; the other fields are what of it outlives a restart.

    `claim_uid` is the claim it was written for: one of the same name made later inherits nothing.
    """

    meta: ObjectMeta
    claim_uid: str
    status: Mapping[str, Any] = field(compare=False)
    phase: Phase | None = None
    hold: Hold | None = None
    avoid: tuple[Avoid, ...] = ()
    used_by: User | None = None
    classes: tuple[SeenClass, ...] = ()
    waiting_since: float | None = None
    attempts: int = 0
    next_attempt: float | None = None
    starved_since: float | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ClaimReport:
        """Raises InvalidObject where not even the metadata can be read."""
        return read_object("ClaimReport", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> ClaimReport:
        status = _mapping(data.get("status"))
        queue = _mapping(status.get("queue"))
        attempts = queue.get("attempts")
        starved = cls._condition(status, "Starved")
        return cls(
            meta=meta,
            claim_uid=next((owner.uid for owner in meta.owners if owner.kind == "ResourceClaim"), ""),
            status=status,
            phase=next((phase for phase in Phase if phase == status.get("phase")), None),
            hold=_hold(_mapping(status.get("hold"))),
            avoid=tuple(entry for item in _items(status.get("avoid")) if (entry := _avoid(item)) is not None),
            used_by=_user(_mapping(status.get("usedBy"))),
            classes=tuple(
                SeenClass(
                    shared_text(item["name"]), shared_text(item["hash"]), item.get("drift") or None, _generation(item)
                )
                for item in _items(status.get("classes"))
                if item.get("name") and item.get("hash")
            ),
            waiting_since=_time(queue.get("waitingSince")),
            attempts=attempts if isinstance(attempts, int) else 0,
            next_attempt=_time(queue.get("nextAttempt")),
            starved_since=_time(starved.get("lastTransitionTime")) if starved.get("status") == "True" else None,
        )

    @staticmethod
    def _condition(status: Mapping[str, Any], type: str) -> Mapping[str, Any]:
        return next((item for item in _items(status.get("conditions")) if item.get("type") == type), {})

    @property
    def conditions(self) -> tuple[Mapping[str, Any], ...]:
        """For `condition(previous=…)`."""
        return tuple(_items(self.status.get("conditions")))


@dataclass(frozen=True, slots=True)
class DeviceClassReport:
    """A report as stored; nothing in it outlives a restart but the text itself, which tells whether to write again."""

    meta: ObjectMeta
    status: Mapping[str, Any] = field(compare=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceClassReport:
        """Raises InvalidObject where not even the metadata can be read."""
        return read_object("DeviceClassReport", data, lambda item, meta: cls(meta, _mapping(item.get("status"))))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _time(value: Any) -> float | None:
    try:
        return parse_time(value)
    except InvalidField:
        return None


def _hold(data: Mapping[str, Any]) -> Hold | None:
    since = _time(data.get("since"))
    if since is None:
        return None
    nodes = data.get("nodes")
    devices = tuple(
        HeldDevice(item["driver"], item["pool"], item["device"])
        for item in _items(data.get("devices"))
        if {"driver", "pool", "device"} <= item.keys()
    )
    return Hold(tuple(map(str, nodes)) if isinstance(nodes, list) else (), devices, since)


def _avoid(data: Mapping[str, Any]) -> Avoid | None:
    until = _time(data.get("until"))
    if until is None or not data.get("node"):
        return None
    return Avoid(str(data.get("for") or ""), str(data["node"]), until, str(data.get("why") or ""))


def _generation(data: Mapping[str, Any]) -> int:
    found = data.get("generation")
    return found if isinstance(found, int) else 0


def _user(data: Mapping[str, Any]) -> User | None:
    return User(data["name"], data["uid"]) if data.get("name") and data.get("uid") else None
