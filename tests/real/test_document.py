"""The document this project starts from, converted as it stands, applied, and allocated as it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import ControlPlane
from devcluster.pytest_plugin import Kubectl, Nodes
from tests.convert.document import MEANT, SEED, every_class, gpu_and_nic, seed_manifests
from tests.real.operator_process import ROOT, OperatorProcess
from tests.real.scene import Scene
from tests.real.workloads import devices, listed

pytestmark = [pytest.mark.real, pytest.mark.skipif(not SEED.is_dir(), reason="no shared data")]

DRIVER = "legacy.dra-operator.dev"
#: The class that the DRA driver for the document's `nvidia.com/gpu` brings with it.
PLUGIN_CLASS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}  # fmt: skip


@pytest.fixture
def scene(control_plane: ControlPlane, namespace: str, operator: OperatorProcess) -> Iterator[Scene]:
    """With cluster-scoped things gone after the test that the namespace does not take with it."""
    yield Scene(control_plane, namespace)
    for kind in ("deviceclasses", "resourceslices", "networkdeviceclasses"):
        control_plane.kubectl("delete", kind, "--selector", f"test={namespace}", "--wait=false")


def converted(text: str, folder: Path, namespace: str) -> list[dict[str, Any]]:
    """What `kubectl-dra convert` prints, cluster-scoped objects labelled as this test's."""
    (folder / "old.yaml").write_text(text)
    command = [sys.executable, "-m", "dra_operator.cli", "convert", "-f", str(folder / "old.yaml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    for item in objects:
        if item["kind"] in ("DeviceClass", "ResourceSlice", "NetworkDeviceClass"):
            item["metadata"]["labels"] = {"test": namespace}
    return objects


def test_the_document_runs(scene: Scene, nodes: Nodes, namespace: str, kubectl: Kubectl, tmp_path: Path) -> None:
    """Two GPUs, six pods that want one: the named claim is served, four wait and say why, and run once there are more GPUs."""
    node, other, _ = nodes("cpu:2,p4d:1")
    text = seed_manifests().replace("nodeName: node-a", f"nodeName: {node}")
    *rest, pod = sorted(
        converted(text, tmp_path, namespace), key=lambda item: item["metadata"]["name"] == "training-job"
    )
    ours = {**PLUGIN_CLASS, "metadata": {"name": "gpu.nvidia.com", "labels": {"test": namespace}}}
    later = ("Deployment", "Job")
    # The pod that the document allocates for comes first: a queue serves in order.
    scene.apply(ours, *(item for item in rest if item["kind"] not in later), pod)
    scene.wait(lambda: scene.node("training-job") == node, "the pod with the named claim is where the GPUs are")
    ((driver, pool, device),) = devices(scene.claim("training-gpu-0"))
    assert (driver, pool, device in ("gpu-0", "gpu-1")) == (DRIVER, node, True)
    scene.apply(*(item for item in rest if item["kind"] in later))

    def counted() -> tuple[int, int]:
        """Claims with and without a device, of the document's own driver."""
        claims = listed(scene.plane, namespace, "resourceclaims")
        legacy = [item for item in claims if "legacy-serving" not in item["metadata"]["name"]]
        has = sum(bool(devices(item)) for item in legacy)
        return has, len(legacy) - has

    scene.wait(lambda: counted() == (2, 4), "two have a GPU, four wait")
    scene.wait(lambda: len(scene.bound("legacy-serving")) == 1, "what asked the plugin for four GPUs runs as well")

    def waiting() -> list[str]:
        claims = listed(scene.plane, namespace, "resourceclaims")
        reports = {item["metadata"]["name"]: item["status"] for item in listed(scene.plane, namespace, "claimreports")}
        names = [item["metadata"]["name"] for item in claims if not devices(item)]
        return [reports[name]["reason"] for name in names if name in reports]

    scene.wait(lambda: waiting() == ["NoDevices"] * 4, "each of the four says that there is no device")

    # The document's remedy: more devices that match.
    slices = [item for item in rest if item["kind"] == "ResourceSlice"]
    more = json.loads(json.dumps(slices[0]).replace(node, other))
    more["metadata"]["name"] = f"more-{namespace}"
    more["spec"]["devices"] += [{**device, "name": f"{device['name']}-more"} for device in more["spec"]["devices"]]
    scene.apply(more)
    scene.wait(lambda: counted() == (6, 0), "all six have a GPU")
    assert len(set(scene.taken())) == len(scene.taken())


def test_each_class_gets_the_devices_it_means(scene: Scene, nodes: Nodes, namespace: str, tmp_path: Path) -> None:
    (node,) = nodes("cpu:1")
    classes = MEANT.keys() - {"standard-gpu"}
    text = every_class(classes).replace("nodeName: node-b", f"nodeName: {node}")
    scene.apply(*converted(text, tmp_path, namespace))

    def got() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in classes}
        for item in listed(scene.plane, namespace, "resourceclaims"):
            found[item["metadata"]["name"].rpartition("-")[0]] |= {device for _, _, device in devices(item)}
        return found

    scene.wait(lambda: got() == {name: set(MEANT[name]) for name in classes}, "every class has its devices")


def test_a_pod_gets_a_gpu_and_a_nic(scene: Scene, nodes: Nodes, namespace: str, tmp_path: Path) -> None:
    """The class of the NIC is a NetworkDeviceClass, which the operator compiles into a DeviceClass."""
    (node,) = nodes("cpu:1")
    text = gpu_and_nic().replace("nodeName: node-b", f"nodeName: {node}")
    scene.apply(*converted(text, tmp_path, namespace))
    scene.wait(lambda: scene.node("training-job") == node, "the pod runs")
    assert [device for _, _, device in devices(scene.claim("training-nic"))] == ["nic"]
    ((_, _, gpu),) = devices(scene.claim("training-gpu"))
    assert gpu in MEANT["high-mem-gpu"]
