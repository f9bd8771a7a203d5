"""Whether a claim as a whole fits the inventory while nothing is allocated, found out by the allocator itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_operator.allocator import Failed, Problem, Solved, Unsolved, solve
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidObject
from dra_operator.inventory import Inventory as Devices
from dra_operator.lint.scope import Scope
from dra_operator.lint.subjects import Detail, Subject, mapping

#: Steps of the search for one claim; beyond, nothing is said.
_BUDGET = 50_000


def alone(subject: Subject, scope: Scope) -> Solved | Unsolved | Failed | None:
    """The allocator's answer; None where the claim cannot be read. The scope must have an inventory."""
    key = f"alone/{id(subject.value)}"
    if key not in scope.memo:
        scope.memo[key] = _asked(subject, scope)
    found = scope.memo[key]
    return found if isinstance(found, Solved | Unsolved | Failed) else None


def dispensable(detail: Detail, subject: Subject, scope: Scope) -> bool:
    """Whether it is an alternative (`firstAvailable`) that the claim can do without: what it lacks here, other clusters may have."""
    return "/" in detail.reference and scope.inventory is not None and isinstance(alone(subject, scope), Solved)


def _asked(subject: Subject, scope: Scope) -> Solved | Unsolved | Failed | None:
    try:
        claim = ResourceClaim.from_dict(_as_claim(subject))
    except InvalidObject:
        return None
    return solve(Problem((claim,), work_budget=_BUDGET, ignore_usage=True), _devices(scope).snapshot())


def _as_claim(subject: Subject) -> dict[str, Any]:
    metadata = {"name": subject.name, "namespace": subject.namespace, "uid": subject.name}
    spec = mapping(subject.value.get("spec"))
    return {"metadata": metadata, "spec": spec if subject.kind == "ResourceClaim" else spec.get("spec")}


def _devices(scope: Scope) -> Devices:
    """The inventory as the allocator wants it, with a node for each that slices name or the input has."""
    kept = scope.memo.get("allocator")
    if not isinstance(kept, Devices):
        kept = scope.memo["allocator"] = _prepared(scope)
    return kept


def _prepared(scope: Scope) -> Devices:
    devices = Devices()
    nodes: dict[str, Mapping[str, Any]] = {
        subject.name: subject.value for subject in scope.subjects if subject.kind == "Node" and subject.current
    }
    assert scope.inventory is not None
    for item in scope.inventory.devices:
        if item.node is not None:
            nodes.setdefault(item.node, {"metadata": {"name": item.node}})
    for node in nodes.values():
        try:
            devices.apply_node(Node.from_dict(dict(node)))
        except InvalidObject:
            continue
    for published in scope.inventory.slices:
        devices.apply_slice(published)
    for subject in scope.classes.values():
        try:
            devices.apply_class(DeviceClass.from_dict(dict(subject.value)))
        except InvalidObject:
            continue
    return devices
