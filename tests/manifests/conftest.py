"""The control plane of these tests: one of its own, since the policies gate every pod with claims and no operator runs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import ControlPlane, eventually
from tests.manifests.impersonation import EXTENDED, MANAGED, USER, Cluster, claim, claims, pod, pods, report, reports

INSTALL = Path(__file__).parents[2] / "manifests" / "install.yaml"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A control plane on which one `kubectl apply` installed everything, from nothing."""
    # The gate lets pods name a PodGroup; the groups themselves are not needed.
    with ControlPlane.start(scheduler=False, kubelet=False, feature_gates={"GenericWorkload": True}) as plane:
        applied = plane.kubectl("apply", "--server-side", "-f", str(INSTALL))
        assert "deployment.apps/dra-operator serverside-applied" in applied
        cluster = Cluster(plane)
        cluster.must(USER, "POST", "/api/v1/namespaces", {"metadata": {"name": "exempt", "labels": {MANAGED: "false"}}})
        eventually(lambda: plane.client.get("/api/v1/namespaces/default/serviceaccounts/default"))
        eventually(lambda: plane.client.get("/api/v1/namespaces/exempt/serviceaccounts/default"))
        eventually(lambda: policies_act(cluster), what="the policies are in force")
        yield cluster


def policies_act(cluster: Cluster) -> bool:
    """All of them: the API server compiles new policies a moment after they are stored."""
    probes = [
        cluster.call(USER, "POST", f"{claims('default')}?dryRun=All", claim("probe", annotations={EXTENDED: "true"})),
        cluster.call(USER, "POST", f"{reports('default')}?dryRun=All", report("probe")),
    ]
    created = cluster.must(USER, "POST", f"{claims('default')}?dryRun=All", claim("probe"))
    gated = cluster.must(USER, "POST", f"{pods('default')}?dryRun=All", pod("probe"))
    refused = all(status == 403 for status, _ in probes)
    return refused and MANAGED in created["metadata"].get("labels", {}) and bool(gated["spec"].get("schedulingGates"))
