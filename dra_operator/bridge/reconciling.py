"""Keeping published slices in step with nodes: which writes it takes, given what is there. No I/O.

A pool is published anew under the next generation when anything in it changes, so that readers never mix old and new. Only slices of the
bridge's own driver are ever touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dra_operator.bridge.publishing import opted_in, slices
from dra_operator.engine.names import BRIDGE_DRIVER

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
    """What to do with the slice `name`. `body`: the object, or the DeleteOptions."""

    action: Literal["create", "replace", "delete"]
    name: str
    body: Object


def wanted_writes(node_name: str, node: Object | None, published: Iterable[Object]) -> list[Write]:
    """What to send for one node. `node` None: it is gone. `published`: the bridge's slices of this pool.

    New slices first: a reader that sees the higher generation waits for the rest of it, and takes nothing of the old one.
    """
    known = sorted((item for item in published if is_ours(item)), key=_order)
    if node is None or not opted_in(node):
        return [_delete(item) for item in known]
    generation = max((item["spec"]["pool"]["generation"] for item in known), default=0)
    wanted = slices(node, generation)
    if [_content(item["spec"]) for item in known] == [_content(spec) for spec in wanted]:
        return []
    wanted = slices(node, generation + 1)
    writes = [_create(node, spec, number) for number, spec in enumerate(wanted) if number >= len(known)]
    writes += [_update(item, spec) for item, spec in zip(known, wanted, strict=False)]
    writes += [_delete(item) for item in known[len(wanted) :]]
    return writes


def is_ours(item: Object) -> bool:
    return bool((item.get("spec") or {}).get("driver") == BRIDGE_DRIVER)


def pool_of(item: Object) -> str:
    """The node whose pool a slice belongs to."""
    return str(item["spec"]["pool"]["name"])


def _order(item: Object) -> tuple[int, str]:
    name = item["metadata"]["name"]
    number = name.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, name)


def _content(spec: Mapping[str, Any]) -> Object:
    """What makes a difference: the pool's generation does not, nor a field that an API server without its feature gate drops."""
    return {
        **{name: value for name, value in spec.items() if name != "skipNodeOperations"},
        "pool": {**spec["pool"], "generation": 0},
    }


def _create(node: Object, spec: Object, number: int) -> Write:
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"], "controller": True}
    name = f"{meta['name'][:220]}-bridge-{number}"
    return Write("create", name, _slice({"name": name, "ownerReferences": [owner]}, spec))


def _update(item: Object, spec: Object) -> Write:
    kept = ("name", "uid", "resourceVersion", "ownerReferences")
    metadata = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    return Write("replace", item["metadata"]["name"], _slice(metadata, spec))


def _slice(metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _delete(item: Object) -> Write:
    preconditions = {"uid": item["metadata"]["uid"]}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    return Write("delete", item["metadata"]["name"], body)
