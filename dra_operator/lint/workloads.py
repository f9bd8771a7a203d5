"""Rules on pods and what makes them: claims by name, and whether there will ever be enough for all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Any

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField
from dra_operator.api.fieldpath import FieldPath
from dra_operator.api.group import CONSTRAINTS_ANNOTATION, constraints_of
from dra_operator.lint.findings import Edit, Found, rule
from dra_operator.lint.inventoryrules import matching
from dra_operator.lint.scope import Scope, misspelt, nearest, same_but_for_case
from dra_operator.lint.subjects import Object, Subject, containers, details, mapping, mappings, pod_spec

RUN_FOR = "dra-operator.dev/run-for"
_REFERENCES = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}


@rule(
    "unknown-claim",
    what="A pod names a claim or template that the input has under a slightly different name, or elsewhere.",
    outcome="the pod waits for a claim that does not exist",
    repair="Name the claim as it is called, in the pod's own namespace.",
)
def unknown_claim(subject: Subject, scope: Scope) -> Iterator[Found]:
    for path, entry in _claims(subject):
        for field, kind in _REFERENCES.items():
            name = entry.get(field)
            if not isinstance(name, str) or not name or scope.claim(kind, subject.namespace, name) is not None:
                continue
            at = (*path, field)
            other = next((item for item in _REFERENCES.values() if item != kind), "")
            if scope.claim(other, subject.namespace, name) is not None:
                right = next(item for item, found in _REFERENCES.items() if found == other)
                yield Found(at, f"{name} is a {other}, not a {kind}", f"Write {right}.", (Edit(at, "rename", right),))
                continue
            elsewhere = [item for item in scope.subjects if (item.kind, item.name) == (kind, name) and item.current]
            near = misspelt(name, scope.claim_names(kind, subject.namespace))
            if elsewhere:
                where = elsewhere[0].namespace
                yield Found(at, f"namespace {subject.namespace} has no {kind} {name}; namespace {where} has")
            elif near is not None:
                edits = (Edit(at, "set", near),) if same_but_for_case(near, name) else ()
                yield Found(at, f"namespace {subject.namespace} has no {kind} {name}", f"Write {near}.", edits)


@rule(
    "unknown-claim-request",
    what="A container names a request that its claim does not have.",
    outcome="the kubelet cannot start the container",
    repair="Name a request of the claim, or none for all of its devices.",
)
def unknown_claim_request(subject: Subject, scope: Scope) -> Iterator[Found]:
    known: dict[str, set[str]] = {}
    for _, entry in _claims(subject):
        for field, kind in _REFERENCES.items():
            claim = scope.claim(kind, subject.namespace, str(entry.get(field)))
            if claim is not None:
                known[str(entry.get("name"))] = {item.reference.partition("/")[0] for item in details(claim)}
    for path, used in _uses(subject):
        name, request = str(used.get("name")), used.get("request")
        if isinstance(request, str) and request and name in known and request not in known[name]:
            near = nearest(request, known[name])
            at = (*path, "request")
            edits = (Edit(at, "set", near),) if near and same_but_for_case(near, request) else ()
            fix = f"Write {near}." if near else f"The claim has {', '.join(sorted(known[name]))}."
            yield Found(at, f"claim {name} has no request {request!r}", fix, edits)


@rule(
    "unused-pod-claim",
    what="A pod's claim that none of its containers uses.",
    outcome="devices are allocated to the pod, and no container sees them",
    repair="Add the claim to resources.claims of a container, or remove it from the pod.",
    level="warning",
)
def unused_pod_claim(subject: Subject, scope: Scope) -> Iterator[Found]:
    used = {str(used.get("name")) for _, used in _uses(subject)}
    if used - {str(entry.get("name")) for _, entry in _claims(subject)}:
        return  # a container names a claim wrongly: that may be this one
    for path, entry in _claims(subject):
        name = entry.get("name")
        if isinstance(name, str) and name not in used:
            yield Found((*path, "name"), f"no container uses the claim {name}")


@rule(
    "shared-claim",
    what="Several replicas name one claim.",
    outcome="all of them share the same devices, and run on one node where these are local to it",
    repair="Name a ResourceClaimTemplate (resourceClaimTemplateName), so that each pod gets a claim of its own.",
    level="warning",
)
def shared_claim(subject: Subject, scope: Scope) -> Iterator[Found]:
    pods = replicas(subject)
    if pods < 2 and subject.kind != "DaemonSet":
        return
    for path, entry in _claims(subject):
        name = entry.get("resourceClaimName")
        if isinstance(name, str) and name and not _shareable(subject, name, scope):
            many = "the pods of all nodes" if subject.kind == "DaemonSet" else f"{pods} pods"
            yield Found((*path, "resourceClaimName"), f"{many} share the one claim {name}")


def _shareable(subject: Subject, name: str, scope: Scope) -> bool:
    """Whether the claim's devices can be allocated several times anyway, so that sharing is what they are for."""
    claim = scope.claim("ResourceClaim", subject.namespace, name)
    asked = list(details(claim)) if claim is not None else []
    found = [device for item in asked for device in matching(item, scope).devices]
    return bool(found) and all(item.device.allow_multiple for item in found)


@rule(
    "replicas-exceed-inventory",
    what="More replicas than the inventory has devices for.",
    outcome="the last replicas wait for ever",
    repair="Run fewer replicas, ask for less, or add nodes.",
    inventory=True,
)
def replicas_exceed_inventory(subject: Subject, scope: Scope) -> Iterator[Found]:
    pods, room = replicas(subject), _room(subject, scope)
    # None at all: that is said of the claim.
    if room is not None and pods > room[0] > 0:
        yield Found(
            _size_path(subject), f"{pods} pods want devices, the inventory has them for {room[0]} at most ({room[1]})"
        )


