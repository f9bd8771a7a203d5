"""Problems as documents: the format of the conformance cases, which `kubectl-dra solve` reads.

Only reading and the shape of answers; how problems are solved is `solving`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim, quantity
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Features, Inventory


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
        raise ValueError(f"a problem is an object with `claims`, `slices` and `node`, found {type(data).__name__}")
    inventory = Inventory(Features.named(data.get("features")))
    raw_nodes = data["nodes"] if data.get("nodes") is not None else [data["node"]] if data.get("node") else []
    nodes = [Node.from_dict(item) for item in _objects(raw_nodes, "nodes")]
    for node in nodes:
        inventory.apply_node(node)
    for item in _objects(data.get("classes"), "classes"):
        inventory.apply_class(DeviceClass.from_dict(item))
    for resource_slice in _distinct([ResourceSlice.from_dict(item) for item in _objects(data.get("slices"), "slices")]):
        inventory.apply_slice(resource_slice)
    _take(inventory, data.get("allocated") or {})
    claims = tuple(ResourceClaim.from_dict(item) for item in _objects(data.get("claims"), "claims"))
    return Document(str(data.get("name") or ""), inventory, claims, tuple(node.name for node in nodes))


def _objects(items: Any, what: str) -> list[dict[str, Any]]:
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"`{what}` must be a list of objects")
    return items


def _distinct(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Slices under names of their own: a document may use a name twice, which no API server would have."""
    seen: dict[str, int] = {}
    result = []
    for resource_slice in slices:
        count = seen[resource_slice.name] = seen.get(resource_slice.name, 0) + 1
        result.append(resource_slice if count == 1 else _renamed(resource_slice, f"{resource_slice.name}#{count}"))
    return result


def _renamed(resource_slice: ResourceSlice, name: str) -> ResourceSlice:
    return replace(resource_slice, meta=replace(resource_slice.meta, name=name))


def _take(inventory: Inventory, allocated: dict[str, Any]) -> None:
    """`devices` taken whole, `shared` shares, `capacity` what the shares of a device add up to."""
    for text in allocated.get("devices") or ():
        driver, pool, device = _device(text)
        result = DeviceResult("", driver, pool, device)
        inventory.use(f"device {text}", Allocation(results=(result,)))
    amounts = dict(allocated.get("capacity") or {})
    for text in allocated.get("shared") or ():
        path, _, share = str(text).rpartition("/")
        # The sum belongs to the device; the first share carries it.
        _share(inventory, text, path, share, amounts.pop(path, {}))
    for path, consumed in amounts.items():
        _share(inventory, path, path, "", consumed)


def _share(inventory: Inventory, uid: str, path: str, share: str, consumed: Any) -> None:
    driver, pool, device = _device(path)
    try:
        amounts = {name: quantity(value) for name, value in (consumed or {}).items()}
    except InvalidField as error:
        raise ValueError(f"allocated.capacity of {path}: {error}") from None
    result = DeviceResult("", driver, pool, device, share_id=share, consumed_capacity=amounts)
    inventory.use(f"share {uid}", Allocation(results=(result,)))


def _device(text: Any) -> tuple[str, str, str]:
    parts = str(text).split("/")
    if len(parts) < 3:
        raise ValueError(f"allocated device {text!r} must be driver/pool/device")
    # Pool names may contain slashes themselves.
    return parts[0], "/".join(parts[1:-1]), parts[-1]


__all__ = ["Document", "InvalidObject", "read_document"]
