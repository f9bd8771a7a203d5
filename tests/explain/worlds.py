"""Small clusters of GPUs and NICs with one or two things in the way, as problems in the problem format."""

from __future__ import annotations

from random import Random
from typing import Any

GPU, NIC = "gpu.example.com", "nic.example.com"
NUMA = "resource.kubernetes.io/numaNode"
PCIE = "resource.kubernetes.io/pcieRoot"


def make_world(seed: int) -> dict[str, Any]:
    """Claims that would be easy to serve, were it not for what `seed` puts in their way."""
    random = Random(seed)
    troubles = set(random.sample(TROUBLES, random.choice((1, 1, 2))))
    slices, devices = [], []
    for number in range(random.choice((1, 2, 3))):
        node = f"n{number}"
        gpus = [_gpu(index, random, troubles) for index in range(random.choice((2, 4)))]
        nics = [_nic(index, troubles) for index in range(2)]
        incomplete = "incomplete" in troubles and number == 0
        slices += [_slice(node, GPU, gpus, 2 if incomplete else 1), _slice(node, NIC, nics, 1)]
        devices += [f"{GPU}/{node}/{gpu['name']}" for gpu in gpus]
    taken = random.sample(devices, len(devices) // 2 if "taken" in troubles else 0)
    if "full" in troubles:
        taken = devices
    return {
        "name": f"world-{seed}",
        "nodes": [{"metadata": {"name": f"n{number}", "labels": {}}} for number in range(3)],
        "classes": [
            _class("gpu", f'device.driver == "{GPU}"'),
            _class("nic", f'device.driver == "{NIC}"'),
            _class("bad", f'device.driver == "{GPU}" && device.attributes["{GPU}"].missing == 1'),
        ],
        "slices": slices,
        "allocated": {"devices": sorted(taken)},
        "claims": [_claim(random, troubles)],
    }


TROUBLES = (
    "memory",
    "model",
    "count",
    "taint",
    "taken",
    "full",
    "constraint",
    "incomplete",
    "class",
    "capacity",
    "two terms",
)


def _gpu(index: int, random: Random, troubles: set[str]) -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": f"gpu-{index}",
        "attributes": {
            "model": {"string": random.choice(("A100", "L4"))},
            "cores": {"int": random.choice((32, 64))},
            NUMA: {"int": 0},
            PCIE: {"string": f"pci{index % 2}"},
        },
        "capacity": {"memory": {"value": random.choice(("24Gi", "40Gi"))}},
    }
    if "capacity" in troubles:
        device["allowMultipleAllocations"] = True
    if "taint" in troubles and random.random() < 0.8:
        device["taints"] = [{"key": random.choice(("broken", "old")), "effect": "NoSchedule"}]
    return device


def _nic(index: int, troubles: set[str]) -> dict[str, Any]:
    numa = 1 if "constraint" in troubles else 0
    attributes = {NUMA: {"int": numa}, PCIE: {"string": f"pci{index}"}, "speed": {"int": 100}}
    return {"name": f"nic-{index}", "attributes": attributes}


def _slice(node: str, driver: str, devices: list[dict[str, Any]], count: int) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}


def _class(name: str, expression: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _claim(random: Random, troubles: set[str]) -> dict[str, Any]:
    gpu: dict[str, Any] = {"deviceClassName": "gpu", "count": random.choice((1, 2))}
    selectors = []
    memory = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
    if "memory" in troubles:
        selectors.append(memory)
    if "model" in troubles:
        selectors.append(f'device.attributes["{GPU}"].model == "H100"')
    if "two terms" in troubles:
        selectors.append(f'{memory} && device.attributes["{GPU}"].cores > 100')
    if "count" in troubles:
        gpu["count"] = random.choice((5, 6, 9))
    if "class" in troubles:
        gpu["deviceClassName"] = random.choice(("bad", "gpuu"))
    if "capacity" in troubles:
        gpu["capacity"] = {"requests": {"memory": "60Gi"}}
    if selectors:
        gpu["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    requests = [{"name": "gpu", "exactly": gpu}]
    devices: dict[str, Any] = {"requests": requests}
    if "constraint" in troubles or random.random() < 0.3:
        requests.append({"name": "nic", "exactly": {"deviceClassName": "nic", "count": 1}})
        devices["constraints"] = [{"matchAttribute": NUMA, "requests": ["gpu", "nic"]}]
    return {"metadata": {"name": "claim", "namespace": "default", "uid": "u"}, "spec": {"devices": devices}}
