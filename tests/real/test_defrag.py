"""`kubectl-dra defrag` on a real cluster: one move, within the disruption budget, makes room for a pod that waits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from devcluster import ControlPlane
from devcluster.pytest_plugin import Nodes
from tests.real.operator_process import ROOT, OperatorProcess
from tests.real.scene import Scene, pod, workload
from tests.real.workloads import OURS, devices, template

pytestmark = pytest.mark.real


@pytest.fixture
def spreading(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A policy that scatters this namespace's pods, gone after the test."""
    name = f"spread-{namespace}"
    body = {
        "apiVersion": "dra-operator.dev/v1alpha1", "kind": "AllocationPolicy", "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "placement": {"strategy": "Spread"},
        },
    }  # fmt: skip
    control_plane.client.post(f"{OURS}/allocationpolicies", body)
    yield name
    control_plane.client.delete(f"{OURS}/allocationpolicies/{name}")


def test_one_move_makes_room(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, gpu_class: str, operator: OperatorProcess, spreading: str
) -> None:
    ours = nodes("p4d:2")
    scene = Scene(control_plane, namespace)
    # Other tests' nodes must not come in handy.
    here = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ours}]}
    ]}}  # fmt: skip
    affinity = {"nodeAffinity": here}
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }  # fmt: skip
    four, eight = template("four", gpu_class, 4), template("eight", gpu_class, 8)
    scene.apply(four, eight, budget, workload("Deployment", "web", "four", 2, affinity=affinity))
    scene.wait(lambda: sorted(scene.bound("web").values()) == sorted(ours), "one pod of web is on each node")
    # Until the budget knows that both are healthy, nobody may be evicted.
    scene.wait(
        lambda: (
            json.loads(control_plane.kubectl("get", "pdb", "web", "-n", namespace, "-o", "json"))["status"].get(
                "disruptionsAllowed"
            )
            == 1
        ),
        "the budget allows one disruption",
    )
    scene.apply(pod("big", template="eight", affinity=affinity))
    scene.wait(lambda: scene.pod("big")["status"].get("resourceClaimStatuses"), "big's claim is there")
    scene.wait(lambda: "NoDevices" in scene.summary(scene.claim_of("big")["metadata"]["name"]), "big waits for devices")

    before = scene.bound("web")
    looked = defrag(control_plane, namespace)
    (plan,) = json.loads(looked.stdout)["plans"]
    assert plan["proven"], looked.stdout
    (move,) = plan["moves"]
    assert move["pod"].split("/")[1] in before
    assert scene.bound("web") == before, "looking moves nothing"

    done = defrag(control_plane, namespace, "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    scene.wait(lambda: scene.node("big") in ours, "big has a node")
    assert len(devices(scene.claim_of("big"))) == 8
    scene.wait(lambda: len(scene.bound("web")) == 2, "both pods of web have a place")
    assert set(scene.bound("web").values()) == set(ours) - {scene.node("big")}
    assert len(set(scene.taken())) == len(scene.taken()) == 16


def defrag(plane: ControlPlane, namespace: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dra_operator.cli", "defrag", "pod/big", "-n", namespace, "-o", "json"]
    command += ["--kubeconfig", str(plane.kubeconfig), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
