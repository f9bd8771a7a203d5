"""Nodes for slices that name one which the input does not have: offline, a snapshot of slices alone shall do.

Also fills in the size of Nodes that are written without one. Says what it made; never touches what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_operator.cli.manifests import Manifest, Source
from dra_operator.cluster.rest import NODES, PODS, RESOURCE_SLICES

#: A large machine, so that CPU and memory do not decide where nothing is known of them.
SIZE = {"cpu": "256", "memory": "4Ti", "ephemeral-storage": "16Ti", "pods": "256"}
_SHOWN = 5


def stand_in_nodes(manifests: Sequence[Manifest]) -> tuple[list[Manifest], list[str]]:
    """The Nodes that are missing, and remarks about them and about Nodes without a size, which get one."""
    given = {manifest.name for manifest in manifests if manifest.resource is NODES}
    missing = sorted({name for manifest in manifests for name in _node_names(manifest)} - given)
    made = [Manifest(Source("(stand-in)"), NODES, _node(name)) for name in missing]
    remarks = []
    size = f"{SIZE['cpu']} CPUs, {SIZE['memory']} of memory"
    if missing:
        remarks.append(
            f"no Node given for {_listed(missing)}; made {'it' if len(missing) == 1 else 'them'} with {size}"
        )
    bare = [manifest for manifest in manifests if manifest.resource is NODES and not _has_size(manifest)]
    for manifest in bare:
        manifest.object["status"] = {**(manifest.object.get("status") or {}), "capacity": SIZE, "allocatable": SIZE}
    if bare:
        remarks.append(
            f"no status.allocatable in Node {_listed([manifest.name for manifest in bare])}; taken as {size}"
        )
    return made, remarks


def _node_names(manifest: Manifest) -> set[str]:
    spec = manifest.object.get("spec") or {}
    if manifest.resource is RESOURCE_SLICES:
        devices = spec.get("devices") or ()
        return {name for name in (spec.get("nodeName"), *(device.get("nodeName") for device in devices)) if name}
    if manifest.resource is PODS and spec.get("nodeName"):
        return {spec["nodeName"]}
    return set()


def _node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": dict(SIZE), "allocatable": dict(SIZE)},
    }


def _has_size(node: Manifest) -> bool:
    status = node.object.get("status") or {}
    return bool(status.get("allocatable") or status.get("capacity"))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
