"""The operator is taken off a cluster by the commands of docs/install.md, word for word: pods run, wait and start as on any other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import ApiError, ControlPlane, eventually
from devcluster.install import install, operator
from tests.real.scene import Scene, claim, pod
from tests.real.workloads import RESOURCE

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
CLASSES = f"{RESOURCE}/deviceclasses"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """One of its own: at the end nothing is left of the installation."""
    with ControlPlane.start() as plane:
        install(plane)
        plane.add_nodes("p4d", count=1)
        yield plane


def commands(title: str) -> str:
    """The lines of code of a section of docs/install.md."""
    section = (ROOT / "docs" / "install.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return "\n".join(line.removeprefix("    ") for line in section.splitlines() if line.startswith("    "))


def run(plane: ControlPlane, script: str) -> None:
    folder = str(Path(plane.kubectl_program).parent)
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "PATH": f"{folder}:{os.environ['PATH']}"}
    shell = ["bash", "-eu", "-o", "pipefail", "-c", script]
    done = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def absent(plane: ControlPlane, path: str) -> bool:
    try:
        plane.client.get(path)
    except ApiError as error:
        return error.status == 404
    return False


def test_what_runs_stays_and_what_waits_starts(plane: ControlPlane) -> None:
    client, scene = plane.client, Scene(plane, "default")
    eventually(lambda: client.get("/api/v1/namespaces/default/serviceaccounts/default"))
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    client.post(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})
    network = {
        "apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass", "metadata": {"name": "net"},
        "spec": {"driver": "dra.net"},
    }  # fmt: skip
    with operator(plane):
        scene.apply(network, claim("all", "gpu", 8), pod("runs", "all"))
        scene.wait(lambda: scene.pod("runs")["status"]["phase"] == "Running", "the first pod runs")
        scene.apply(
            *(claim("later", "gpu"), pod("waits", "later")),
            *(claim("never", "gpu", selector="false"), pod("stuck", "never")),
            claim("unused", "gpu", selector="false"),
        )
        scene.wait(lambda: client.get(f"{CLASSES}/net"), "the network's class is there")
        scene.wait(lambda: scene.report("later"), "the second pod's claim is told to wait")
        # The operator runs beside the cluster here: it ends where its Deployment would.
        before, after = commands("Leaving").split("kubectl -n dra-operator scale", 1)
        run(plane, before)
    run(plane, f"kubectl -n dra-operator scale{after}")

    assert scene.pod("runs")["status"]["phase"] == "Running"
    assert scene.gates("waits") == scene.gates("stuck") == []
    client.delete("/api/v1/namespaces/default/pods/runs")
    scene.wait(lambda: scene.pod("waits")["status"]["phase"] == "Running", "kube-scheduler gives the devices on")
    scene.apply(claim("new", "gpu"), pod("new", "new"))
    assert scene.gates("new") == []

    for name in ("stuck", "waits"):
        client.delete(f"/api/v1/namespaces/default/pods/{name}")
    for name in ("all", "later", "never", "unused"):
        client.delete(f"{RESOURCE}/namespaces/default/resourceclaims/{name}")
        path = f"{RESOURCE}/namespaces/default/resourceclaims/{name}"
        scene.wait(lambda path=path: absent(plane, path), f"claim {name} is gone, finalizer and all")
    assert not client.get(f"{CLASSES}/net")["metadata"].get("ownerReferences")
    scene.wait(lambda: absent(plane, "/api/v1/namespaces/dra-operator"), "the namespace is gone")
    groups = {group["name"] for group in client.get("/apis")["groups"]}
    assert "dra-operator.dev" not in groups
