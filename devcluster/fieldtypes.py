"""The field types of the kinds we read, as a running API server publishes them: makes `dra_operator/api/fieldtypes.json`.

    python -m devcluster.fieldtypes NAME > dra_operator/api/fieldtypes.json

NAME is a running instance. Descriptions and defaults are left out; what stays is which field has which type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dra_operator.cluster.rest import OPERATOR_GROUP, RESOURCES

_PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.")
_ANY = frozenset(
    {
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
    }
)
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
}


def field_types(get: Callable[[str], Any]) -> dict[str, Any]:
    """`{"kinds": {"apiVersion/Kind": type}, "types": {type: {field: type}}}`. `get` fetches a path of the server as JSON.

    A type is a scalar's name, a name of `types`, `[]type` or `{}type`.
    """
    kinds: dict[str, str] = {}
    types: dict[str, dict[str, str]] = {}
    groups = sorted({(item.group, item.version) for item in RESOURCES if item.group != OPERATOR_GROUP})
    for group, version in groups:
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        schemas = get(f"/openapi/v3/{path}")["components"]["schemas"]
        wanted = {item.kind for item in RESOURCES if (item.group, item.version) == (group, version)}
        for name, schema in sorted(schemas.items()):
            for meaning in schema.get("x-kubernetes-group-version-kind", ()):
                if (meaning["group"], meaning["version"]) == (group, version) and meaning["kind"] in wanted:
                    kinds[f"{meaning['kind']}.{version}.{group}".rstrip(".")] = _short(name)
                    _describe(name, schemas, types)
    return {"kinds": kinds, "types": dict(sorted(types.items()))}


def _describe(name: str, schemas: Mapping[str, Any], types: dict[str, dict[str, str]]) -> None:
    """Put the type and all it refers to into `types`."""
    if _short(name) in types:
        return
    fields = types[_short(name)] = {}
    for field, schema in sorted(schemas[name].get("properties", {}).items()):
        fields[field] = _type(schema, schemas, types)


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any], types: dict[str, dict[str, str]]) -> str:
    parts = schema.get("allOf") or ([schema] if "$ref" in schema else [])
    if parts:
        name = parts[0]["$ref"].rpartition("/")[2]
        if name in _SCALARS:
            return _SCALARS[name]
        if name in _ANY:
            return "any"
        _describe(name, schemas, types)
        return _short(name)
    match schema.get("type"):
        case "array":
            return "[]" + _type(schema["items"], schemas, types)
        case "object" if "additionalProperties" in schema:
            return "{}" + _type(schema["additionalProperties"], schemas, types)
        case "integer":
            return str(schema.get("format") or "int64")
        case "number" | "string" | "boolean" as scalar:
            return str(scalar)
        case _:
            return "any"


def _short(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def main() -> None:
    from devcluster import ControlPlane

    plane = ControlPlane.attach(sys.argv[1])
    found = field_types(plane.client.get)
    json.dump(found, sys.stdout, indent=0, sort_keys=True, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
