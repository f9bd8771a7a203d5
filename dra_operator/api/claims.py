"""ResourceClaim, ResourceClaimTemplate and DeviceClass of `resource.k8s.io/v1`.

Source: the API documentation of resource.k8s.io/v1 (limits and defaults in its types). Writing an allocation back goes through
`Allocation.to_dict`, which leaves out what is empty, as the in-tree allocator does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import orjson

from dra_operator.api.binding import Binding, binding_of
from dra_operator.api.errors import InvalidField, each, inside
from dra_operator.api.meta import Key, ObjectMeta, parse_time, read_object
from dra_operator.api.quantity import Quantity
from dra_operator.api.records import record
from dra_operator.api.selectors import NodeSelector
from dra_operator.api.sharing import Sharing, required_text, shared_text
from dra_operator.api.taints import Toleration

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"

#: The most device results one claim can have (AllocationResultsMaxSize).
MAX_RESULTS = 32

NO_CAPACITY: Mapping[str, Quantity] = MappingProxyType({})
_QUANTITIES = Sharing()


@dataclass(frozen=True, slots=True)
class DerivedAttribute:
    """KEP-6080 (alpha in 1.37)."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """What `exactly` or one entry of `firstAvailable` asks for. `name` is the request's or the subrequest's own name.

    `selectors` holds CEL expressions; None stands for an entry without `cel`, which the allocator refuses.
    `count` is 1 where unset; it has no meaning with mode All.
    """

    name: str
    device_class_name: str
    selectors: tuple[str | None, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=lambda: NO_CAPACITY)
    derived_attributes: tuple[DerivedAttribute, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any], name: str) -> RequestDetail:
        count = data.get("count")
        return cls(
            name=name,
            device_class_name=data.get("deviceClassName") or "",
            selectors=each("selectors", data.get("selectors"), selector_expression),
            allocation_mode=data.get("allocationMode") or "ExactCount",
            count=1 if count is None else int(count),
            admin_access=bool(data.get("adminAccess")),
            tolerations=each("tolerations", data.get("tolerations"), Toleration.from_dict),
            capacity=inside("capacity.requests", (data.get("capacity") or {}).get("requests"), quantities),
            derived_attributes=each(
                "derivedAttributes",
                data.get("derivedAttributes"),
                lambda item: DerivedAttribute(item["name"], item["expression"]),
            ),
        )


def selector_expression(data: dict[str, Any]) -> str | None:
    """The CEL expression of a DeviceSelector; None where the entry has no `cel`."""
    cel = data.get("cel")
    return None if cel is None else str(cel.get("expression") or "")


def quantities(data: dict[str, Any] | None) -> Mapping[str, Quantity]:
    """A map of names to quantities. Raises InvalidField."""
    if not data:
        return NO_CAPACITY
    if any(text.__class__ is not str for text in data.values()):
        return _quantities(data)
    return _QUANTITIES.get(tuple(data.items()), lambda: _quantities(data))


def _quantities(data: dict[str, Any]) -> Mapping[str, Quantity]:
    return {name: inside(f"[{name}]", text, quantity) for name, text in data.items()}


def quantity(text: Any) -> Quantity:
    """A quantity from JSON (text, or a bare number). Raises InvalidField."""
    try:
        return Quantity.parse(str(text))
    except ValueError as error:
        raise InvalidField(f"{text!r} is not a quantity ({error})") from None


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Exactly one of `exactly` and `first_available` is set in what the API server accepts."""

    name: str
    exactly: RequestDetail | None
    first_available: tuple[RequestDetail, ...]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceRequest:
        name = data.get("name") or ""
        exact = data.get("exactly")
        return cls(
            name=name,
            exactly=None
            if exact is None
            else inside("exactly", exact, lambda item: RequestDetail.from_dict(item, name)),
            first_available=each(
                "firstAvailable",
                data.get("firstAvailable"),
                lambda item: RequestDetail.from_dict(item, item.get("name") or ""),
            ),
        )

    @property
    def details(self) -> tuple[RequestDetail, ...]:
        """The alternatives, in order of preference."""
        return (self.exactly,) if self.exactly is not None else self.first_available


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """`requests` empty = all requests of the claim. Attribute names are fully qualified."""

    requests: tuple[str, ...]
    match_attribute: str | None
    distinct_attribute: str | None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceConstraint:
        return cls(tuple(data.get("requests") or ()), data.get("matchAttribute"), data.get("distinctAttribute"))


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Driver configuration. `opaque` is handed through unread; `source` is set in allocation results only."""

    requests: tuple[str, ...]
    opaque: Any
    source: str | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceConfig:
        return cls(tuple(data.get("requests") or ()), data.get("opaque"), data.get("source"))

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if self.source:
            result["source"] = self.source
        if self.requests:
            result["requests"] = list(self.requests)
        if self.opaque is not None:
            result["opaque"] = self.opaque
        return result


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any] | None) -> ClaimSpec:
        """Equal texts give one object: the claims of a template share their spec, and what is derived from it."""
        devices = (data or {}).get("devices") or {}
        try:
            key = orjson.dumps(devices, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:
            return cls._read(devices)
        known = _SPECS.get(key)
        if known is None:
            known = cls._read(devices)
            if len(_SPECS) >= _SPECS_KEPT:
                _SPECS.clear()
            _SPECS[key] = known
        return known

    @classmethod
    def _read(cls, devices: dict[str, Any]) -> ClaimSpec:
        return cls(
            requests=each("devices.requests", devices.get("requests"), DeviceRequest.from_dict),
            constraints=each("devices.constraints", devices.get("constraints"), DeviceConstraint.from_dict),
            config=each("devices.config", devices.get("config"), DeviceConfig.from_dict),
        )


_SPECS: dict[bytes, ClaimSpec] = {}
_SPECS_KEPT = 8192


@record
class DeviceResult:
    """One allocated device (DeviceRequestAllocationResult). `request` is "req" or "req/sub"."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=lambda: NO_CAPACITY)
    skip_node_operations: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceResult:
        return cls(
            request=shared_text(data.get("request") or ""),
            driver=required_text(data, "driver"),
            pool=required_text(data, "pool"),
            device=required_text(data, "device"),
            admin_access=bool(data.get("adminAccess")),
            tolerations=each("tolerations", data.get("tolerations"), Toleration.from_dict),
            binding_conditions=tuple(data.get("bindingConditions") or ()),
            binding_failure_conditions=tuple(data.get("bindingFailureConditions") or ()),
            share_id=data.get("shareID"),
            consumed_capacity=inside("consumedCapacity", data.get("consumedCapacity"), quantities),
            skip_node_operations=tuple(data.get("skipNodeOperations") or ()),
        )

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "request": self.request,
            "driver": self.driver,
            "pool": self.pool,
            "device": self.device,
        }
        if self.admin_access:
            result["adminAccess"] = True
        if self.tolerations:
            result["tolerations"] = [toleration.to_dict() for toleration in self.tolerations]
        if self.binding_conditions:
            result["bindingConditions"] = list(self.binding_conditions)
        if self.binding_failure_conditions:
            result["bindingFailureConditions"] = list(self.binding_failure_conditions)
        if self.share_id is not None:
            result["shareID"] = self.share_id
        if self.consumed_capacity:
            result["consumedCapacity"] = {name: str(amount) for name, amount in self.consumed_capacity.items()}
        if self.skip_node_operations:
            result["skipNodeOperations"] = list(self.skip_node_operations)
        return result


