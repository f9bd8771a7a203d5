"""Slices, classes and claims of the string dialect: values are text, devices have a type, a claim names just a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_operator.api.errors import described
from dra_operator.api.fieldpath import FieldPath
from dra_operator.cel import CompileError
from dra_operator.convert.dictionary import DRIVER, Dictionary
from dra_operator.convert.expressions import DEVICE_TYPE, Untyped, is_dialect, shown, survey
from dra_operator.convert.names import is_label, is_subdomain, label
from dra_operator.convert.plan import Notes, Plan
from dra_operator.convert.remarks import Untranslatable
from dra_operator.convert.texttypes import TextType, version
from dra_operator.convert.translation import read_selector, translate
from dra_operator.convert.values import (
    Object,
    changed,
    dig,
    items,
    mapped,
    mapping,
    mappings_below,
    only,
    replaced,
    text,
)

VERSION = "resource.k8s.io/v1"
#: The name of the one request that a claim of the dialect makes.
REQUEST = "device"
#: How documents spell the field of a selector that holds its expression.
_EXPRESSION_FIELDS = ("CELExpression", "celExpression")
_MAX_DEVICES = 128
_MAX_ATTRIBUTES = 32
_MAX_TEXT = 64
_CLAIM_FIELDS = ("resourceClassName", "deviceClassName", "count", "allocationMode", "selectors")

# --- slices


def is_slice(value: Object) -> bool:
    """Whether a ResourceSlice is of the dialect: devices with flat attributes, and no driver and pool."""
    spec = value.get("spec")
    return (
        isinstance(spec, Mapping)
        and "devices" in spec
        and not spec.keys() & {"driver", "driverName", "pool", "namedResources"}
    )


def publish(value: Object, plan: Plan) -> None:
    """Tell the plan what a slice of the dialect has. Raises Untranslatable."""
    spec = mapping(value.get("spec"), ("spec",))
    node = text(spec.get("nodeName"), ("spec", "nodeName"), "nodeName, which says whose devices these are,")
    plan.slices_at[node] += 1
    for index, item in enumerate(items(spec.get("devices"), ("spec", "devices"))):
        path: FieldPath = ("spec", "devices", index)
        device = mapping(item, path)
        name = _device_name(device, path)[1]
        if (node, name) in plan.devices_at:
            raise Untranslatable((*path, "name"), f"node {node} has a device {name} already; give each its own name")
        plan.devices_at.add((node, name))
        attributes = mapping(device.get("attributes"), (*path, "attributes"))
        for key, raw in attributes.items():
            plan.dictionary.publish(key, _text(raw, (*path, "attributes", key)))
        if "type" in device:
            kind = _text(device["type"], (*path, "type"))
            plan.dictionary.publish(DEVICE_TYPE, kind)
            if "type" in attributes and _text(attributes["type"], path) != kind:
                plan.dictionary.separate_types()


def convert_slice(value: Object, plan: Plan, notes: Notes) -> dict[str, Any]:
    spec = mapping(value.get("spec"), ("spec",))
    only(spec, ("spec",), "nodeName", "devices")
    node = text(spec.get("nodeName"), ("spec", "nodeName"), "nodeName")
    if not is_subdomain(node):
        raise Untranslatable(
            ("spec", "nodeName"), f"{node!r} is no name of a node; use lower case letters, digits, - and ."
        )
    devices = items(spec.get("devices"), ("spec", "devices"))
    if len(devices) > _MAX_DEVICES:
        raise Untranslatable(
            ("spec", "devices"),
            f"{len(devices)} devices in one slice, the API takes {_MAX_DEVICES}; put the rest in another slice",
        )
    pool = {"name": node, "generation": 1, "resourceSliceCount": plan.slices_at[node]}
    converted = mapped(devices, ("spec", "devices"), lambda device, path: _device(device, path, node, plan, notes))
    notes.assume(("spec",), f"devices are published by driver {DRIVER} in pool {node}")
    return _versioned(value, {"driver": DRIVER, "nodeName": spec["nodeName"], "pool": pool, "devices": converted})


def _device(device: Object, path: FieldPath, node: str, plan: Plan, notes: Notes) -> dict[str, Any]:
    only(device, path, "name", "type", "attributes")
    given, name = _device_name(device, path)
    if name != given:
        notes.assume((*path, "name"), f"the device is called {name}, since {given!r} is no name in v1")
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    entries: list[tuple[str, Any, FieldPath]] = []
    if "type" in device:
        entries.append((DEVICE_TYPE, device["type"], (*path, "type")))
    for key, raw in mapping(device.get("attributes"), (*path, "attributes")).items():
        entries.append((key, raw, (*path, "attributes", key)))
    for key, raw, where in entries:
        value, access = _text(raw, where), plan.dictionary.access(key)
        other = plan.dictionary.same_name(key)
        if other is not None:
            raise Untranslatable(
                where, f"{shown(key)} and {shown(other)} would both be called {access.name} in v1; rename one"
            )
        full = access.name if access.domain == DRIVER else f"{access.domain}/{access.name}"
        texttype = plan.dictionary.type_of(key)
        if texttype is TextType.QUANTITY:
            capacity[full] = {"value": value}
        else:
            attributes[full] = _attribute(value, texttype, raw, where)
    if len(attributes) + len(capacity) > _MAX_ATTRIBUTES:
        raise Untranslatable(
            (*path, "attributes"),
            f"{len(attributes) + len(capacity)} attributes, the API takes {_MAX_ATTRIBUTES} for a device",
        )
    result: dict[str, Any] = {"name": device["name"] if name == given else name}
    if attributes:
        result["attributes"] = attributes
    if capacity:
        result["capacity"] = capacity
    return result


def _device_name(device: Object, path: FieldPath) -> tuple[str, str]:
    """The name given, and the name in v1."""
    given = text(device.get("name"), (*path, "name"), "the device's name")
    return given, given if is_label(given) else label(given)


def _attribute(value: str, texttype: TextType, raw: Any, path: FieldPath) -> dict[str, Any]:
    match texttype:
        case TextType.BOOL:
            return {"bool": value == "true"}
        case TextType.INT:
            return {"int": int(value)}
        case TextType.VERSION:
            return {"version": version(value)}
    if len(value) > _MAX_TEXT:
        raise Untranslatable(path, f"the text is {len(value)} characters long, the API takes {_MAX_TEXT}; shorten it")
    return {"string": raw if isinstance(raw, str) else value}


def _text(value: Any, path: FieldPath) -> str:
    """A value as the text that the dialect means; numbers and booleans without quotes are taken as well."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
    raise Untranslatable(path, f"the value is {described(value)}; the dialect has text only")


