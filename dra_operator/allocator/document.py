"""Problems as documents: the format of the conformance cases, which `kubectl-dra solve` reads.

Only reading and the shape of answers; how problems are solved is `solving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim, quantity
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidField, InvalidObject, described
from dra_operator.api.fieldtypes import check_fields
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Features, Inventory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """`inventory` holds nodes, classes, slices and what is taken; `nodes` are the candidates in the order written."""

    name: str
    inventory: Inventory
    claims: tuple[ResourceClaim, ...]
    nodes: tuple[str, ...]


def read_document(data: Any) -> Document:
    """Read one problem. Raises InvalidObject or ValueError, naming what is wrong."""
    if not isinstance(data, dict):
        raise ValueError(f"a problem is an object with `claims`, `slices` and `node`, found {described(data)}")
    if "claims" not in data:
        manifest = f"; {data['kind']} is a manifest, which `simulate` and `explain` read" if "kind" in data else ""
        raise ValueError(f"`claims` is missing, so this is no allocation problem{manifest}")
    inventory = Inventory(Features.named(data.get("features")))
    raw_nodes = data["nodes"] if data.get("nodes") is not None else [data["node"]] if data.get("node") else []
    nodes = _read("Node", raw_nodes, "nodes", Node.from_dict)
    for node in nodes:
        inventory.apply_node(node)
    for device_class in _read("DeviceClass", data.get("classes"), "classes", DeviceClass.from_dict):
        inventory.apply_class(device_class)
    for resource_slice in _distinct(_read("ResourceSlice", data.get("slices"), "slices", ResourceSlice.from_dict)):
        inventory.apply_slice(resource_slice)
    _take(inventory, data.get("allocated"))
    claims = tuple(_read("ResourceClaim", data.get("claims"), "claims", ResourceClaim.from_dict))
    return Document(str(data.get("name") or ""), inventory, claims, tuple(node.name for node in nodes))


def _read(kind: str, items: Any, what: str, parse: Callable[[dict[str, Any]], T]) -> list[T]:
    """Objects of one kind. No API server has decoded them, so their shape is looked at first."""
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"`{what}` must be a list of objects")
    group = "" if kind == "Node" else "resource.k8s.io"
    objects = []
    for number, item in enumerate(items):
        wrong = check_fields(group, "v1", kind, item).errors
        if wrong:
            meta = item.get("metadata")
            name = meta.get("name") if isinstance(meta, dict) else None
            known = name if isinstance(name, str) else f"#{number} of `{what}`"
            raise InvalidObject(kind, "", known, wrong[0])
        objects.append(parse(item))
    return objects


def _distinct(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Slices under names of their own: a document may use a name twice, which no API server would have."""
    seen: dict[str, int] = {}
    result = []
    for resource_slice in slices:
        count = seen[resource_slice.name] = seen.get(resource_slice.name, 0) + 1
        result.append(resource_slice if count == 1 else _renamed(resource_slice, f"{resource_slice.name}#{count}"))
    return result


def _renamed(resource_slice: ResourceSlice, name: str) -> ResourceSlice:
    return replace(resource_slice, meta=resource_slice.meta.renamed(name))


def _take(inventory: Inventory, allocated: Any) -> None:
    """`devices` taken whole, `shared` shares, `capacity` what the shares of a device add up to."""
    taken = _mapping(allocated, "allocated")
    for text in _listed(taken.get("devices"), "allocated.devices"):
        driver, pool, device = _device(text)
        result = DeviceResult("", driver, pool, device)
        inventory.use(f"device {text}", Allocation(results=(result,)))
    amounts = dict(_mapping(taken.get("capacity"), "allocated.capacity"))
    for text in _listed(taken.get("shared"), "allocated.shared"):
        path, _, share = text.rpartition("/")
        # The sum belongs to the device; the first share carries it.
        _share(inventory, text, path, share, amounts.pop(path, None))
    for path, consumed in amounts.items():
        _share(inventory, path, path, "", consumed)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise ValueError(f"`{what}` must be a mapping, found {described(value)}")
    return value or {}


def _listed(value: Any, what: str) -> list[str]:
    if not isinstance(value, list | None):
        raise ValueError(f"`{what}` must be a list, found {described(value)}")
    for item in value or ():
        if not isinstance(item, str):
            raise ValueError(f"`{what}` must be a list of texts, found {described(item)} in it")
    return value or []


def _share(inventory: Inventory, uid: str, path: str, share: str, consumed: Any) -> None:
    driver, pool, device = _device(path)
    try:
        amounts = {name: quantity(value) for name, value in _mapping(consumed, f"allocated.capacity of {path}").items()}
    except InvalidField as error:
        raise ValueError(f"allocated.capacity of {path}: {error}") from None
    result = DeviceResult("", driver, pool, device, share_id=share, consumed_capacity=amounts)
    inventory.use(f"share {uid}", Allocation(results=(result,)))


def _device(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) < 3:
        raise ValueError(f"allocated device {text!r} must be driver/pool/device")
    # Pool names may contain slashes themselves.
    return parts[0], "/".join(parts[1:-1]), parts[-1]


__all__ = ["Document", "InvalidObject", "read_document"]
