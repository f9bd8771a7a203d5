"""ResourceSlice and DeviceTaintRule of `resource.k8s.io/v1`.

Read for 40,000 devices at start-up, hence slotted, without per-device metadata objects, and with attribute values as plain Python
values: bool, int, str, Semver; a tuple for the list forms (KEP-5491); None for a value of a type this version does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dra_operator.api.claims import NO_CAPACITY, quantities, quantity
from dra_operator.api.errors import InvalidField, each, inside
from dra_operator.api.meta import ObjectMeta, read_object
from dra_operator.api.quantity import Quantity
from dra_operator.api.selectors import NodeSelector
from dra_operator.api.semver import Semver
from dra_operator.api.sharing import required_text, shared, shared_text
from dra_operator.api.taints import Taint

Scalar = bool | int | str | Semver
AttributeValue = Scalar | tuple[Scalar, ...] | None

NO_ATTRIBUTES: Mapping[str, AttributeValue] = MappingProxyType({})


def attribute_value(data: dict[str, Any]) -> AttributeValue:
    """One DeviceAttribute as a Python value. Raises InvalidField."""
    for kind, value in data.items():
        if value is None:
            continue
        match kind:
            case "string":
                return sys.intern(str(value))
            case "int":
                return int(value)
            case "bool":
                return bool(value)
            case "version":
                return _version(value)
            case "strings":
                return shared(tuple(value))
            case "ints" | "bools":
                # Not shared: (1,) and (True,) are equal, but not the same values.
                return tuple(value)
            case "versions":
                return tuple(_version(item) for item in value)
    return None


def _version(text: Any) -> Semver:
    try:
        return _semver(str(text))
    except ValueError as error:
        raise InvalidField(f"{text!r} is not a semantic version ({error})") from None


@lru_cache(maxsize=4096)
def _semver(text: str) -> Semver:
    return Semver.parse(text)


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """CapacityRequestPolicy (KEP-5075): what amounts of a capacity can be requested."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...] | None
    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RequestPolicy:
        bounds = data.get("validRange") or {}

        def optional(source: dict[str, Any], name: str) -> Quantity | None:
            return None if source.get(name) is None else inside(name, source[name], quantity)

        values = data.get("validValues") or None
        return cls(
            default=optional(data, "default"),
            valid_values=None if values is None else each("validValues", values, quantity),
            minimum=optional(bounds, "min"),
            maximum=optional(bounds, "max"),
            step=optional(bounds, "step"),
        )


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device takes of one counter set of its pool (KEP-4815)."""

    counter_set: str
    counters: Mapping[str, Quantity]
    compatibility_groups: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CounterConsumption:
        return cls(
            required_text(data, "counterSet"),
            inside("counters", _values(data.get("counters")), quantities),
            tuple(data.get("compatibilityGroups") or ()),
        )


def _values(counters: dict[str, Any] | None) -> dict[str, Any]:
    return {name: counter["value"] for name, counter in (counters or {}).items()}


NO_POLICIES: Mapping[str, RequestPolicy] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Device:
    """One device as published. `node_name`, `node_selector`, `all_nodes` only with the slice's perDeviceNodeSelection."""

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: NO_ATTRIBUTES)
    capacity: Mapping[str, Quantity] = field(default_factory=lambda: NO_CAPACITY)
    policies: Mapping[str, RequestPolicy] = field(default_factory=lambda: NO_POLICIES)
    consumes: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple: bool = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Device:
        attributes = data.get("attributes")
        capacity = data.get("capacity")
        selector = data.get("nodeSelector")
        return cls(
            name=required_text(data, "name"),
            attributes=(
                {name: inside(f"attributes[{name}]", item, attribute_value) for name, item in attributes.items()}
                if attributes
                else NO_ATTRIBUTES
            ),
            capacity=inside("capacity", _values(capacity), quantities) if capacity else NO_CAPACITY,
            policies={
                name: inside(f"capacity[{name}].requestPolicy", item["requestPolicy"], RequestPolicy.from_dict)
                for name, item in (capacity or {}).items()
                if item.get("requestPolicy") is not None
            }
            or NO_POLICIES,
            consumes=each("consumesCounters", data.get("consumesCounters"), CounterConsumption.from_dict),
            node_name=data.get("nodeName"),
            node_selector=None if selector is None else inside("nodeSelector", selector, NodeSelector.from_dict),
            all_nodes=bool(data.get("allNodes")),
            taints=each("taints", data.get("taints"), Taint.from_dict),
            binds_to_node=bool(data.get("bindsToNode")),
            binding_conditions=tuple(data.get("bindingConditions") or ()),
            binding_failure_conditions=tuple(data.get("bindingFailureConditions") or ()),
            allow_multiple=bool(data.get("allowMultipleAllocations")),
        )


@dataclass(frozen=True, slots=True)
class CounterSet:
    name: str
    counters: Mapping[str, Quantity]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CounterSet:
        return cls(required_text(data, "name"), inside("counters", _values(data.get("counters")), quantities))


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """`slice_count` is the pool's resourceSliceCount. Exactly one of the four ways to select nodes is set by drivers."""

    meta: ObjectMeta
    driver: str
    pool: str
    generation: int
    slice_count: int
    node_name: str | None
    node_selector: NodeSelector | None
    all_nodes: bool
    per_device_node_selection: bool
    devices: tuple[Device, ...]
    shared_counters: tuple[CounterSet, ...]
    skip_node_operations: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ResourceSlice:
        """Raises InvalidObject."""
        return read_object("ResourceSlice", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> ResourceSlice:
        spec = data["spec"]
        pool = spec.get("pool") or {}
        selector = spec.get("nodeSelector")
        return cls(
            meta=meta,
            driver=required_text(spec, "driver"),
            pool=shared_text(pool.get("name") or ""),
            generation=pool.get("generation") or 0,
            slice_count=pool.get("resourceSliceCount") or 0,
            node_name=shared_text(spec.get("nodeName") or None),
            node_selector=None if selector is None else inside("spec.nodeSelector", selector, NodeSelector.from_dict),
            all_nodes=bool(spec.get("allNodes")),
            per_device_node_selection=bool(spec.get("perDeviceNodeSelection")),
            devices=each("spec.devices", spec.get("devices"), Device.from_dict),
            shared_counters=each("spec.sharedCounters", spec.get("sharedCounters"), CounterSet.from_dict),
            skip_node_operations=tuple(spec.get("skipNodeOperations") or ()),
        )

    @property
    def name(self) -> str:
        return self.meta.name


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """An admin's taint on all devices that match driver, pool and device (None = any). `selects` False: it taints nothing."""

    meta: ObjectMeta
    selects: bool
    driver: str | None
    pool: str | None
    device: str | None
    taint: Taint

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceTaintRule:
        """Raises InvalidObject."""
        return read_object("DeviceTaintRule", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> DeviceTaintRule:
        spec = data["spec"]
        selector = spec.get("deviceSelector")
        found = selector or {}
        return cls(
            meta=meta,
            selects=selector is not None,
            driver=found.get("driver"),
            pool=found.get("pool"),
            device=found.get("device"),
            taint=inside("spec.taint", spec["taint"], Taint.from_dict),
        )

    def covers(self, driver: str, pool: str, device: str) -> bool:
        """Does it taint this device?"""
        wanted = ((self.driver, driver), (self.pool, pool), (self.device, device))
        return self.selects and all(asked is None or asked == name for asked, name in wanted)