@rule(
    "rollout-exceeds-inventory",
    "Deployment",
    what="A rolling update needs more devices than the inventory has.",
    outcome="an update waits for devices that the old pods keep, and never ends",
    repair="Set spec.strategy to Recreate, or rollingUpdate with maxSurge: 0 and maxUnavailable: 1.",
    inventory=True,
)
def rollout_exceeds_inventory(subject: Subject, scope: Scope) -> Iterator[Found]:
    pods, room, spec = replicas(subject), _room(subject, scope), mapping(subject.value.get("spec"))
    strategy = mapping(spec.get("strategy"))
    rolling = mapping(strategy.get("rollingUpdate"))
    if room is None or not 0 < pods <= room[0] or strategy.get("type") == "Recreate":
        return
    surge = _share(rolling.get("maxSurge", "25%"), pods, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), pods, up=False)
    # Old pods that may be missing make room for new ones.
    if surge is not None and unavailable == 0 and pods + surge > room[0] and pods == room[0]:
        path: FieldPath = (
            ("spec", "strategy") if strategy else ("spec", "replicas") if "replicas" in spec else ("spec",)
        )
        yield Found(
            path,
            f"an update adds up to {surge} pods to {pods} and may remove none first, the inventory has devices for {room[0]} ({room[1]})",
        )


def _share(value: Any, pods: int, *, up: bool) -> int | None:
    """An absolute number or a percentage of the replicas."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        share = Fraction(int(value[:-1]) * pods, 100)
        return ceil(share) if up else int(share)
    return None


def _room(subject: Subject, scope: Scope) -> tuple[int, str] | None:
    """(how many pods the inventory has devices for at most, by which request); None where that is not known or not limited."""
    lowest: tuple[int, str] | None = None
    for _, entry in _claims(subject):
        template = scope.claim("ResourceClaimTemplate", subject.namespace, str(entry.get("resourceClaimTemplateName")))
        for detail in details(template) if template is not None else ():
            found = matching(detail, scope)
            # Alternatives, shared devices and requests for all devices set no such limit.
            if (
                "/" in detail.reference
                or detail.value.get("allocationMode") == "All"
                or detail.value.get("adminAccess")
            ):
                continue
            if not found.devices or any(item.device.allow_multiple for item in found.devices):
                continue
            fits = sum(number // detail.count for number in found.local.values())
            if found.anywhere:
                fits = len(found.devices) // detail.count
            text = f"{len(found.devices)} devices of class {detail.device_class}, {detail.count} a pod"
            lowest = (fits, text) if lowest is None or fits < lowest[0] else lowest
    return lowest


def replicas(subject: Subject) -> int:
    """How many pods an object runs at once; 0 where that is not known (DaemonSets)."""
    spec = mapping(subject.value.get("spec"))
    match subject.kind:
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController":
            return _number(spec.get("replicas"), 1)
        case "Job":
            parallel = _number(spec.get("parallelism"), 1)
            completions = spec.get("completions")
            return min(parallel, _number(completions, parallel)) if completions is not None else parallel
        case "Pod" | "CronJob":
            return 1
    return 0


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _size_path(subject: Subject) -> FieldPath:
    field = "parallelism" if subject.kind == "Job" else "replicas"
    return ("spec", field) if field in mapping(subject.value.get("spec")) else ("spec",)


@rule(
    "bad-annotation",
    what="An annotation of this operator that it cannot read.",
    outcome="the pod is not placed until the annotation is repaired",
    repair="Write it as the message says.",
)
def bad_annotation(subject: Subject, scope: Scope) -> Iterator[Found]:
    found = pod_spec(subject)
    if found is None:
        return
    path, spec = found
    where = (*path[:-1], "metadata", "annotations")
    annotations = _metadata(subject, path).get("annotations")
    text = mapping(annotations).get(CONSTRAINTS_ANNOTATION)
    if isinstance(text, str):
        names = {str(entry.get("name")) for _, entry in mappings(spec.get("resourceClaims"), ())}
        try:
            for constraint in constraints_of(text):
                for request in constraint.requests:
                    claim = request.partition("/")[0]
                    if claim not in names:
                        near = nearest(claim, names)
                        fix = f"Write {near}." if near else ""
                        yield Found(
                            (*where, CONSTRAINTS_ANNOTATION), f"the pod has no claim {claim!r} ({request})", fix
                        )
        except InvalidField as error:
            yield Found((*where, CONSTRAINTS_ANNOTATION), f"{error}")
    duration = mapping(annotations).get(RUN_FOR)
    if isinstance(duration, str):
        try:
            parse_duration(duration)
        except InvalidField as error:
            yield Found((*where, RUN_FOR), f"{error}")


def _metadata(subject: Subject, path: FieldPath) -> Object:
    value: Any = subject.value
    for step in path[:-1]:
        value = mapping(value).get(str(step))
    return mapping(mapping(value).get("metadata"))


def _claims(subject: Subject) -> Iterator[tuple[FieldPath, Object]]:
    """A pod's claims."""
    found = pod_spec(subject)
    if found is not None:
        yield from mappings(found[1].get("resourceClaims"), (*found[0], "resourceClaims"))


def _uses(subject: Subject) -> Iterator[tuple[FieldPath, Object]]:
    """What containers use of them."""
    found = pod_spec(subject)
    for path, container in containers(found[1], found[0]) if found is not None else ():
        resources = mapping(container.get("resources"))
        yield from mappings(resources.get("claims"), (*path, "resources", "claims"))
