"""Migration from a device plugin on a real cluster: kept apart, changed over node by node, unchanged pods served by DRA, taken back."""

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
from devcluster.pytest_plugin import Nodes
from tests.real.operator_process import ROOT, OperatorProcess
from tests.real.scene import Scene, claim, pod
from tests.real.workloads import RESOURCE

pytestmark = pytest.mark.real

PLUGIN, CLASS, MODE = "nvidia.com/gpu", "gpu.nvidia.com", "dra-operator.dev/devices"


@pytest.fixture
def gpu_class_of_the_driver(control_plane: ControlPlane) -> Iterator[str]:
    """The class that the driver's chart brings, and nothing of the migration left after the test."""
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }  # fmt: skip
    control_plane.client.post(f"{RESOURCE}/deviceclasses", body)
    yield CLASS
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        control_plane.kubectl("delete", kind, "dra-operator-migration", "--ignore-not-found")
    for rule in control_plane.client.get(f"{RESOURCE}/devicetaintrules")["items"]:
        if rule["metadata"]["name"].startswith("device-plugin-"):
            control_plane.client.delete(f"{RESOURCE}/devicetaintrules/{rule['metadata']['name']}")
    control_plane.client.delete(f"{RESOURCE}/deviceclasses/{CLASS}")


def test_phase_by_phase(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    gpu_class_of_the_driver: str,
    operator: OperatorProcess,
    tmp_path: Path,
) -> None:
    old, new = nodes("l4:2")
    scene = Scene(control_plane, namespace)
    offer(control_plane, old, 4)
    assert "OfferedTwice" in run(control_plane, "plan", code=0)
    assert run(control_plane, "verify", "--phase", "1", code=1)

    # Phase 1: the old node is the plugin's, the new one DRA's.
    apply(control_plane, "1", tmp_path)
    run(control_plane, "verify", "--phase", "1", code=0)
    user = pod("plugin-user")
    user["spec"]["containers"][0]["resources"]["limits"] = {PLUGIN: "4"}
    wanted = [
        claim(name, CLASS, 3, f"device.attributes['{CLASS}'].productName == 'NVIDIA L4'") for name in ("one", "two")
    ]
    scene.apply(*wanted, user, pod("one", "one"))
    scene.wait(lambda: scene.node("plugin-user") == old, "the plugin's pod is on the plugin's node")
    scene.wait(lambda: scene.node("one") == new, "the claim is on the other")
    scene.apply(pod("two", "two"))
    scene.wait(lambda: "taint" in scene.summary("two"), "the second claim is told that the rest is the plugin's")

    # Phase 2: the plugin leaves the old node once nobody uses it there.
    apply(control_plane, "2", tmp_path)
    control_plane.kubectl("delete", "pod", "plugin-user", "--namespace", namespace)
    offer(control_plane, old, 0)
    control_plane.kubectl("label", "node", old, f"{MODE}=dra")
    apply(control_plane, "2", tmp_path)  # now also takes the taint off
    scene.wait(lambda: scene.node("two") == old, "the claim gets the devices of the node that changed over")

    # A namespace that follows: its pod asks for the resource as ever, and is served by DRA.
    control_plane.kubectl("label", "namespace", namespace, f"{MODE}=dra")
    unchanged = pod("unchanged")
    unchanged["spec"]["containers"][0]["resources"]["limits"] = {PLUGIN: "1"}

    def sent() -> bool:
        """The API server compiles a new policy a moment after it is stored."""
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        made: dict[str, Any] = control_plane.client.post(path, {**unchanged, "metadata": {"name": "probe"}})
        return (made["spec"].get("nodeSelector") or {}).get(MODE) == "dra"

    scene.wait(sent, "the policy of phase 2 acts")
    scene.apply(unchanged)
    scene.wait(lambda: scene.node("unchanged") == old, "an unchanged pod runs on the node that changed over")
    made = scene.pod("unchanged")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert len(set(scene.taken())) == len(scene.taken()) == 7
    assert scene.claim(made)["status"]["reservedFor"][0]["name"] == "unchanged"
    found = json.loads(run(control_plane, "verify", "--phase", "3", "-o", "json", code=0))
    assert found["holds"]

    # Phase 3: what kept them apart is gone, what is served goes on, and so does the unchanged pod's successor.
    apply(control_plane, "3", tmp_path)
    assert not migration_objects(control_plane)
    final = control_plane.client.get(f"{RESOURCE}/deviceclasses/{CLASS}")
    assert final["spec"]["extendedResourceName"] == PLUGIN
    assert not any(name.startswith("dra-operator.dev/") for name in final["metadata"].get("annotations", {}))
    assert json.loads(run(control_plane, "verify", "--phase", "3", "-o", "json", code=0))["holds"]
    control_plane.kubectl("delete", "pod", "unchanged", "--namespace", namespace)
    scene.wait(lambda: not sent(), "the policy acts no more")
    scene.apply({**unchanged, "metadata": {"name": "successor"}})
    scene.wait(lambda: scene.node("successor") in (old, new), "an unchanged pod runs without the policy")
    assert scene.pod("successor")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]

    # Taken back, phase by phase: the policy is there again, then the class is as it was.
    apply(control_plane, "3", tmp_path, "--undo")
    assert migration_objects(control_plane) == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
    apply(control_plane, "2", tmp_path, "--undo")
    apply(control_plane, "1", tmp_path, "--undo")
    assert not migration_objects(control_plane)
    left = control_plane.client.get(f"{RESOURCE}/deviceclasses/{CLASS}")
    assert "extendedResourceName" not in left["spec"]
    assert not any(name.startswith("dra-operator.dev/") for name in left["metadata"].get("annotations", {}))


def migration_objects(plane: ControlPlane) -> list[str]:
    """The kinds of what a migration leaves in a cluster, apart from classes."""
    found = json.loads(
        plane.kubectl(
            "get", "mutatingadmissionpolicy,mutatingadmissionpolicybinding,devicetaintrule", "--output", "json"
        )
    )["items"]
    named = ("dra-operator-migration", "device-plugin-")
    return sorted(item["kind"] for item in found if item["metadata"]["name"].startswith(named))


def offer(plane: ControlPlane, node: str, count: int) -> None:
    """As kubelet does when a device plugin registers, or leaves."""
    amounts = {PLUGIN: str(count)}
    patch = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    plane.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", patch)


def run(plane: ControlPlane, *arguments: str, code: int) -> str:
    command = [sys.executable, "-m", "dra_operator.cli", "migrate", *arguments, "--kubeconfig", str(plane.kubeconfig)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def apply(plane: ControlPlane, phase: str, folder: Path, *more: str) -> None:
    """Apply what is generated, and carry out the deletions among its comments."""
    text = run(plane, "generate", "--phase", phase, *more, code=0)
    file = folder / "phase.yaml"
    file.write_text(text)
    if any(yaml.safe_load_all(text)):
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    for line in text.splitlines():
        if line.startswith("# kubectl delete"):
            plane.kubectl(*line.removeprefix("# kubectl ").split())
