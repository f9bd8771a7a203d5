"""What the engine wants done, and what became of it. Values only; `cluster.requests` turns a decision into an API request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dra_operator.api.meta import Key


@dataclass(frozen=True, slots=True)
class WriteClaimStatus:
    """UpdateStatus of a claim: an allocation with its reservation, or both taken away.

    `body` is the whole claim as last seen (with its resourceVersion) and the new status.
    """

    id: int
    claim: Key
    uid: str
    body: dict[str, Any]
    action: Literal["allocate", "deallocate"]


@dataclass(frozen=True, slots=True)
class PatchClaim:
    """A JSON merge patch of a claim's metadata (finalizer, annotation, managed label), with resourceVersion."""

    id: int
    claim: Key
    uid: str
    patch: dict[str, Any]
    action: Literal["protect", "unmanage"]


@dataclass(frozen=True, slots=True)
class PatchPod:
    """A strategic merge patch that removes our scheduling gate, and pins the pod where `pinned` names a node.

    `patch` carries the pod's uid, so that a successor of the same name is not patched. `node`: where kube-scheduler should
    look first; None where the engine has chosen no node.
    """

    id: int
    pod: Key
    uid: str
    patch: dict[str, Any]
    pinned: str | None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class EvictPod:
    """An eviction through the Eviction API, with the pod's uid as precondition. `grace_period` in seconds, None leaves it to the pod."""

    id: int
    pod: Key
    uid: str
    reason: str
    dry_run: bool = False
    grace_period: int | None = None


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Create (no resourceVersion in `body`) or replace a ClaimReport or DeviceClassReport; `body` is the whole object."""

    id: int
    kind: Literal["ClaimReport", "DeviceClassReport"]
    key: Key
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """A report whose object is gone (class reports have no owner that would take them along)."""

    id: int
    kind: Literal["ClaimReport", "DeviceClassReport"]
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class WritePolicyStatus:
    """UpdateStatus of an AllocationPolicy; `body` is the whole object as last seen (with its resourceVersion) and the new status."""

    id: int
    policy: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteGroupStatus:
    """UpdateStatus of a ClaimGroup; `body` as in WritePolicyStatus."""

    id: int
    group: Key
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteDeviceClass:
    """Create (no resourceVersion in `body`) or replace the DeviceClass that the NetworkDeviceClass of the same name owns."""

    id: int
    name: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteNetworkStatus:
    """UpdateStatus of a NetworkDeviceClass; `body` as in WritePolicyStatus."""

    id: int
    name: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """A Kubernetes Event (events.k8s.io/v1) about `regarding` (an object reference: apiVersion, kind, namespace, name, uid)."""

    id: int
    regarding: dict[str, str]
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


Decision = (
    WriteClaimStatus
    | PatchClaim
    | PatchPod
    | EvictPod
    | WriteReport
    | DeleteReport
    | WritePolicyStatus
    | WriteGroupStatus
    | WriteDeviceClass
    | WriteNetworkStatus
    | RecordEvent
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a decision. `status` is the HTTP status, 0 where no answer came (the write may have happened).

    `object` is the object the API server returned, None on errors.
    """

    decision: Decision
    status: int
    reason: str = ""
    message: str = ""
    object: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 400
