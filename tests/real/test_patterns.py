"""Tiers by a measured attribute on a real control plane: measured again, a premium claim moves; and a cluster's snapshot in `portable`."""

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
from tests.real.scene import Scene
from tests.real.workloads import RESOURCE

pytestmark = pytest.mark.real

TIERS = ROOT / "examples" / "patterns" / "latency-tiers"
Object = dict[str, Any]


@pytest.fixture
def cleared(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """What is cluster-scoped and labelled as this test's is gone after it."""
    yield
    for kind in ("resourceslices", "deviceclasses", "allocationpolicies"):
        control_plane.kubectl("delete", kind, "--selector", f"test={namespace}", "--wait=false")


def read(file: Path, namespace: str, nodes: dict[str, str]) -> list[Object]:
    """The objects of an example, in the test's namespace, on its nodes."""
    found = [item for item in yaml.safe_load_all(file.read_text()) if item["kind"] != "Node"]
    for item in found:
        meta = item["metadata"]
        if "namespace" in meta:
            meta["namespace"] = namespace
            continue
        meta["labels"] = {"test": namespace}
        if item["kind"] == "ResourceSlice":
            node = nodes[item["spec"]["nodeName"]]
            item["spec"] |= {"nodeName": node, "pool": {**item["spec"]["pool"], "name": node}}
            meta["name"] = f"{node}-measured"
        elif item["kind"] == "AllocationPolicy":
            meta["name"] = f"premium-{namespace}"
            item["spec"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return found


def test_premium_moves_when_measured_again(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, operator: OperatorProcess, cleared: None
) -> None:
    scene = Scene(control_plane, namespace)
    places = dict(zip(("quick", "spare", "steady", "old"), nodes("cpu:4"), strict=True))
    spare = places["spare"]
    for file in ("classes.yaml", "policies.yaml"):
        scene.apply(*read(TIERS / file, namespace, places))
    first, *others = read(TIERS / "cluster.yaml", namespace, places)
    scene.apply(first)
    premium = [
        item
        for item in read(TIERS / "workloads.yaml", namespace, places)
        if item["metadata"]["name"] in ("premium", "assistant")
    ]
    scene.apply(*premium)
    scene.wait(lambda: list(scene.bound("assistant").values()) == [places["quick"]] * 2, "both are on the quick node")
    scene.apply(*others)
    scene.apply(*read(TIERS / "later" / "quick-is-slow.yaml", namespace, places))
    scene.wait(lambda: list(scene.bound("assistant").values()) == [spare] * 2, "both have moved to quick devices")


def test_a_snapshot_is_a_cluster_to_port_to(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, gpu_class: str, tmp_path: Path
) -> None:
    nodes("p4d:1")
    app = (ROOT / "examples" / "portable" / "app" / "training.yaml").read_text()
    (tmp_path / "app.yaml").write_text(
        app.replace("high-mem-gpu", gpu_class).replace("namespace: research", f"namespace: {namespace}")
    )
    run("snapshot", "--kubeconfig", str(control_plane.kubeconfig), "-o", str(tmp_path / "cluster.yaml"))
    found = json.loads(
        run("portable", "-f", str(tmp_path / "app.yaml"), "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json")
    )
    (cluster,) = found["clusters"]
    got = {item["name"]: item["devices"] for item in cluster["workloads"]}
    product = "NVIDIA A100-SXM4-40GB (40Gi)"
    assert got == {
        f"Job {namespace}/training": [{"device": product, "count": 4}], f"Pod {namespace}/large": [{"device": product, "count": 4}],
    }  # fmt: skip
    assert control_plane.client.get(f"{RESOURCE}/namespaces/{namespace}/resourceclaims")["items"] == []


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "dra_operator.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