def observe_types(dictionary: Dictionary) -> Iterator[str]:
    """What the dictionary takes each key for, in words, where that is not just text."""
    for key in sorted(dictionary.keys):
        texttype = dictionary.type_of(key)
        access = dictionary.access(key)
        kind = "capacity" if texttype is TextType.QUANTITY else "attribute"
        if texttype is not TextType.STRING:
            yield f"{shown(key)} is {'an' if texttype is TextType.INT else 'a'} {texttype.value}: {kind} {access.name}"
        elif access.name != key and key != DEVICE_TYPE:
            yield f"{shown(key)} is text: attribute {access.name}"


# --- selectors


def selectors(value: Object) -> Iterator[tuple[FieldPath, str]]:
    """The expressions of the dialect in an object, with the paths of the selectors that hold them.

    Those that stand where v1 has them count as well, unless the object says that it is v1.
    """
    current = value.get("apiVersion") == VERSION
    for path, item in mappings_below(value.get("spec"), ("spec",)):
        if len(path) < 2 or not isinstance(path[-1], int) or path[-2] != "selectors":
            continue
        for name in _EXPRESSION_FIELDS:
            if name in item:
                yield path, _text(item[name], (*path, name))
        expression = dig(item, "cel", "expression")
        if not current and isinstance(expression, str) and _is_dialect(expression):
            yield path, expression


