"""Take out of objects, before anybody keeps them, what nobody here reads.

Pods and nodes are many and fat; allocation reads a tenth of them. Works in place, on freshly decoded JSON.
What the typed objects of `api` read must survive: a test compares them before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: Of a container, what counts for placement.
CONTAINER_FIELDS = frozenset({"name", "resources", "ports", "restartPolicy"})
#: Of a pod's spec, what is large and never read.
POD_SPEC_DROPPED = (
    "volumes", "ephemeralContainers", "imagePullSecrets", "securityContext", "dnsConfig", "hostAliases",
    "readinessGates", "topologySpreadConstraints", "serviceAccount", "serviceAccountName", "enableServiceLinks",
    "automountServiceAccountToken", "dnsPolicy",
)  # fmt: skip
POD_STATUS_DROPPED = (
    "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", "podIPs", "podIP", "hostIPs", "hostIP",
    "allocatedResources", "resources",
)  # fmt: skip
NODE_STATUS_DROPPED = (
    "images", "volumesInUse", "volumesAttached", "nodeInfo", "daemonEndpoints", "addresses", "config",
)  # fmt: skip


def lean_metadata(item: dict[str, Any]) -> None:
    """Only managedFields: claims and reports are sent back whole, and an update may leave those out."""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def _forget_last_applied(item: dict[str, Any]) -> None:
    annotations = (item.get("metadata") or {}).get("annotations")
    if isinstance(annotations, dict):
        annotations.pop(LAST_APPLIED, None)


def lean_pod(item: dict[str, Any]) -> None:
    lean_metadata(item)
    _forget_last_applied(item)
    spec, status = item.get("spec"), item.get("status")
    if isinstance(spec, dict):
        for name in POD_SPEC_DROPPED:
            spec.pop(name, None)
        for name in ("containers", "initContainers"):
            if spec.get(name):
                spec[name] = [{key: box[key] for key in box if key in CONTAINER_FIELDS} for box in spec[name]]
    if isinstance(status, dict):
        for name in POD_STATUS_DROPPED:
            status.pop(name, None)


def lean_node(item: dict[str, Any]) -> None:
    lean_metadata(item)
    _forget_last_applied(item)
    status = item.get("status")
    if isinstance(status, dict):
        for name in NODE_STATUS_DROPPED:
            status.pop(name, None)


LEAN: dict[str, Callable[[dict[str, Any]], None]] = {"Pod": lean_pod, "Node": lean_node}


def lean(kind: str) -> Callable[[dict[str, Any]], None]:
    """The function that slims down objects of `kind` in place."""
    return LEAN.get(kind, lean_metadata)
