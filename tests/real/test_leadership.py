"""Who writes, when the leader is busy with itself for longer than its Lease lasts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import Kubectl, Nodes
from tests.real.conftest import StartOperator
from tests.real.stalling_operator import STALL, STALL_FILE
from tests.real.workloads import deployment, devices, listed, template

pytestmark = pytest.mark.real

LEASE = "/apis/coordination.k8s.io/v1/namespaces/dra-operator/leases/dra-operator"


def test_a_pass_that_outlasts_the_lease_keeps_it(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    start_operator: StartOperator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    nodes("p4d:2")
    wish = tmp_path / "stall"
    monkeypatch.setenv(STALL_FILE, str(wish))
    first = start_operator(module="tests.real.stalling_operator")
    eventually(lambda: first.leads, what="the first replica leads")
    second = start_operator()
    wish.touch()
    objects = [template("gpu", gpu_class), deployment("load", "gpu", 16)]
    kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
    held_before = lease(control_plane)
    eventually(lambda: not wish.exists(), STALL + 60, what="the pass is over")
    held_after = lease(control_plane)
    assert held_after["renewTime"] > held_before["renewTime"]
    for field in ("holderIdentity", "leaseTransitions", "acquireTime"):
        assert held_after[field] == held_before[field], "nobody else held it meanwhile"

    def all_bound() -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in listed(control_plane, namespace, "pods")) == 16

    eventually(all_bound, what="all 16 pods are bound")
    used = [device for claim in listed(control_plane, namespace, "resourceclaims") for device in devices(claim)]
    assert len(used) == len(set(used)) == 16
    assert first.metric("leadership_changes_total", change="lost") == 0
    assert second.metric("leadership_changes_total") == 0
    assert second.metric("decisions_total") == 0


def lease(plane: ControlPlane) -> dict[str, Any]:
    spec: dict[str, Any] = plane.client.get(LEASE)["spec"]
    return spec
