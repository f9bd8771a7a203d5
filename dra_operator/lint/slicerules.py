"""Rules on slices and taint rules: what the API server refuses of them, and pools that offer nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_operator.api.errors import InvalidObject
from dra_operator.api.fieldtypes import check_fields
from dra_operator.api.slices import ResourceSlice
from dra_operator.cluster.memory.refusals import Cause
from dra_operator.cluster.memory.validation.metadata import device_attribute_name, dns_label, dns_subdomain
from dra_operator.inventory import Inventory as Devices
from dra_operator.lint.findings import Edit, Found, check_for, declare, rule
from dra_operator.lint.scope import Scope
from dra_operator.lint.subjects import Object, Subject, mapping, mappings

_MAX_DEVICES = 128
_MAX_ADVANCED_DEVICES = 64
_MAX_ATTRIBUTES = 32
_MAX_TEXT = 64
_MAX_TAINTS = 16
_VALUE_FIELDS = frozenset({"int", "bool", "string", "version", "ints", "bools", "strings", "versions"})
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")

declare(
    "slice-place",
    "A slice that does not say in exactly one way for which nodes it is.",
    "the API server refuses the slice",
    "Set one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection.",
)
declare(
    "attribute-value",
    "An attribute without exactly one value of a known type.",
    "the API server refuses the slice",
    "Write one of int, bool, string and version.",
)


@check_for("ResourceSlice")
def slice_refused(subject: Subject, scope: Scope) -> Iterator[Found]:
    """What validation says about slices, by the codes of other refusals."""
    spec = mapping(subject.value.get("spec"))
    if not subject.current or not spec.keys() & {"driver", "pool"}:
        return
    yield from _named(("spec", "driver"), dns_subdomain("driver", spec.get("driver"), 63))
    pool = mapping(spec.get("pool"))
    for part in str(pool.get("name") or "").split("/"):
        yield from _named(("spec", "pool", "name"), dns_subdomain("pool.name", part))
    if not pool.get("resourceSliceCount"):
        problem = "spec.pool.resourceSliceCount is missing; it says how many slices the pool has"
        yield Found(("spec", "pool"), problem, code="missing-field")
    places = [field for field in _PLACES if spec.get(field)]
    if len(places) != 1:
        yield Found(("spec",), f"the slice has {' and '.join(places) or 'no place'}", code="slice-place")
    if spec.get("devices") and spec.get("sharedCounters"):
        problem = "devices and sharedCounters stand in one slice; since 1.35 they need slices of their own"
        yield Found(
            ("spec", "sharedCounters"), problem, "Split the slice: kubectl-dra convert -f FILE.", code="invalid-value"
        )
    devices = list(mappings(spec.get("devices"), ("spec", "devices")))
    advanced = any(device.get("taints") or device.get("consumesCounters") for _, device in devices)
    most = _MAX_ADVANCED_DEVICES if advanced else _MAX_DEVICES
    if len(devices) > most:
        problem = (
            f"{len(devices)} devices, the API takes {most}{' where some have taints or counters' if advanced else ''}"
        )
        yield Found(("spec", "devices"), problem, code="over-limit")
    for path, device in devices:
        yield from _device(path, device)


def _named(path: tuple[str | int, ...], causes: list[Cause]) -> Iterator[Found]:
    for cause in causes:
        if cause.reason == "FieldValueRequired":
            yield Found(path, f"{cause.field} is missing", code="missing-field")
        else:
            yield Found(path, cause.message.removeprefix("Invalid value: "), code="invalid-value")


def _device(path: tuple[str | int, ...], device: Object) -> Iterator[Found]:
    yield from _named((*path, "name"), dns_label("name", device.get("name")))
    attributes, capacity = mapping(device.get("attributes")), mapping(device.get("capacity"))
    if len(attributes) + len(capacity) > _MAX_ATTRIBUTES:
        problem = f"{len(attributes) + len(capacity)} attributes and capacities, the API takes {_MAX_ATTRIBUTES}"
        yield Found((*path, "attributes"), problem, code="over-limit")
    for field, values in (("attributes", attributes), ("capacity", capacity)):
        for name in values:
            at = (*path, field, str(name))
            yield from _named(at, device_attribute_name("name", name, domain_required=False))
    for name, value in attributes.items():
        yield from _attribute((*path, "attributes", str(name)), value)
    if len(taints := list(mappings(device.get("taints"), (*path, "taints")))) > _MAX_TAINTS:
        yield Found((*path, "taints"), f"{len(taints)} taints, the API takes {_MAX_TAINTS}", code="over-limit")


def _attribute(path: tuple[str | int, ...], value: Any) -> Iterator[Found]:
    given = [field for field, item in mapping(value).items() if item is not None]
    known = [field for field in given if field in _VALUE_FIELDS]
    if isinstance(value, str | bool | int | float):
        fix = f"Write {{{_type_of(value)}: …}}."
        yield Found(path, "the value stands there without its type", fix, code="attribute-value")
    elif len(known) != 1 or len(given) != 1:
        yield Found(path, f"the attribute has {' and '.join(given) or 'no value'}", code="attribute-value")
    elif isinstance(text := mapping(value)[known[0]], str) and len(text) > _MAX_TEXT:
        yield Found(
            (*path, known[0]), f"the text is {len(text)} characters long, the API takes {_MAX_TEXT}", code="over-limit"
        )


def _type_of(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"


@rule(
    "bad-version",
    "ResourceSlice",
    what="A version attribute that is not a semantic version, or a value that cannot be read.",
    outcome="the API server refuses the slice",
    repair="Write MAJOR.MINOR.PATCH, such as 8.0.0.",
)
def bad_version(subject: Subject, scope: Scope) -> Iterator[Found]:
    from dra_operator.api.semver import Semver

    spec = mapping(subject.value.get("spec"))
    for path, device in mappings(spec.get("devices"), ("spec", "devices")):
        for name, value in mapping(device.get("attributes")).items():
            text = mapping(value).get("version")
            if not isinstance(text, str):
                continue
            try:
                Semver.parse(text)
            except ValueError as error:
                at = (*path, "attributes", str(name), "version")
                yield Found(at, str(error), *_normal(at, text))


def _normal(path: tuple[str | int, ...], text: str) -> tuple[str, tuple[Edit, ...]]:
    from dra_operator.api.semver import Semver

    try:
        meant = str(Semver.parse(text, normalize=True))
    except ValueError:
        return "", ()
    return f"Write {meant}.", (Edit(path, "set", meant),)


@rule(
    "pool-unusable",
    "ResourceSlice",
    what="A pool whose slices do not fit together: too few, of different counts, doubled devices, unknown counters.",
    outcome="nothing is allocated from the pool",
    repair="Give all slices of the pool; let the driver publish it anew.",
    inventory=True,
)
def pool_unusable(subject: Subject, scope: Scope) -> Iterator[Found]:
    if scope.inventory is None or not subject.current:
        return
    pools = scope.memo.get("pools")
    if not isinstance(pools, dict):
        pools = scope.memo["pools"] = _broken_pools(scope.inventory.slices)
    reason = pools.get(subject.name)
    if reason:
        yield Found(("spec", "pool"), reason)


def _broken_pools(slices: list[ResourceSlice]) -> dict[str, str]:
    """Why the pool of a slice offers nothing, by the name of its first slice."""
    devices = Devices()
    for item in slices:
        devices.apply_slice(item)
    devices.refresh()
    found: dict[str, str] = {}
    for identity, pool in devices.pools.items():
        reason = pool.content.incomplete or pool.content.invalid
        if reason:
            found[min(item.name for item in pool.content.slices)] = (
                f"pool {identity.pool} of {identity.driver}: {reason}"
            )
    return found


@rule(
    "taint-rule-for-all",
    "DeviceTaintRule",
    what="A taint rule with an empty device selector.",
    outcome="it taints all devices of the cluster",
    repair="Name a driver, pool or device; leave deviceSelector out to taint none.",
    level="warning",
)
def taint_rule_for_all(subject: Subject, scope: Scope) -> Iterator[Found]:
    spec = mapping(subject.value.get("spec"))
    selector = spec.get("deviceSelector")
    if isinstance(selector, dict) and not any(selector.values()):
        yield Found(("spec", "deviceSelector"), "the device selector is empty")


def readable(subjects: list[Subject]) -> list[ResourceSlice]:
    """The slices of the input that can be read; rules say what is wrong with the others."""
    found: list[ResourceSlice] = []
    for subject in subjects:
        if subject.kind != "ResourceSlice" or not subject.current:
            continue
        if check_fields(subject.group, "v1", subject.kind, subject.value).errors:
            continue
        try:
            item = ResourceSlice.from_dict(dict(subject.value))
        except InvalidObject:
            continue
        if item.driver and item.pool:
            found.append(item)
    return found
