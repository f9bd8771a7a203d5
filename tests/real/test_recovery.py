"""The operator, and what it depends on, go away at the worst moment; nothing is lost and nothing is doubled."""

from __future__ import annotations

import json

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import Kubectl, Nodes
from tests.real.conftest import StartOperator
from tests.real.operator_process import OperatorProcess
from tests.real.workloads import deployment, devices, listed, template

pytestmark = pytest.mark.real


def apply(kubectl: Kubectl, device_class: str, replicas: int) -> None:
    objects = [template("gpu", device_class), deployment("load", "gpu", replicas)]
    kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))


def bound(plane: ControlPlane, namespace: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in listed(plane, namespace, "pods"))


def taken(plane: ControlPlane, namespace: str) -> list[tuple[str, str, str]]:
    return [device for claim in listed(plane, namespace, "resourceclaims") for device in devices(claim)]


@pytest.mark.timeout(600)
def test_the_api_server_is_killed_and_restarted_under_load(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
) -> None:
    nodes("p4d:20")
    apply(kubectl, gpu_class, 120)
    eventually(lambda: len(taken(control_plane, namespace)) >= 20, what="the load is under way")
    control_plane.restart_apiserver()

    def all_bound() -> bool:
        # Ending is allowed: a Deployment would start it again.
        if not operator.running:
            operator.start(ready=False)
        return bound(control_plane, namespace) == 120

    # A watch that gets stuck while the server starts is given up after 90 s of silence.
    eventually(all_bound, 270, what="all 120 pods are bound")
    used = taken(control_plane, namespace)
    assert len(used) == len(set(used)) == 120


def test_the_operator_is_killed_again_and_again_under_load(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
) -> None:
    nodes("p4d:10")
    apply(kubectl, gpu_class, 60)
    for share in (5, 20, 40):
        eventually(lambda share=share: len(taken(control_plane, namespace)) >= share)  # type: ignore[misc]
        operator.kill()
        # Its Lease would keep the next one waiting for 15 s; what happens then is another test's concern.
        control_plane.kubectl("delete", "lease", "dra-operator", "--namespace", "dra-operator", "--ignore-not-found")
        operator.start()
    eventually(lambda: bound(control_plane, namespace) == 60, what="all 60 pods are bound")
    used = taken(control_plane, namespace)
    assert len(used) == len(set(used)) == 60


def test_observing_writes_reports_and_nothing_else(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    start_operator: StartOperator,
) -> None:
    nodes("p4d:1")
    observer = start_operator("--mode", "observe")
    apply(kubectl, gpu_class, 2)

    def told() -> bool:
        reports = listed(control_plane, namespace, "claimreports")
        return len(reports) == 2 and all(item["status"]["phase"] == "Queued" for item in reports)

    eventually(told, what="both claims are reported as waiting")
    assert taken(control_plane, namespace) == []
    assert all(pod["spec"].get("schedulingGates") for pod in listed(control_plane, namespace, "pods"))
    for kind in ("WriteClaimStatus", "PatchClaim", "PatchPod", "EvictPod", "RecordEvent"):
        assert observer.metric("decisions_total", kind=kind) == 0
