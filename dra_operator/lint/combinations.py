"""Rules on what must hold together in an inventory: constraints, capacities, and claims as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_operator.allocator import Unsolved
from dra_operator.api.claims import quantity
from dra_operator.api.errors import InvalidField
from dra_operator.api.fieldpath import FieldPath
from dra_operator.lint.findings import Edit, Found, rule
from dra_operator.lint.fitting import alone, dispensable
from dra_operator.lint.inventoryrules import matching
from dra_operator.lint.published import Published, type_name
from dra_operator.lint.scope import Scope, listed, nearest, same_but_for_case
from dra_operator.lint.subjects import Detail, Object, Subject, claim_devices, details, mapping, mappings, texts

_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")


@rule(
    "constraint-attribute-missing",
    *_CLAIMS,
    what="A constraint on an attribute that none of a request's devices has.",
    outcome="devices without it are not chosen: the claim waits for ever",
    repair="Use an attribute that these devices publish.",
    inventory=True,
)
def constraint_attribute_missing(subject: Subject, scope: Scope) -> Iterator[Found]:
    if scope.inventory is None:
        return
    for path, attribute, covered in _constraints(subject, scope):
        for detail, devices in covered:
            if devices and not any(item.attribute(attribute) is not None for item in devices):
                near = nearest(attribute, _qualified(devices))
                edits = (Edit(path, "set", near),) if near and same_but_for_case(near, attribute) else ()
                known = f"They have {listed(_qualified(devices))}."
                yield Found(
                    path,
                    f"none of the {len(devices)} devices for request {detail.reference} has {attribute}",
                    f"Write {near}." if near else known,
                    edits,
                )
                break


@rule(
    "constraint-types-differ",
    *_CLAIMS,
    what="A matchAttribute over devices that publish it with different types.",
    outcome="values of different types are never equal: the claim waits for ever",
    repair="Use an attribute that all these devices publish with one type.",
    inventory=True,
)
def constraint_types_differ(subject: Subject, scope: Scope) -> Iterator[Found]:
    if scope.inventory is None:
        return
    for path, attribute, covered in _constraints(subject, scope):
        if path[-1] != "matchAttribute":
            continue
        types = {
            detail.reference: {type_name(value) for item in devices if (value := item.attribute(attribute)) is not None}
            for detail, devices in covered
        }
        known = {name: found for name, found in types.items() if found}
        for name, found in known.items():
            other = next((item for item in known if not known[item] & found), None)
            if other is not None and name < other:
                mine, theirs = " or ".join(sorted(found)), " or ".join(sorted(known[other]))
                yield Found(path, f"{attribute} is {mine} for request {name} and {theirs} for request {other}")
                break


def _constraints(
    subject: Subject, scope: Scope
) -> Iterator[tuple[FieldPath, str, list[tuple[Detail, tuple[Published, ...]]]]]:
    """Constraints with the requests they cover and the devices these can have."""
    path, devices = claim_devices(subject)
    for at, constraint in mappings(devices.get("constraints"), (*path, "constraints")):
        named = {name for _, name in texts(constraint.get("requests"), ())}
        covered = [
            (detail, matching(detail, scope).devices)
            for detail in details(subject)
            if not named or detail.reference in named or detail.reference.partition("/")[0] in named
            if not dispensable(detail, subject, scope)
        ]
        for field in ("matchAttribute", "distinctAttribute"):
            if isinstance(constraint.get(field), str) and "/" in constraint[field]:
                yield (*at, field), constraint[field], covered


def _qualified(devices: tuple[Published, ...]) -> list[str]:
    return sorted(
        {name if "/" in name else f"{item.driver}/{name}" for item in devices for name in item.device.attributes}
    )


@rule(
    "capacity-missing",
    *_CLAIMS,
    what="A request for a capacity that none of its devices has.",
    outcome="devices without it are not chosen: the claim waits for ever",
    repair="Name the capacity as the slices do; names are compared literally.",
    inventory=True,
)
def capacity_missing(subject: Subject, scope: Scope) -> Iterator[Found]:
    for detail, devices, path, name, _ in _capacities(subject, scope):
        if not any(name in item.device.capacity for item in devices):
            known = sorted({found for item in devices for found in item.device.capacity})
            near = nearest(name.rpartition("/")[2], known)
            edits = (Edit(path, "rename", near),) if near and same_but_for_case(near, name) else ()
            fix = f"Write {near}." if near else f"They have {listed(known)}." if known else ""
            yield Found(
                path, f"none of the {len(devices)} devices for request {detail.reference} has {name}", fix, edits
            )


@rule(
    "capacity-too-high",
    *_CLAIMS,
    what="A request for more of a capacity than any of its devices has.",
    outcome="the claim waits for ever",
    repair="Ask for less.",
    inventory=True,
)
def capacity_too_high(subject: Subject, scope: Scope) -> Iterator[Found]:
    for detail, devices, path, name, amount in _capacities(subject, scope):
        try:
            wanted = quantity(amount)
        except InvalidField:
            continue
        published = [item.device.capacity[name] for item in devices if name in item.device.capacity]
        if published and max(published) < wanted:
            yield Found(
                path,
                f"{name} {amount} is asked for by request {detail.reference}, the most of a device is {max(published)}",
            )


def _capacities(subject: Subject, scope: Scope) -> Iterator[tuple[Detail, tuple[Published, ...], FieldPath, str, Any]]:
    for detail in details(subject) if subject.current and scope.inventory is not None else ():
        if dispensable(detail, subject, scope):
            continue
        devices = matching(detail, scope).devices
        requests: Object = mapping(mapping(detail.value.get("capacity")).get("requests"))
        for name, amount in requests.items() if devices else ():
            yield detail, devices, (*detail.path, "capacity", "requests", name), str(name), amount


@rule(
    "fits-nowhere",
    *_CLAIMS,
    what="A claim whose requests and constraints no node fulfils together, even if nothing is allocated.",
    outcome="the claim waits for ever",
    repair="Loosen a constraint, ask for fewer devices, or add nodes; kubectl-dra explain names the nearest ones.",
    inventory=True,
)
def fits_nowhere(subject: Subject, scope: Scope) -> Iterator[Found]:
    """Only where each request alone can be fulfilled: otherwise another rule has said why not."""
    asked = list(details(subject))
    if not subject.current or scope.inventory is None or not asked:
        return
    if any(detail.count > matching(detail, scope).most_on_a_node for detail in asked):
        return
    singly = (constraint_attribute_missing, constraint_types_differ, capacity_missing, capacity_too_high)
    if any(True for check in singly for _ in check(subject, scope)):
        return
    if not scope.inventory.places_known:
        return  # which nodes can use such devices shows in a cluster only
    found = alone(subject, scope)
    # Pools of which only a part is in the input say nothing about the cluster.
    if isinstance(found, Unsolved) and not found.pools:
        path, _ = claim_devices(subject)
        yield Found((*path, "requests"), "no node of the inventory has such devices together")
