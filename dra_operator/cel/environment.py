"""What an expression may refer to: the `device` variable, type names and functions, by feature and environment.

`StoredExpressions` is what the allocator evaluates: everything is there, whatever the features. `NewExpressions` is what the
API server checks new objects against: features decide. Source: k8s.io/dynamic-resource-allocation `cel/compile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dra_operator.cel.declarations import Registry
from dra_operator.cel.library import registry
from dra_operator.cel.types import ANY, BOOL, DYN, STRING, Type, map_of, object_type, parse_type
from dra_operator.cel.values import TypeValue

__all__ = ["DEVICE", "CelFeatures", "Environment", "EnvironmentKind", "environment"]

EnvironmentKind = Literal["StoredExpressions", "NewExpressions"]

DEVICE = object_type("kubernetes.DRADevice")
_QUANTITY = object_type("kubernetes.Quantity")

_TYPE_NAMES = {
    **{name: name for name in ("bool", "bytes", "double", "int", "string", "uint")},
    "list": "list(A)",
    "map": "map(A, B)",
    "null_type": "null",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "type": "type",
    "optional_type": "optional(A)",
    "net.IP": "net.IP",
    "net.CIDR": "net.CIDR",
}


@dataclass(frozen=True, slots=True)
class CelFeatures:
    """The feature gates that expressions depend on; defaults are those of 1.37."""

    list_type_attributes: bool = False
    consumable_capacity: bool = True


@dataclass(frozen=True, slots=True)
class Environment:
    """The names in scope. `attribute` is the declared type of an attribute value: dyn, or any without list attributes."""

    attribute: Type
    device_fields: dict[str, Type]
    functions: Registry
    constants: dict[str, tuple[Type, TypeValue]]


@lru_cache(maxsize=8)
def environment(features: CelFeatures, kind: EnvironmentKind) -> Environment:
    """The environment of a feature set. Shared: do not change it."""
    stored = kind == "StoredExpressions"
    attribute = DYN if stored or features.list_type_attributes else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, _QUANTITY)),
    }
    if stored or features.consumable_capacity:
        fields["allowMultipleAllocations"] = BOOL
    constants = {
        name: (Type("type", "type", (parse_type(text),)), TypeValue(name)) for name, text in _TYPE_NAMES.items()
    }
    return Environment(attribute, fields, registry(stored or features.list_type_attributes), constants)
