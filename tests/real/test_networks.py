"""NetworkDeviceClasses on the real control plane: the operator makes the class under its own rights, a pod gets the NIC, deletion cleans up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from devcluster import ApiError, ControlPlane, eventually
from devcluster.pytest_plugin import Nodes
from tests.real.operator_process import OperatorProcess
from tests.real.scene import Object, Scene, claim, pod
from tests.real.workloads import OURS, RESOURCE

pytestmark = pytest.mark.real


@pytest.fixture
def names(control_plane: ControlPlane, namespace: str) -> Iterator[tuple[str, str]]:
    """Two names of classes, gone after the test."""
    found = f"rdma-{namespace}", f"taken-{namespace}"
    yield found
    for name in found:
        for path in (f"{OURS}/networkdeviceclasses/{name}", f"{RESOURCE}/deviceclasses/{name}"):
            with contextlib.suppress(ApiError):
                control_plane.client.delete(path)


def network(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def test_a_network_class_is_compiled_used_changed_and_removed(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, names: tuple[str, str], operator: OperatorProcess
) -> None:
    scene, client = Scene(control_plane, namespace), control_plane.client
    rdma, taken = names
    nodes("p4d:1")
    other = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": taken}, "spec": {}}
    client.post(f"{RESOURCE}/deviceclasses", other)
    client.post(f"{OURS}/networkdeviceclasses", network(rdma, driver="dra.net", rdma=True))
    client.post(f"{OURS}/networkdeviceclasses", network(taken, rdma=True))

    def status(name: str) -> Object:
        return dict(client.get(f"{OURS}/networkdeviceclasses/{name}").get("status") or {})

    def expressions() -> str:
        found = client.get(f"{RESOURCE}/deviceclasses/{rdma}")
        return " && ".join(item["cel"]["expression"] for item in found["spec"]["selectors"])

    eventually(lambda: status(rdma).get("phase") == "Ready", what="the class is made")
    eventually(lambda: status(rdma).get("matchingDevices", 0) >= 4, what="the NICs are counted")
    eventually(lambda: status(taken).get("phase") == "Conflict", what="a class of others is a conflict")
    scene.apply(claim("nic", rdma), pod("worker", "nic"))
    scene.wait(lambda: scene.node("worker"), "the pod with the NIC is bound")
    [result] = scene.claim("nic")["status"]["allocation"]["devices"]["results"]
    assert result["driver"] == "dra.net"

    client.patch(f"{OURS}/networkdeviceclasses/{rdma}", {"spec": {"rdma": False}})
    eventually(lambda: "!device" in expressions(), what="the change reaches the class")
    eventually(lambda: scene.report("nic")["phase"] == "Drifted", what="the allocated claim is told")
    assert scene.node("worker")

    client.delete(f"{OURS}/networkdeviceclasses/{rdma}")

    def gone() -> bool:
        try:
            client.get(f"{RESOURCE}/deviceclasses/{rdma}")
        except ApiError as error:
            return error.status == 404
        return False

    eventually(gone, what="the class goes with its owner")
    assert client.get(f"{RESOURCE}/deviceclasses/{taken}")["spec"] == {}


def test_what_the_api_server_refuses_is_told(
    control_plane: ControlPlane, nodes: Nodes, names: tuple[str, str], operator: OperatorProcess
) -> None:
    """Parameters of more than 10 KiB."""
    client, name = control_plane.client, names[0]
    path = f"{OURS}/networkdeviceclasses"

    def told() -> tuple[str, str, str]:
        status = client.get(f"{path}/{name}").get("status") or {}
        reason = (status.get("conditions") or [{}])[0].get("reason", "")
        return status.get("phase", ""), reason, status.get("message", "")

    client.post(path, network(name, rdma=True, config={"note": "x" * 10240}))
    eventually(lambda: told()[:2] == ("Invalid", "Refused"), what="the refusal is in the status")
    assert "refuses the DeviceClass" in told()[2]
    assert "opaque.parameters" in told()[2]
    client.patch(f"{path}/{name}", {"spec": {"config": {"note": "x"}}})
    eventually(lambda: told()[0] == "Ready", what="the mended one is compiled")
    assert client.get(f"{RESOURCE}/deviceclasses/{name}")["spec"]["config"]
