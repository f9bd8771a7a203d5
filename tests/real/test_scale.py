"""500 nodes with 8 devices each, 1,000 pods at once: all are bound, no device is used twice. How fast that is, `bench/endtoend` says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.endtoend.burst import NAME, RESOURCE, Burst, make_class, make_namespace, make_nodes
from devcluster import ControlPlane
from devcluster.pytest_plugin import empty_namespace
from tests.real.operator_process import OperatorProcess

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NODES, PODS = 500, 1000


@pytest.fixture
def burst_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """With class and nodes; a thousand pods need longer to go away than other tests' pods do."""
    make_class(control_plane)
    names = make_nodes(control_plane, NODES)
    namespace = make_namespace(control_plane)
    yield namespace
    empty_namespace(control_plane.client, namespace, 240)
    control_plane.remove_nodes(names)
    control_plane.client.delete(f"{RESOURCE}/deviceclasses/{NAME}")


def test_a_thousand_pods_on_five_hundred_nodes(
    control_plane: ControlPlane, burst_namespace: str, operator: OperatorProcess
) -> None:
    burst = Burst(control_plane, burst_namespace, PODS, "replicaset")
    burst.run()
    burst.check()
    assert operator.metric("engine_crashes_total") == 0
    assert operator.metric("decisions_total", kind="EvictPod") == 0
    # Two requests a pod, of those that the API server took; a claim that had to move now and then costs more.
    written = sum(
        operator.metric("api_requests_total", verb=verb, resource=resource, code="200")
        for verb, resource in (("PUT", "resourceclaims/status"), ("PATCH", "pods"), ("PATCH", "resourceclaims"))
    )
    assert 2 * PODS <= written <= 2.1 * PODS
