"""The words that the cases are told in: devices, slices and claims beyond those of `tests.engine.stage`, and a stage come to rest."""

from __future__ import annotations

from typing import Any

from dra_operator.cluster.memory.actors.claims import ClaimController
from dra_operator.engine.settings import EngineSettings
from tests.engine.stage import GPU, Object, Stage, claim, node

NIC = "nic.example.com"
NUMA = "resource.kubernetes.io/numaNode"
PCIE = "resource.kubernetes.io/pcieRoot"
NEVER = {"mode": "Never"}


def settled(*objects: Object, seconds: float = 20.0) -> Stage:
    return Stage(*objects, settings=EngineSettings()).run(seconds)


def device(name: str, **fields: Any) -> Object:
    """`attributes` and `capacity` as plain values."""
    item: Object = {"name": name, **fields}
    item["attributes"] = {
        key: {"int": value} if isinstance(value, int) else {"string": value}
        for key, value in fields.get("attributes", {}).items()
    }
    if "capacity" in fields:
        item["capacity"] = {key: {"value": value} for key, value in fields["capacity"].items()}
    return item


def published(node_name: str, devices: list[Object], *, driver: str = GPU, count: int = 1, **spec: Any) -> Object:
    short = driver.partition(".")[0]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{short}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": count},
            "devices": devices,
            **spec,
        },
    }


def big_gpus(node_name: str, count: int = 2, memory: str = "40Gi", model: str = "A100", **fields: Any) -> Object:
    return published(
        node_name,
        [device(f"gpu-{i}", attributes={"model": model}, capacity={"memory": memory}, **fields) for i in range(count)],
    )


def asking(name: str, spec: Object) -> Object:
    return {**claim(name), "spec": spec}


MEMORY = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
MODEL = f'device.attributes["{GPU}"].model == "H100"'


def aligned(count: int = 1) -> Object:
    requests = [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}},
        {"name": "nic", "exactly": {"deviceClassName": "nic"}},
    ]
    return {"devices": {"requests": requests, "constraints": [{"matchAttribute": NUMA, "requests": ["gpu", "nic"]}]}}


def two_sides(name: str) -> list[Object]:
    """GPUs on one NUMA node, the NIC on the other; each GPU shares a PCIe root with a NIC all the same."""
    both = [device(f"gpu-{i}", attributes={NUMA: 0, PCIE: f"pci{i}"}) for i in range(2)]
    nics = [device("nic-0", attributes={NUMA: 1, PCIE: "pci0"})]
    return [node(name), published(name, both), published(name, nics, driver=NIC)]


def without_claim_controller(stage: Stage) -> Stage:
    """As if kube-controller-manager was down: nobody frees the claims of pods that are done or gone."""
    for actor in stage.world.actors:
        if isinstance(actor, ClaimController):
            actor.work = lambda: None  # type: ignore[method-assign]
    return stage
