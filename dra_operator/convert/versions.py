"""Objects of earlier `resource.k8s.io` versions as v1: v1alpha2, v1alpha3, v1beta1, v1beta2.

Source: the API types of Kubernetes 1.26 to 1.36. What was removed on the way without a successor (classic DRA with its controllers,
parameters objects, taint rules by class) is said to have no translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.dialect import VERSION
from dra_operator.convert.names import is_identifier
from dra_operator.convert.plan import Notes, Plan
from dra_operator.convert.remarks import Untranslatable
from dra_operator.convert.values import Object, changed, dig, items, mapped, mapping, only, text

GROUP = "resource.k8s.io"

#: Versions whose objects are read here. ResourcePoolStatusRequest has no other version than v1alpha3 yet.
OLD_VERSIONS = frozenset(
    {f"{GROUP}/{version}" for version in ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1", "v1beta2")}
)
_CURRENT = frozenset({"ResourcePoolStatusRequest"})
_GONE = {
    "PodSchedulingContext": "it belonged to classic DRA and is made by the scheduler; delete it",
    "PodScheduling": "it belonged to classic DRA and is made by the scheduler; delete it",
    "ResourceClaimParameters": "write what it asks for as `selectors` or `config` of the claim, then delete it",
    "ResourceClassParameters": "write what it says as `selectors` or `config` of the DeviceClass, then delete it",
}
_EXACT_FIELDS = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity", "derivedAttributes",
)  # fmt: skip
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def is_old(value: Object) -> bool:
    return value.get("apiVersion") in OLD_VERSIONS and value.get("kind") not in _CURRENT


def convert_version(value: Object, plan: Plan, notes: Notes) -> list[Object]:
    """The object in v1; a slice with counters and devices becomes two. Raises Untranslatable."""
    kind = str(value.get("kind"))
    if kind in _GONE:
        raise Untranslatable((), f"{kind} has no successor in v1: {_GONE[kind]}")
    match kind:
        case "ResourceClass":
            return [_resource_class(value, notes)]
        case "DeviceClass":
            return [_device_class(value)]
        case "ResourceClaim":
            return [_claim(value)]
        case "ResourceClaimTemplate":
            spec = mapping(value.get("spec"), ("spec",))
            inner = claim_devices(mapping(spec.get("spec"), ("spec", "spec")), ("spec", "spec"))
            return [{**value, "apiVersion": VERSION, "spec": {**spec, "spec": inner}}]
        case "ResourceSlice":
            return _slice(value, plan, notes)
        case "DeviceTaintRule":
            return [_taint_rule(value)]
    raise Untranslatable(("kind",), f"{GROUP} has no kind {kind}; check its spelling")


def pool_of(value: Object) -> tuple[str, str]:
    """(driver, pool) of a slice."""
    return str(dig(value, "spec", "driver")), str(dig(value, "spec", "pool", "name"))


def splits(value: Object) -> bool:
    """Whether a slice has counters next to devices, which v1 wants in slices of their own (since 1.35)."""
    return bool(dig(value, "spec", "sharedCounters")) and bool(dig(value, "spec", "devices"))


# --- classes and claims


def _device_class(value: Object) -> Object:
    if dig(value, "spec", "suitableNodes") is not None:
        raise Untranslatable(
            ("spec", "suitableNodes"), "classes no longer choose nodes; move this to the pods' nodeSelector or affinity"
        )
    return {**value, "apiVersion": VERSION}


def _resource_class(value: Object, notes: Notes) -> Object:
    """Classic DRA: a class was a driver."""
    driver = text(value.get("driverName"), ("driverName",), "driverName")
    for field, repair in (
        ("parametersRef", "write what the parameters say as `selectors` or `config` of a DeviceClass"),
        ("suitableNodes", "move this to the pods' nodeSelector or affinity"),
    ):
        if value.get(field) is not None:
            raise Untranslatable((field,), f"`{field}` of a ResourceClass has no counterpart; {repair}")
    notes.assume(
        ("driverName",), f"driver {driver} publishes ResourceSlices now, all of whose devices belong to the class"
    )
    rest = changed(value, driverName=None, structuredParameters=None)
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    return {**rest, "apiVersion": VERSION, "kind": "DeviceClass", "spec": {"selectors": [selector]}}


def _claim(value: Object) -> Object:
    spec = claim_devices(mapping(value.get("spec"), ("spec",)), ("spec",))
    result = {**value, "apiVersion": VERSION, "spec": spec}
    status = value.get("status")
    if isinstance(status, Mapping):
        if dig(status, "allocation", "controller") or status.get("driverName"):
            raise Untranslatable(
                ("status",), "the claim was allocated by a classic DRA controller; delete it, or remove its status"
            )
        result["status"] = changed(status, deallocationRequested=None)
    return result


def claim_devices(spec: Object, path: FieldPath) -> Object:
    """The spec of a claim with the requests of v1. Raises Untranslatable."""
    if spec.get("controller"):
        raise Untranslatable(
            (*path, "controller"), "classic DRA controllers are gone; remove the field if the driver publishes slices"
        )
    devices = spec.get("devices")
    if devices is None:
        return spec
    where = (*path, "devices")
    requests = mapped(mapping(devices, where).get("requests"), (*where, "requests"), _request)
    return {**spec, "devices": devices if requests is devices.get("requests") else {**devices, "requests": requests}}


def _request(request: Object, path: FieldPath) -> Object:
    """v1beta1 has the fields of an exact request in the request itself."""
    flat = {name: request[name] for name in _EXACT_FIELDS if name in request}
    if not flat or "exactly" in request:
        return request
    if request.get("firstAvailable"):
        raise Untranslatable(path, "a request has either firstAvailable or fields of its own; remove one of them")
    only(request, path, "name", "firstAvailable", *_EXACT_FIELDS)
    return {"name": request.get("name"), "exactly": flat}


def _taint_rule(value: Object) -> Object:
    selector = mapping(dig(value, "spec", "deviceSelector"), ("spec", "deviceSelector"))
    for field in ("deviceClassName", "selectors"):
        if selector.get(field):
            raise Untranslatable(
                ("spec", "deviceSelector", field),
                "taint rules choose by driver, pool and device only; name the devices by these",
            )
    if not selector:
        return {**value, "apiVersion": VERSION}
    spec = {**value["spec"], "deviceSelector": changed(selector, deviceClassName=None, selectors=None)}
    return {**value, "apiVersion": VERSION, "spec": spec}


# --- slices


def _slice(value: Object, plan: Plan, notes: Notes) -> list[Object]:
    if "namedResources" in value:
        return [_named_resources(value, notes)]
    spec = mapping(value.get("spec"), ("spec",))
    devices = mapped(spec.get("devices"), ("spec", "devices"), _device)
    spec = {name: item for name, item in spec.items() if not (name in _NODE_FIELDS and item in ("", False, None))}
    if devices is not None:
        spec = {**spec, "devices": devices}
    result = {**value, "apiVersion": VERSION, "spec": spec}
    pool, added = pool_of(value), plan.split_in[pool_of(value)]
    if not added:
        return [result]
    count = dig(spec, "pool", "resourceSliceCount")
    if plan.slices_in[pool] != count:
        raise Untranslatable(
            ("spec", "sharedCounters"),
            f"since 1.35 counters and devices need slices of their own, and the count of pool {pool[1]} changes with that; "
            f"convert all its {count} slices together ({plan.slices_in[pool]} are here)",
        )
    return _split(result, count + added, notes)


def _split(value: Object, count: int, notes: Notes) -> list[Object]:
    """The slice with the pool's new count, and before it the counters where it has both."""
    spec = value["spec"]
    spec = {**spec, "pool": {**spec["pool"], "resourceSliceCount": count}}
    if not splits(value):
        return [{**value, "spec": spec}]
    metadata = mapping(value.get("metadata"), ("metadata",))
    name = metadata.get("name") or metadata.get("generateName")
    notes.assume(
        ("spec", "sharedCounters"), f"the counters move to slice {name}-counters: they need one of their own since 1.35"
    )
    counters = {
        "name": f"{name}-counters",
        **{field: metadata[field] for field in ("labels", "ownerReferences") if field in metadata},
    }
    return [
        {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": counters, "spec": changed(spec, devices=None)},
        {**value, "spec": changed(spec, sharedCounters=None)},
    ]


def _device(device: Object, path: FieldPath) -> Object:
    if "basic" in device:
        only(device, path, "name", "basic")
        device = {"name": device.get("name"), **mapping(device["basic"], (*path, "basic"))}
    if device.get("nodeAllocatableResourceMappings"):
        where = (*path, "nodeAllocatableResourceMappings")
        raise Untranslatable(where, "replaced by nodeAllocatableResources with another meaning in 1.37; write it anew")
    capacity = device.get("capacity")
    if isinstance(capacity, Mapping) and any(not isinstance(amount, Mapping) for amount in capacity.values()):
        # 1.31 has the quantity itself.
        amounts = {
            name: amount if isinstance(amount, Mapping) else {"value": amount} for name, amount in capacity.items()
        }
        device = {**device, "capacity": amounts}
    return device


_NAMED_VALUES = {"bool": "bool", "int": "int", "string": "string", "version": "version"}


def _named_resources(value: Object, notes: Notes) -> Object:
    """v1alpha2: instances with a list of typed attributes, quantities among them."""
    path: FieldPath = ("namedResources", "instances")
    instances = enumerate(items(dig(value, *map(str, path)), path))
    devices = [_instance(mapping(instance, (*path, index)), (*path, index)) for index, instance in instances]
    node, driver = value.get("nodeName"), text(value.get("driverName"), ("driverName",), "driverName")
    place = {"nodeName": node} if node else {"allNodes": True}
    pool = {"name": node or driver, "generation": 1, "resourceSliceCount": 1}
    notes.assume(("namedResources",), f"the slice is all of pool {pool['name']}")
    rest = changed(value, nodeName=None, driverName=None, namedResources=None)
    return {**rest, "apiVersion": VERSION, "spec": {"driver": driver, **place, "pool": pool, "devices": devices}}


def _instance(instance: Object, path: FieldPath) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    for index, item in enumerate(items(instance.get("attributes"), (*path, "attributes"))):
        where = (*path, "attributes", index)
        attribute = mapping(item, where)
        name = text(attribute.get("name"), (*where, "name"), "the attribute's name")
        if not is_identifier(name.rpartition("/")[2]):
            raise Untranslatable((*where, "name"), f"{name!r} is no attribute name in v1; use letters, digits and _")
        kinds = [kind for kind in attribute if kind != "name" and attribute[kind] is not None]
        if kinds == ["quantity"]:
            capacity[name] = {"value": attribute["quantity"]}
        elif len(kinds) == 1 and kinds[0] in _NAMED_VALUES:
            attributes[name] = {kinds[0]: attribute[kinds[0]]}
        else:
            raise Untranslatable(
                where, f"an attribute of type {' and '.join(kinds) or 'none'} has no counterpart in v1"
            )
    device: dict[str, Any] = {"name": text(instance.get("name"), (*path, "name"), "the instance's name")}
    return device | ({"attributes": attributes} if attributes else {}) | ({"capacity": capacity} if capacity else {})
