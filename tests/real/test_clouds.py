"""The classes and workloads of `examples/` for clouds on a real control plane, with nodes of their machines' shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster import ControlPlane
from devcluster.pytest_plugin import Nodes
from tests.real.operator_process import ROOT, OperatorProcess
from tests.real.scene import Scene
from tests.real.workloads import devices, listed

pytestmark = pytest.mark.real


@pytest.fixture
def scene(control_plane: ControlPlane, namespace: str, operator: OperatorProcess) -> Iterator[Scene]:
    yield Scene(control_plane, namespace)
    control_plane.kubectl("delete", "deviceclasses", "--selector", f"test={namespace}", "--wait=false")


def objects(cloud: str, file: str, namespace: str) -> list[dict[str, Any]]:
    """In the namespace of the test; classes are labelled as its own, to go with it."""
    text = (ROOT / "examples" / cloud / file).read_text().replace("namespace: ml", f"namespace: {namespace}")
    found = list(yaml.safe_load_all(text))
    for item in found:
        if item["kind"] == "DeviceClass":
            item["metadata"]["labels"] = {"test": namespace}
    return found


def test_gpus_with_the_adapter_of_their_switch_and_a_group_in_one_domain(
    scene: Scene, nodes: Nodes, namespace: str
) -> None:
    aws, first, second = nodes("p4d:1,gb200:2")
    scene.apply(*objects("eks", "classes.yaml", namespace), *objects("oci", "classes.yaml", namespace))
    scene.apply(*objects("eks", "workloads.yaml", namespace))
    # The whole trays before the half of one, which would otherwise be in their way: there are two here.
    trays = objects("oci", "workloads.yaml", namespace)
    scene.apply(*(item for item in trays if item["metadata"]["name"] != "inference"))
    scene.wait(lambda: len(scene.bound()) == 6, "four pods run on the p4d, two on the trays")
    assert sorted(scene.bound().values()) == sorted([aws] * 4 + [first, second])
    for claim in listed(scene.plane, namespace, "resourceclaims"):
        if claim["metadata"]["name"].startswith("allreduce"):
            names = sorted(device for _, _, device in devices(claim))
            numbers = [int(name.removeprefix("gpu-")) for name in names if name.startswith("gpu")]
            (bus,) = [name.split("-")[2] for name in names if name.startswith("pci")]
            assert numbers == {"10": [0, 1], "20": [2, 3], "90": [4, 5], "a0": [6, 7]}[bus]


def test_gke_classes_take_what_they_mean(scene: Scene, nodes: Nodes, namespace: str) -> None:
    host, other, azure = nodes("cpu:2,h100:1")
    scene.apply(*objects("gke", "classes.yaml", namespace))
    slices = yaml.safe_load_all((ROOT / "examples" / "gke" / "cluster.yaml").read_text())
    moved = {"v5p-host": host, "v5p-part": host, "a2-fast": other, "h100-nvl": other}
    ours = []
    for item in slices:
        if item["kind"] == "ResourceSlice" and item["spec"]["nodeName"] in moved:
            was = item["spec"]["nodeName"]
            spec = json.loads(json.dumps(item["spec"]).replace(f'"{was}"', f'"{was}-{namespace}"'))
            item["spec"] = {**spec, "nodeName": moved[was]}
            item["metadata"] = {"name": f"{item['metadata']['name']}-{namespace}"}
            ours.append(item)
    scene.plane.kubectl("label", "node", other, "cloud.google.com/gke-nccl-fastsocket=true")
    try:
        scene.apply(*ours, *objects("gke", "workloads.yaml", namespace))
        scene.wait(lambda: len(scene.bound()) == 3, "all three pods run")
        assert scene.bound() == {"training": azure, "tpu-training": host, "nccl": other}
        pools = {pool for _, pool, _ in devices(scene.claim_of("tpu-training"))}
        assert pools == {f"v5p-host-{namespace}"}
        assert "eth1" in [device for _, _, device in devices(scene.claim_of("nccl"))]
    finally:
        for item in ours:
            scene.plane.client.delete(f"/apis/resource.k8s.io/v1/resourceslices/{item['metadata']['name']}")
