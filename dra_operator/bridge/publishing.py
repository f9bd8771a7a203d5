"""What a node's device plugin offers, as ResourceSlices: counts from its allocatable, attributes from its labels.

The labels are those of NVIDIA's GPU feature discovery and of GKE; where there are none a device has its resource's name and no more. The
devices of one resource on one node are alike and have no identity: which one a container gets is the plugin's choice.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_operator.api.quantity import Quantity
from dra_operator.engine.names import BRIDGE_DRIVER
from dra_operator.inventory.views import SKIP_NODE_OPERATIONS

Object = dict[str, Any]

#: On a Node: publish it. Nothing is published without.
NODE_LABEL: Final = "dra-operator.dev/bridge"
#: The most devices in one slice (resource.k8s.io/v1).
SLICE_SIZE: Final = 128
#: The most devices of one node: sixteen slices. More are no hardware but a plugin's way to say "as many as you like", and everybody who
#: reads the slices would keep each of them.
MOST_DEVICES: Final = 16 * SLICE_SIZE
#: Resources of nodes that are no devices, though they have a domain in their name.
_NO_DEVICES = re.compile(r"(.*\.)?kubernetes\.io/|hugepages-|attachable-volumes-")
_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>.+)")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")


def opted_in(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(NODE_LABEL) == "true"


def resources(node: Object) -> dict[str, int]:
    """The plugin resources that the node offers, and how many of each: what kubelet says is allocatable, without broken devices."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    counts = {name: _count(amount) for name, amount in amounts.items() if "/" in name and not _NO_DEVICES.match(name)}
    return {name: count for name, count in counts.items() if count is not None}


def _count(amount: Any) -> int | None:
    """How many; None for none and for what is not whole. kubelet writes a thousand as `1k`."""
    try:
        count, rest = divmod(Quantity.parse(str(amount)).nano, 10**9)
    except ValueError:
        return None
    return None if rest or count <= 0 else count


def published(node: Object) -> dict[str, int]:
    """Of `resources` those whose devices fit into one pool; the smaller ones first, so that none is left out because of a larger one."""
    room = MOST_DEVICES
    chosen = {}
    for name, count in sorted(resources(node).items(), key=lambda item: (item[1], item[0])):
        if count <= room:
            room -= count
            chosen[name] = count
    return chosen


def left_out(node: Object) -> str:
    """What is not published of a node that has opted in, why, and what to do; "" where all is."""
    if not opted_in(node):
        return ""
    chosen = published(node)
    rest = sorted(resources(node).keys() - chosen.keys())
    if not rest:
        return ""
    allocatable = node["status"]["allocatable"]
    amounts = ", ".join(f"{str(allocatable[name])[:32]} of {name}" for name in rest)
    return (
        f"node {node['metadata']['name']} offers {amounts}: the bridge publishes at most {MOST_DEVICES} devices of a node, smaller "
        f"resources first, and leaves those out; let their device plugin offer fewer (time slices, replicas), or take the label "
        f"{NODE_LABEL} off the node"
    )


def slices(node: Object, generation: int) -> list[Object]:
    """The specs of the node's slices in pool order; nothing where it has not opted in or offers nothing."""
    if not opted_in(node):
        return []
    name = node["metadata"]["name"]
    devices = list(_devices(node))
    parts = [devices[start : start + SLICE_SIZE] for start in range(0, len(devices), SLICE_SIZE)]
    pool = {"name": name, "generation": generation, "resourceSliceCount": len(parts)}
    skipped = {"skipNodeOperations": ["*"]} if _needs_no_plugin(node) else {}
    return [{"driver": BRIDGE_DRIVER, "nodeName": name, "pool": pool, "devices": part, **skipped} for part in parts]


def _needs_no_plugin(node: Object) -> bool:
    """Kubelet can do without a DRA plugin for devices that ask for no preparation (KEP-5945)."""
    return SKIP_NODE_OPERATIONS in ((node.get("status") or {}).get("declaredFeatures") or ())


def _devices(node: Object) -> Iterator[Object]:
    labels = node["metadata"].get("labels") or {}
    amounts = published(node)
    stems = Counter(map(_stem, amounts))
    for resource, count in sorted(amounts.items()):
        attributes, capacity = _described(resource, labels)
        stem = _stem(resource)
        if stems[stem] > 1:  # names in a pool are unique, or the API server refuses it
            stem = f"{stem[:41]}-{hashlib.sha256(resource.encode()).hexdigest()[:8]}"
        for number in range(count):
            device: Object = {"name": f"{stem}-{number}", "attributes": attributes}
            yield {**device, "capacity": capacity} if capacity else device


def _stem(resource: str) -> str:
    """What the names of its devices begin with."""
    return re.sub(r"[^a-z0-9]+", "-", resource.lower()).strip("-")[:50]


def _described(resource: str, labels: Mapping[str, str]) -> tuple[Object, Object]:
    """Attributes and capacity of a device of this resource, as far as the node's labels tell."""
    attributes: Object = {"resource": {"string": resource[:64]}}
    capacity: Object = {}
    mig = _MIG.fullmatch(resource)
    if mig:
        attributes["profile"] = {"string": mig["profile"].replace(".me", "+me")}
    # With MIG in its mixed strategy each profile has labels of its own: nvidia.com/mig-1g.5gb.memory.
    prefix = resource if mig and f"{resource}.product" in labels else "nvidia.com/gpu"
    if resource.startswith("nvidia.com/"):
        _take(attributes, "productName", labels.get(f"{prefix}.product"))
        _take(attributes, "architecture", labels.get("nvidia.com/gpu.family"))
        version = [labels.get(f"nvidia.com/gpu.compute.{part}", "") for part in ("major", "minor")]
        if all(map(_WHOLE.fullmatch, version)):
            attributes["cudaComputeCapability"] = {"version": f"{version[0]}.{version[1]}.0"}
        # The memory in a GPU's labels is that of a whole one.
        memory = labels.get(f"{prefix}.memory", "") if not mig or prefix == resource else ""
        if _WHOLE.fullmatch(memory):
            capacity["memory"] = {"value": str(Quantity.parse(f"{memory}Mi"))}
    elif resource == "google.com/tpu":
        _take(attributes, "accelerator", labels.get("cloud.google.com/gke-tpu-accelerator"))
        _take(attributes, "topology", labels.get("cloud.google.com/gke-tpu-topology"))
    return attributes, capacity


def _take(attributes: Object, name: str, value: str | None) -> None:
    if value:
        attributes[name] = {"string": value[:64]}