@record
class Allocation:
    """`status.allocation`. `timestamp` is seconds since the epoch (written as RFC 3339, whole seconds)."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    node_selector: NodeSelector | None = None
    timestamp: float | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Allocation:
        devices = data.get("devices") or {}
        selector = data.get("nodeSelector")
        return cls(
            results=each("devices.results", devices.get("results"), DeviceResult.from_dict),
            config=each("devices.config", devices.get("config"), DeviceConfig.from_dict),
            node_selector=None if selector is None else inside("nodeSelector", selector, NodeSelector.from_dict),
            timestamp=parse_time(data.get("allocationTimestamp")),
        )

    def to_dict(self) -> dict[str, Any]:
        """As the API server takes it, without the timestamp, which the writer stamps."""
        devices: dict[str, Any] = {}
        if self.results:
            devices["results"] = [result.to_dict() for result in self.results]
        if self.config:
            devices["config"] = [config.to_dict() for config in self.config]
        allocation: dict[str, Any] = {"devices": devices} if devices else {}
        if self.node_selector is not None:
            allocation["nodeSelector"] = self.node_selector.source
        return allocation


@dataclass(frozen=True, slots=True)
class Consumer:
    """One entry of `status.reservedFor`."""

    resource: str
    name: str
    uid: str
    api_group: str = ""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Consumer:
        return cls(shared_text(data["resource"]), data["name"], data["uid"], data.get("apiGroup") or "")

    def to_dict(self) -> dict[str, Any]:
        group = {"apiGroup": self.api_group} if self.api_group else {}
        return {**group, "resource": self.resource, "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    meta: ObjectMeta
    spec: ClaimSpec
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    binding: Binding | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ResourceClaim:
        """Raises InvalidObject."""
        return read_object("ResourceClaim", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> ResourceClaim:
        status = data.get("status") or {}
        allocation = None
        if status.get("allocation") is not None:
            allocation = inside("status.allocation", status["allocation"], Allocation.from_dict)
        return cls(
            meta=meta,
            spec=inside("spec", data.get("spec"), ClaimSpec.from_dict),
            allocation=allocation,
            binding=None
            if allocation is None
            else inside("status.devices", status.get("devices") or (), partial(binding_of, allocation.results)),
            reserved_for=each("status.reservedFor", status.get("reservedFor"), Consumer.from_dict),
        )

    @property
    def key(self) -> Key:
        return self.meta.key


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    meta: ObjectMeta
    spec: ClaimSpec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ResourceClaimTemplate:
        """Raises InvalidObject."""
        return read_object("ResourceClaimTemplate", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> ResourceClaimTemplate:
        return cls(meta, inside("spec.spec", (data.get("spec") or {}).get("spec"), ClaimSpec.from_dict))


@dataclass(frozen=True, slots=True)
class DeviceClass:
    meta: ObjectMeta
    selectors: tuple[str | None, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    extended_resource_name: str | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceClass:
        """Raises InvalidObject."""
        return read_object("DeviceClass", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> DeviceClass:
        spec = data.get("spec") or {}
        return cls(
            meta=meta,
            selectors=each("spec.selectors", spec.get("selectors"), selector_expression),
            config=each("spec.config", spec.get("config"), DeviceConfig.from_dict),
            extended_resource_name=spec.get("extendedResourceName"),
        )

    @property
    def name(self) -> str:
        return self.meta.name
