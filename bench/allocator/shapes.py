"""The problems of this bench: clusters and claims of one shape each, the same at every run."""

from __future__ import annotations

from random import Random
from typing import Any

DRIVER = "gpu.example.com"
FEATURES = [
    "AdminAccess",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "PartitionableDevices",
    "PrioritizedList",
]
#: Model, memory in Gi, and how many of ten nodes have it.
MODELS = (("L4", 24, 4), ("A100", 40, 3), ("H100", 80, 3))
#: A search that takes the in-tree allocator longer is cut off and counts as that long.
PATIENCE_MILLIS = 60_000


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def gpus(name: str, model: str, memory: int, count: int = 8) -> dict[str, Any]:
    """The slice of a node with `count` GPUs on two NUMA nodes."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "uuid": {"string": f"GPU-{name}-{index}"},
                "productName": {"string": model},
                "index": {"int": index},
                "driverVersion": {"version": "580.126.9"},
                "resource.kubernetes.io/numaNode": {"int": index * 2 // count},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02d}"},
            },
            "capacity": {"memory": {"value": f"{memory}Gi"}},
        }
        for index in range(count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{name}-gpus"}, "spec": spec}


def claim(number: int, request: dict[str, Any], match: str | None = None) -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": [{"name": "gpu", **request}]}
    if match is not None:
        devices["constraints"] = [{"matchAttribute": match}]
    meta = {"name": f"claim-{number:05d}", "namespace": "default", "uid": f"uid-{number}"}
    return {"metadata": meta, "spec": {"devices": devices}}


def exactly(count: int, memory: int | None = None, model: str | None = None, part: str | None = None) -> dict[str, Any]:
    selectors = []
    if memory is not None:
        selectors.append(f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}Gi")) >= 0')
    if model is not None:
        selectors.append(f'device.attributes["{DRIVER}"].productName == "{model}"')
    if part is not None:
        selectors.append(f'device.attributes["{DRIVER}"].profile == "{part}"')
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": text}} for text in selectors],
    }


def mixed(number: int, random: Random) -> dict[str, Any]:
    """One of some twenty kinds of claims, most of them for one device."""
    chosen = random.random()
    if chosen < 0.45:
        return claim(number, {"exactly": exactly(1, random.choice((16, 24, 40, 80)))})
    if chosen < 0.6:
        return claim(number, {"exactly": exactly(1, model=random.choice(MODELS)[0])})
    if chosen < 0.8:
        match = random.choice((None, "resource.kubernetes.io/numaNode"))
        return claim(number, {"exactly": exactly(2, random.choice((24, 40)))}, match)
    if chosen < 0.95:
        return claim(number, {"exactly": exactly(4, 24)}, "resource.kubernetes.io/numaNode")
    options = [{"name": "big", **exactly(1, 80)}, {"name": "small", **exactly(2, 40)}]
    return claim(number, {"firstAvailable": options})


def cluster(nodes: int, claims: list[dict[str, Any]]) -> dict[str, Any]:
    models = [model for model in MODELS for _ in range(model[2])]
    names = [f"node-{number:05d}" for number in range(nodes)]
    return {
        "name": "bench",
        "features": FEATURES,
        "nodes": [node(name) for name in names],
        "classes": [selected_class()],
        "slices": [gpus(name, *models[at % len(models)][:2]) for at, name in enumerate(names)],
        "allocated": {},
        "claims": claims,
    }


def filling(nodes: int, claims: int) -> dict[str, Any]:
    random = Random(1)
    return cluster(nodes, [mixed(number, random) for number in range(claims)])


def running_out(nodes: int, claims: int) -> dict[str, Any]:
    """All ask for the one model of which there are far too few."""
    return cluster(nodes, [claim(number, {"exactly": exactly(4, model="H100")}) for number in range(claims)])


def groups(count: int, size: int, wanted: int) -> dict[str, Any]:
    """One claim for more devices with one attribute value than any value has, a request for each."""
    devices = [{"name": f"d{index}", "attributes": {"group": {"int": index % count}}} for index in range(count * size)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "node", "pool": pool, "devices": devices}
    return {
        "name": "bench",
        "features": FEATURES,
        "node": node("node"),
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "slices": [{"metadata": {"name": "slice"}, "spec": spec}],
        "allocated": {},
        "claims": [
            {
                "metadata": {"name": "claim", "namespace": "default", "uid": "uid"},
                "spec": {
                    "devices": {
                        "requests": [{"name": f"gpu-{i}", "exactly": exactly(1)} for i in range(wanted)],
                        "constraints": [{"matchAttribute": f"{DRIVER}/group"}],
                    }
                },
            }
        ],
        "timeoutMillis": PATIENCE_MILLIS,
    }


def selected_class() -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }


def aligned(nodes: int, claims: int) -> dict[str, Any]:
    """Pairs of devices behind one PCIe root."""
    root = "resource.kubernetes.io/pcieRoot"
    return cluster(nodes, [claim(number, {"exactly": exactly(2)}, root) for number in range(claims)])


def wide(nodes: int, devices: int, claims: int) -> dict[str, Any]:
    """Nodes with many devices, of which few are asked for, or as many as share a NUMA node."""
    random = Random(2)
    found = cluster(nodes, [mixed(number, random) for number in range(claims)])
    names = [item["metadata"]["name"] for item in found["nodes"]]
    found["slices"] = [gpus(name, *MODELS[at % 3][:2], devices) for at, name in enumerate(names)]
    return found


#: Partitions of a GPU: name, how many of its seven slices, at which of these it may begin.
PARTITIONS = (("1g", 1, range(7)), ("2g", 2, (0, 2, 4)), ("3g", 3, (0, 4)), ("7g", 7, (0,)))


def partitioned(nodes: int, claims: int) -> dict[str, Any]:
    """Eight GPUs a node, each published as all partitions it could be cut into, over counters (KEP-4815)."""
    random = Random(3)
    asked = [
        claim(number, {"exactly": exactly(1, part=random.choice(("1g", "1g", "2g", "3g", "7g")))})
        for number in range(claims)
    ]
    found = cluster(nodes, asked)
    names = [item["metadata"]["name"] for item in found["nodes"]]
    found["slices"] = [item for name in names for item in _partitions(name, 8)]
    return found


def _partitions(name: str, count: int) -> list[dict[str, Any]]:
    counters = [
        {"name": f"gpu-{gpu}", "counters": {f"slice-{at}": {"value": "1"} for at in range(7)}} for gpu in range(count)
    ]
    devices = [
        {
            "name": f"gpu-{gpu}-{kind}-{begin}",
            "attributes": {"profile": {"string": kind}},
            "consumesCounters": [
                {
                    "counterSet": f"gpu-{gpu}",
                    "counters": {f"slice-{at}": {"value": "1"} for at in range(begin, min(begin + size, 7))},
                }
            ],
        }
        for gpu in range(count)
        for kind, size, begins in PARTITIONS
        for begin in begins
    ]
    # At most 64 devices of a slice may consume counters.
    parts = [devices[at : at + 64] for at in range(0, len(devices), 64)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + len(parts)}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool}
    slices = [{"metadata": {"name": f"{name}-counters"}, "spec": {**spec, "sharedCounters": counters}}]
    for number, part in enumerate(parts):
        slices.append({"metadata": {"name": f"{name}-{number}"}, "spec": {**spec, "devices": part}})
    return slices


def shared(nodes: int, claims: int) -> dict[str, Any]:
    """Devices that ten claims can share by their memory (KEP-5075)."""
    requests = {"capacity": {"requests": {"memory": "8Gi"}}}
    found = cluster(nodes, [claim(number, {"exactly": {**exactly(1), **requests}}) for number in range(claims)])
    for item in found["slices"]:
        for device in item["spec"]["devices"]:
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"memory": {"value": "80Gi", "requestPolicy": {"default": "80Gi"}}}
    return found


def attached(nodes: int, devices: int, claims: int) -> dict[str, Any]:
    """Devices in the network that every node reaches, in pools of 100."""
    random = Random(4)
    found = cluster(nodes, [claim(number, {"exactly": exactly(random.choice((1, 2)))}) for number in range(claims)])
    found["slices"] = []
    for number in range(devices // 100):
        item = gpus(f"pool-{number:04}", *MODELS[number % 3][:2], 100)
        del item["spec"]["nodeName"]
        found["slices"].append({**item, "spec": {**item["spec"], "allNodes": True}})
    return found
