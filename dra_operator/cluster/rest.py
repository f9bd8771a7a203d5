"""Requests to and responses from a Kubernetes API server as plain values, and the kinds this project touches.

The adapters of `kubernetes` send them over HTTP, `memory` answers them itself. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind. `group` "" is core/v1."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection (no name) or the object."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True)
class Request:
    """`body` is a JSON value (already plain Python). `query` values are text as in a URL."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """`body` is the object, the list, or a `metav1.Status` where `status` >= 400."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def reason(self) -> str:
        """`metav1.Status` reason (Conflict, NotFound, Invalid, Forbidden, TooManyRequests…); "" where ok."""
        return "" if self.ok else str(self.body.get("reason") or "")

    @property
    def message(self) -> str:
        return "" if self.ok else str(self.body.get("message") or f"HTTP {self.status}")


def _kind(group: str, version: str, kind: str, *, namespaced: bool = True, plural: str = "") -> Resource:
    return Resource(group, version, plural or kind.lower() + ("es" if kind.endswith("s") else "s"), kind, namespaced)


OPERATOR_GROUP = "dra-operator.dev"

PODS = _kind("", "v1", "Pod")
NODES = _kind("", "v1", "Node", namespaced=False)
NAMESPACES = _kind("", "v1", "Namespace", namespaced=False)
RESOURCE_CLAIMS = _kind("resource.k8s.io", "v1", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = _kind("resource.k8s.io", "v1", "ResourceClaimTemplate")
DEVICE_CLASSES = _kind("resource.k8s.io", "v1", "DeviceClass", namespaced=False)
RESOURCE_SLICES = _kind("resource.k8s.io", "v1", "ResourceSlice", namespaced=False)
DEVICE_TAINT_RULES = _kind("resource.k8s.io", "v1", "DeviceTaintRule", namespaced=False)
PRIORITY_CLASSES = _kind("scheduling.k8s.io", "v1", "PriorityClass", namespaced=False)
DISRUPTION_BUDGETS = _kind("policy", "v1", "PodDisruptionBudget")
DEPLOYMENTS = _kind("apps", "v1", "Deployment")
REPLICA_SETS = _kind("apps", "v1", "ReplicaSet")
STATEFUL_SETS = _kind("apps", "v1", "StatefulSet")
DAEMON_SETS = _kind("apps", "v1", "DaemonSet")
JOBS = _kind("batch", "v1", "Job")
CRON_JOBS = _kind("batch", "v1", "CronJob")
EVENTS = _kind("events.k8s.io", "v1", "Event")
LEASES = _kind("coordination.k8s.io", "v1", "Lease")
ALLOCATION_POLICIES = _kind(
    OPERATOR_GROUP, "v1alpha1", "AllocationPolicy", namespaced=False, plural="allocationpolicies"
)
CLAIM_REPORTS = _kind(OPERATOR_GROUP, "v1alpha1", "ClaimReport")
CLAIM_GROUPS = _kind(OPERATOR_GROUP, "v1alpha1", "ClaimGroup")
DEVICE_CLASS_REPORTS = _kind(OPERATOR_GROUP, "v1alpha1", "DeviceClassReport", namespaced=False)
NETWORK_DEVICE_CLASSES = _kind(
    OPERATOR_GROUP, "v1alpha1", "NetworkDeviceClass", namespaced=False, plural="networkdeviceclasses"
)

#: Every kind both worlds know.
RESOURCES: tuple[Resource, ...] = (
    PODS, NODES, NAMESPACES,
    RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES, DEVICE_TAINT_RULES,
    PRIORITY_CLASSES, DISRUPTION_BUDGETS,
    DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS,
    EVENTS, LEASES,
    ALLOCATION_POLICIES, CLAIM_REPORTS, CLAIM_GROUPS, DEVICE_CLASS_REPORTS, NETWORK_DEVICE_CLASSES,
)  # fmt: skip

BY_KIND: Mapping[str, Resource] = {resource.kind: resource for resource in RESOURCES}

#: What the engine must have listed before it decides, and follows afterwards.
ENGINE_KINDS: tuple[Resource, ...] = (
    NAMESPACES, PRIORITY_CLASSES, NODES, DEVICE_TAINT_RULES, DEVICE_CLASSES, RESOURCE_SLICES, DISRUPTION_BUDGETS,
    RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, PODS,
    ALLOCATION_POLICIES, CLAIM_REPORTS, CLAIM_GROUPS, DEVICE_CLASS_REPORTS, NETWORK_DEVICE_CLASSES,
)  # fmt: skip
