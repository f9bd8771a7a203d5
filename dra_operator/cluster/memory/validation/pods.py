"""Pods: what is refused on creation, and the little that may change afterwards (`pkg/apis/core/validation`)."""

from __future__ import annotations

from typing import Any

from dra_operator.cluster.memory.refusals import Cause, duplicate, forbidden_field, invalid, required
from dra_operator.cluster.memory.validation.metadata import dns_label, qualified_name
from dra_operator.cluster.memory.values import Object, clone, dig

_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def created(item: Object) -> list[Cause]:
    spec = item.get("spec") or {}
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(required("spec.containers"))
    names = [container.get("name") for container in spec.get("containers") or ()]
    for index, name in enumerate(names):
        causes += dns_label(f"spec.containers[{index}].name", name)
        if name in names[:index]:
            causes.append(duplicate(f"spec.containers[{index}].name", name))
    for index, container in enumerate(spec.get("containers") or ()):
        if not container.get("image"):
            causes.append(required(f"spec.containers[{index}].image"))
    causes += _gates(spec)
    causes += _claims(spec)
    return causes


def _gates(spec: dict[str, Any]) -> list[Cause]:
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    causes: list[Cause] = []
    for index, name in enumerate(gates):
        causes += qualified_name(f"spec.schedulingGates[{index}].name", name)
        if name in gates[:index]:
            causes.append(duplicate(f"spec.schedulingGates[{index}]", name))
    if gates and spec.get("nodeName"):
        causes.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def _claims(spec: dict[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    names: list[str] = []
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        at = f"spec.resourceClaims[{index}]"
        causes += dns_label(f"{at}.name", claim.get("name"))
        if claim.get("name") in names:
            causes.append(duplicate(f"{at}.name", claim.get("name")))
        names.append(claim.get("name"))
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field)]
        if len(sources) > 1:
            causes.append(
                invalid(
                    at, "both", "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                )
            )
        elif not sources:
            causes.append(
                invalid(at, "neither", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            )
    for number, container in enumerate(spec.get("containers") or ()):
        for index, used in enumerate(dig(container, "resources", "claims") or ()):
            if used.get("name") not in names:
                at = f"spec.containers[{number}].resources.claims[{index}]"
                causes.append(Cause(at, "FieldValueNotFound", f'Not found: "{used.get("name")}"'))
    return causes


def updated(new: Object, old: Object) -> list[Cause]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    causes: list[Cause] = []
    allowed = clone(spec)
    for field in ("activeDeadlineSeconds", "tolerations"):
        _carry(allowed, before, field)
    for field in ("containers", "initContainers"):
        for mine, theirs in zip(allowed.get(field) or (), before.get(field) or (), strict=False):
            _carry(mine, theirs, "image")
    for toleration in before.get("tolerations") or ():
        if toleration not in (spec.get("tolerations") or ()):
            causes.append(
                forbidden_field(
                    "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
                )
            )
            break
    old_gates = [gate["name"] for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in old_gates:
            causes.append(
                forbidden_field(
                    f"spec.schedulingGates[{index}].name",
                    f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
                )
            )
    _carry(allowed, before, "schedulingGates")
    if old_gates:
        causes += _tightened(spec, before)
        _carry(allowed, before, "nodeSelector")
        _carry_node_affinity(allowed, before)
    if allowed != before:
        causes.append(forbidden_field("spec", _FIXED))
    return causes


def _carry(target: dict[str, Any], source: dict[str, Any], field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def _carry_node_affinity(allowed: dict[str, Any], before: dict[str, Any]) -> None:
    affinity = dict(allowed.get("affinity") or {})
    _carry(affinity, before.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in before:
        allowed["affinity"] = affinity
    else:
        allowed.pop("affinity", None)


def _tightened(spec: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    """A gated pod's node selection may only be narrowed (KEP-3838)."""
    causes: list[Cause] = []
    selector = spec.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (before.get("nodeSelector") or {}).items()):
        causes.append(
            invalid(
                "spec.nodeSelector",
                selector,
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            )
        )
    required_terms = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    old_terms = dig(before, *required_terms) or []
    new_terms = dig(spec, *required_terms) or []
    at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if not old_terms:
        return causes
    if len(new_terms) != len(old_terms):
        causes.append(
            invalid(
                f"{at}.nodeSelectorTerms",
                new_terms,
                "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
            )
        )
        return causes
    for index, (new, old) in enumerate(zip(new_terms, old_terms, strict=True)):
        if not _only_additions(new, old):
            causes.append(
                invalid(
                    f"{at}.nodeSelectorTerms[{index}]", new, "only additions are allowed (no mutations or deletions)"
                )
            )
    return causes


def _only_additions(new: dict[str, Any], old: dict[str, Any]) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        # A term without requirements matches nothing, so anything added would widen it.
        return not any(new.get(field) for field in fields)
    return all(entry in (new.get(field) or ()) for field in fields for entry in old.get(field) or ())


def status_updated(new: Object, old: Object) -> list[Cause]:
    before = {
        entry["name"]: entry.get("resourceClaimName") for entry in dig(old, "status", "resourceClaimStatuses") or ()
    }
    known = {claim["name"] for claim in dig(new, "spec", "resourceClaims") or ()}
    causes: list[Cause] = []
    for index, entry in enumerate(dig(new, "status", "resourceClaimStatuses") or ()):
        if entry.get("name") not in known and entry.get("name") not in before:
            causes.append(
                invalid(
                    f"status.resourceClaimStatuses[{index}].name",
                    entry.get("name"),
                    "must match the name of an entry in `spec.resourceClaims`",
                )
            )
    return causes
