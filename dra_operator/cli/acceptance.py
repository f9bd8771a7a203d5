"""Whether an API server would take an object: its shape, then what our parsers make of it, then what workloads need.

Offline nobody else says so. Not all of the API server's validation: the embedded cluster does that when the object is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_operator.api.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dra_operator.api.core import Node, Pod, PriorityClass
from dra_operator.api.fieldtypes import check_fields
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.cluster.rest import OPERATOR_GROUP, Resource

#: Mistakes of one object that are told at once.
_TOLD = 3

_READERS: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "DeviceClass": DeviceClass.from_dict,
    "DeviceTaintRule": DeviceTaintRule.from_dict,
    "Node": Node.from_dict,
    "Pod": Pod.from_dict,
    "PriorityClass": PriorityClass.from_dict,
    "ResourceClaim": ResourceClaim.from_dict,
    "ResourceClaimTemplate": ResourceClaimTemplate.from_dict,
    "ResourceSlice": ResourceSlice.from_dict,
}
#: Kinds that make pods from `spec.template`.
_WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"})


class Rejected(ValueError):
    """What is wrong and how to repair it, without the object's name."""


def accept(resource: Resource, data: dict[str, Any]) -> list[str]:
    """Remarks on fields that will be ignored. Raises Rejected, InvalidObject."""
    findings = check_fields(resource.group, resource.version, resource.kind, data)
    if findings.errors:
        told = "; ".join(map(str, findings.errors[:_TOLD]))
        more = len(findings.errors) - _TOLD
        raise Rejected(f"{told}; and {more} more" if more > 0 else told)
    reader = _own_reader(resource.kind) if resource.group == OPERATOR_GROUP else _READERS.get(resource.kind)
    if reader is not None:
        reader(data)
    if resource.kind in _WORKLOADS:
        _check_workload(resource.kind, data)
    return [f"{error} (ignored)" for error in findings.unknown]


def _own_reader(kind: str) -> Callable[[dict[str, Any]], object] | None:
    """Parsers of our own kinds, imported when needed: their models take a while to build."""
    if kind == "AllocationPolicy":
        from dra_operator.api.policy import AllocationPolicy

        return AllocationPolicy.from_dict
    if kind == "ClaimReport":
        from dra_operator.api.reports import ClaimReport

        return ClaimReport.from_dict
    return None


def _check_workload(kind: str, data: dict[str, Any]) -> None:
    """Its pods must be readable, and its own selector must find them. The shape has been checked."""
    spec = data.get("spec") or {}
    template = spec.get("template") or {}
    if template.get("spec") is None:
        raise Rejected("spec.template.spec is missing; it says what the pods are")
    meta = data["metadata"]
    name = f"{meta.get('name') or meta.get('generateName')} (spec.template)"
    Pod.from_dict({"metadata": {"namespace": meta.get("namespace"), "name": name}, "spec": template["spec"]})
    if kind == "Job":
        return
    selector = spec.get("selector") or {}
    wanted = selector.get("matchLabels") or {}
    if not wanted and not selector.get("matchExpressions"):
        raise Rejected("spec.selector is missing; repeat the template's labels there as matchLabels")
    labels = (template.get("metadata") or {}).get("labels") or {}
    for label, value in wanted.items():
        if labels.get(label) != value:
            raise Rejected(f"spec.selector wants {label}={value}, which the template's labels lack")
