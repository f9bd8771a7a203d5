"""The operator on a real control plane: installed from `manifests/`, run as a process under its own service account.

`operator` is one running replica; `start_operator` makes more. Their logs are shown where a test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from devcluster import ControlPlane, eventually
from tests.real.operator_process import ROOT, OperatorProcess, own_kubeconfig

INSTALL = ROOT / "manifests" / "install.yaml"
GATE = "dra-operator.dev/allocation"

StartOperator = Callable[..., OperatorProcess]


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane of these tests' own: once installed, the policies gate every pod that uses claims."""
    with ControlPlane.start() as plane:
        plane.kubectl("apply", "--server-side", "-f", str(INSTALL))
        # Its pods would only pretend to run here; the operator runs as a process instead.
        plane.kubectl("scale", "deployment/dra-operator", "--namespace", "dra-operator", "--replicas", "0")
        eventually(lambda: plane.client.get("/api/v1/namespaces/default/serviceaccounts/default"))
        eventually(lambda: _policies_act(plane), what="the admission policies are in force")
        yield plane


def _policies_act(plane: ControlPlane) -> bool:
    """The API server compiles new policies a moment after they are stored."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        },
    }  # fmt: skip
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "probe"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
    }  # fmt: skip
    made = plane.client.post("/api/v1/namespaces/default/pods?dryRun=All", pod)
    labelled = plane.client.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All", claim)
    gates = [gate["name"] for gate in made["spec"].get("schedulingGates") or ()]
    return GATE in gates and "labels" in labelled["metadata"]


@pytest.fixture
def start_operator(control_plane: ControlPlane, tmp_path: Path) -> Iterator[StartOperator]:
    """Start replicas: `start_operator(*arguments, ready=True, module="dra_operator.cli")`. All of them end with the test."""
    kubeconfig = own_kubeconfig(control_plane, tmp_path)
    replicas: list[OperatorProcess] = []

    def start(*arguments: str, ready: bool = True, module: str = "dra_operator.cli") -> OperatorProcess:
        replica = OperatorProcess(kubeconfig, tmp_path / f"operator-{len(replicas)}.log", arguments, module)
        replicas.append(replica)
        replica.start(ready=ready)
        return replica

    start.replicas = replicas  # type: ignore[attr-defined]
    yield start
    for replica in replicas:
        replica.kill()
    # A killed leader leaves its Lease behind, and the next test would wait for it to expire.
    control_plane.kubectl("delete", "lease", "dra-operator", "--namespace", "dra-operator", "--ignore-not-found")


@pytest.fixture
def operator(start_operator: StartOperator) -> OperatorProcess:
    """One replica that leads."""
    replica = start_operator()
    eventually(lambda: replica.leads, what="the operator leads")
    return replica


@pytest.fixture
def gpu_class(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A DeviceClass for the GPUs of this test, gone after it."""
    name = f"gpu-{namespace}"
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }  # fmt: skip
    control_plane.client.post("/apis/resource.k8s.io/v1/deviceclasses", body)
    yield name
    control_plane.client.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    start = getattr(item, "funcargs", {}).get("start_operator")
    if report.failed and start is not None:
        for replica in start.replicas:
            report.sections.append((f"log of {replica.log.name}", replica.tail()))
    return report
