"""The bridge on a real control plane: slices from a plugin's node, kept in step; claims on them become the plugin's limits at admission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import ControlPlane, eventually
from devcluster.control_plane import KubectlError
from devcluster.pytest_plugin import Nodes
from tests.real.conftest import StartOperator
from tests.real.operator_process import ROOT
from tests.real.scene import Scene, claim, pod
from tests.real.workloads import RESOURCE, devices, template

pytestmark = pytest.mark.real

PLUGIN, LABEL, CLASS = "nvidia.com/gpu", "dra-operator.dev/bridge", "bridged-nvidia-gpu"


@pytest.fixture
def bridge(control_plane: ControlPlane) -> Iterator[None]:
    """Its rights, policies and classes, gone after the test."""
    folder = str(ROOT / "manifests" / "bridge")
    control_plane.kubectl("apply", "--server-side", "-k", folder)
    yield
    control_plane.kubectl("delete", "-k", folder, "--wait=false")


def test_a_plugin_is_asked_for_what_the_claim_got(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, bridge: None, start_operator: StartOperator
) -> None:
    node, other = nodes("cpu:2")
    for name, product, count in ((node, "NVIDIA-L4", 4), (other, "Tesla-T4", 2)):
        labels = (f"{LABEL}=true", f"nvidia.com/gpu.product={product}", "nvidia.com/gpu.memory=24576")
        control_plane.kubectl("label", "node", name, *labels)
        offer(control_plane, name, count)
    operator = start_operator("--bridge")
    eventually(lambda: operator.leads, 20, what="the operator leads")
    eventually(lambda: len(published(control_plane, node)) == 4, 30, what="the node's devices are published")

    scene = Scene(control_plane, namespace)
    claims = template("two", CLASS, 2)
    claims["metadata"]["labels"] = {LABEL: "nvidia.com_gpu"}
    selector = "device.attributes['bridge.dra-operator.dev'].productName == 'NVIDIA-L4'"
    claims["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": selector}}]
    scene.apply(claims)

    def limited() -> bool:
        """The API server compiles policies, and learns of their parameters, a moment after they are stored."""
        made = control_plane.client.post(
            f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod("probe", template="two")
        )
        return bool(limits(made).get(PLUGIN) == "2")

    scene.wait(limited, "a pod with such a claim is given the plugin's limit")

    # A pod without a claim has two of the four from the plugin, as ever.
    plain = pod("plain", nodeSelector={"kubernetes.io/hostname": node})
    plain["spec"]["containers"][0]["resources"]["limits"] = {PLUGIN: "2"}
    scene.apply(plain)
    scene.wait(lambda: scene.node("plain") == node, "the plain pod runs")
    scene.apply(pod("first", template="two"))
    scene.wait(lambda: scene.node("first") == node, "the claim chooses the node by the product in its labels")
    assert limits(scene.pod("first")) == {PLUGIN: "2"}
    assert [(driver, pool) for driver, pool, _ in devices(scene.claim_of("first"))] == [
        ("bridge.dra-operator.dev", node)
    ] * 2

    # Two devices look free, but the plugin has none left for them: the operator counts the plain pod and tells.
    scene.apply(pod("second", template="two"))
    scene.wait(lambda: scene.pod("second")["status"].get("resourceClaimStatuses"), "its claim is there")
    scene.wait(
        lambda: f"not enough {PLUGIN}" in scene.summary(scene.claim_of("second")["metadata"]["name"]), "it is told"
    )
    control_plane.kubectl("delete", "pod", "plain", "--namespace", namespace)
    scene.wait(lambda: scene.node("second") == node, "it runs once the plain pod is gone")

    # In step: fewer devices, a new generation; nothing is written where nothing changes.
    generation = pool_generation(control_plane, node)
    assert generation == 1
    offer(control_plane, other, 1)
    eventually(lambda: len(published(control_plane, other)) == 1, 30, what="the other node's slice follows")
    assert pool_generation(control_plane, node) == generation
    control_plane.kubectl("label", "node", other, f"{LABEL}-")
    eventually(lambda: not published(control_plane, other), 30, what="a node that opts out is published no more")

    # What cannot become a limit is refused.
    wrong, unlabelled = template("wrong", CLASS, 2), template("unlabelled", CLASS)
    wrong["metadata"]["labels"] = {LABEL: "gpu"}
    for refused, why in (
        (wrong, "names the plugin's resource"),
        (unlabelled, "says by the label"),
        (claim("c", CLASS), "comes from"),
    ):
        with pytest.raises(KubectlError, match=why):
            scene.apply(refused)


def offer(plane: ControlPlane, node: str, count: int) -> None:
    amounts = {PLUGIN: str(count)}
    patch = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    plane.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", patch)


def slices(plane: ControlPlane, node: str) -> list[dict[str, Any]]:
    found = plane.client.get(f"{RESOURCE}/resourceslices")["items"]
    return [
        item
        for item in found
        if item["spec"]["driver"] == "bridge.dra-operator.dev" and item["spec"]["nodeName"] == node
    ]


def published(plane: ControlPlane, node: str) -> list[dict[str, Any]]:
    return [device for item in slices(plane, node) for device in item["spec"].get("devices") or ()]


def pool_generation(plane: ControlPlane, node: str) -> int:
    (item,) = slices(plane, node)
    generation: int = item["spec"]["pool"]["generation"]
    return generation


def limits(item: dict[str, Any]) -> dict[str, str]:
    return dict(item["spec"]["containers"][0]["resources"].get("limits") or {})
