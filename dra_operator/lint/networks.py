"""Rules on NetworkDeviceClasses: what will not become a DeviceClass, and what no driver says of its devices."""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.api.errors import InvalidObject
from dra_operator.api.networkclass import NetworkDeviceClass
from dra_operator.cel import Device, EvaluationError, cached_selector
from dra_operator.engine.networkdrivers import InvalidNetworkClass, Term, drivers_of, terms_of
from dra_operator.lint.findings import Found, rule
from dra_operator.lint.scope import Scope
from dra_operator.lint.subjects import Subject, mapping


def _read(subject: Subject) -> NetworkDeviceClass | None:
    try:
        return NetworkDeviceClass.from_dict(dict(subject.value)) if subject.current else None
    except InvalidObject:
        return None  # another rule says so


@rule(
    "network-class-invalid",
    "NetworkDeviceClass",
    what="A NetworkDeviceClass that cannot be made into a DeviceClass.",
    outcome="its status is Invalid, and claims of the class wait",
    repair="Mend the field.",
)
def network_class_invalid(subject: Subject, scope: Scope) -> Iterator[Found]:
    item = _read(subject)
    if item is None:
        return
    try:
        terms_of(item.spec)
    except InvalidNetworkClass as invalid:
        field, _, text = str(invalid).partition(": ")
        if not field.startswith("selectors["):  # selectors have rules of their own
            yield Found(("spec", field), text)


@rule(
    "network-class-conflict",
    "NetworkDeviceClass",
    what="A DeviceClass and a NetworkDeviceClass of one name.",
    outcome="the NetworkDeviceClass is in Conflict, and the DeviceClass stays as it is",
    repair="Remove the DeviceClass, or give one of them another name.",
)
def network_class_conflict(subject: Subject, scope: Scope) -> Iterator[Found]:
    other = scope.classes.get(subject.name)
    if subject.current and other is not None:
        owners = mapping(other.value.get("metadata")).get("ownerReferences")
        named = owners if isinstance(owners, list) else []
        if not any(mapping(owner).get("kind") == "NetworkDeviceClass" for owner in named):
            yield Found(("metadata", "name"), f"there is a DeviceClass {subject.name} as well")


@rule(
    "network-class-unmatched",
    "NetworkDeviceClass",
    what="A field of a NetworkDeviceClass that no device of its drivers in the inventory has.",
    outcome="claims of the class are never allocated",
    repair="Leave the field out, or have the driver publish what it asks for.",
    level="warning",
    inventory=True,
)
def network_class_unmatched(subject: Subject, scope: Scope) -> Iterator[Found]:
    item = _read(subject)
    if item is None or scope.inventory is None:
        return
    drivers = drivers_of(item.spec)
    devices = [published.view for published in scope.inventory.devices if published.driver in drivers]
    try:
        terms = terms_of(item.spec)
    except InvalidNetworkClass:
        return
    for term in terms:
        if term.word in ("minBandwidthGbps", "rdma", "lowLatency") and devices:
            if not any(_holds(term, device) for device in devices):
                yield Found(
                    ("spec", term.word), f"none of the {len(devices)} devices of {' and '.join(drivers)} has it"
                )


def _holds(term: Term, device: Device) -> bool:
    try:
        return cached_selector(term.expression).matches(device)
    except EvaluationError:
        return False