def _is_dialect(expression: str) -> bool:
    try:
        return is_dialect(read_selector(expression))
    except CompileError:
        return False


def survey_selectors(value: Object, plan: Plan) -> None:
    """Tell the plan how an object's selectors use attributes. Raises Untranslatable."""
    for path, expression in selectors(value):
        try:
            for use in survey(read_selector(expression)):
                plan.dictionary.use(use)
        except (CompileError, Untyped) as error:
            raise Untranslatable(path, f"the expression cannot be translated: {error}") from None


def convert_selectors(value: Object, plan: Plan, notes: Notes) -> Object:
    """The object with v1 selectors in place of the dialect's."""
    result = value
    for path, expression in selectors(value):
        entry = value
        for step in path:
            entry = entry[step]  # type: ignore[index]
        only(entry, path, *_EXPRESSION_FIELDS, "cel")
        if len(entry) > 1:
            raise Untranslatable(path, "a selector has one expression; write two selectors")
        try:
            translation = translate(expression, plan.dictionary)
        except (CompileError, Untyped) as error:
            raise Untranslatable(path, f"the expression cannot be translated: {error}") from None
        for assumption in translation.assumptions:
            notes.assume(path, assumption)
        result = replaced(result, path, {"cel": {"expression": translation.expression}})
    return result


# --- classes and claims


def convert_class(value: Object, plan: Plan, notes: Notes) -> Object:
    """A DeviceClass, or a NetworkDeviceClass, which is a kind of its own."""
    converted = convert_selectors(value, plan, notes)
    if value.get("kind") == "NetworkDeviceClass":
        only(mapping(value.get("spec"), ("spec",)), ("spec",), "selectors")
        notes.assume(
            ("apiVersion",),
            "NetworkDeviceClass is a kind of dra-operator.dev, which makes a DeviceClass of the same name",
        )
        spec = {"driver": DRIVER, **mapping(converted.get("spec"), ("spec",))}
        return {**converted, "apiVersion": "dra-operator.dev/v1alpha1", "spec": spec}
    return _versioned(converted, converted.get("spec"))


def is_claim_spec(spec: Any) -> bool:
    """Whether the spec of a claim just names a class."""
    return isinstance(spec, Mapping) and "resourceClassName" in spec


def claim_spec(spec: Object, path: FieldPath) -> dict[str, Any]:
    """The v1 spec of a claim that just names a class. Its selectors are already converted."""
    if spec.get("parametersRef") is not None:
        raise Untranslatable(
            (*path, "parametersRef"), "parameters of classic DRA have no counterpart; write them as selectors or config"
        )
    only(spec, path, *_CLAIM_FIELDS, "parametersRef")
    text(spec.get("resourceClassName"), (*path, "resourceClassName"), "the class's name")
    exactly: dict[str, Any] = {"deviceClassName": spec["resourceClassName"]}
    # What classic DRA calls allocationMode is when to allocate, not how many.
    if spec.get("allocationMode") in ("All", "ExactCount"):
        exactly["allocationMode"] = spec["allocationMode"]
    exactly.update({name: spec[name] for name in ("count", "selectors") if name in spec})
    return {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}


def convert_claim(value: Object, plan: Plan, notes: Notes) -> dict[str, Any]:
    """A ResourceClaim or ResourceClaimTemplate that just names a class."""
    value = convert_selectors(value, plan, notes)
    spec = mapping(value.get("spec"), ("spec",))
    if value.get("kind") == "ResourceClaimTemplate":
        if is_claim_spec(spec):
            return _versioned(value, {"spec": claim_spec(spec, ("spec",))})
        return _versioned(value, {**spec, "spec": claim_spec(spec["spec"], ("spec", "spec"))})
    if value.get("status"):
        notes.assume(("status",), "the status is left out: the claim is allocated anew")
    return changed(_versioned(value, claim_spec(spec, ("spec",))), status=None)


def _versioned(value: Object, spec: Any) -> dict[str, Any]:
    result = {**value, "apiVersion": VERSION}
    if spec is not None:
        result["spec"] = spec
    return result
