from __future__ import annotations

import pytest

from dra_operator.cluster.rest import LEASES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Request
from dra_operator.operator.metrics import Metrics, verb_and_resource


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("GET", PODS.path()), ("LIST", "pods")),
        (Request("GET", PODS.path("ns")), ("LIST", "pods")),
        (Request("GET", PODS.path(), query={"watch": "true"}), ("WATCH", "pods")),
        (Request("GET", NODES.path(name="n")), ("GET", "nodes")),
        (Request("GET", NAMESPACES.path()), ("LIST", "namespaces")),
        (Request("GET", NAMESPACES.path(name="ns")), ("GET", "namespaces")),
        (Request("PUT", RESOURCE_CLAIMS.path("ns", "c", "status")), ("PUT", "resourceclaims/status")),
        (Request("PUT", RESOURCE_CLAIMS.path("pods", "pods", "status")), ("PUT", "resourceclaims/status")),
        (Request("POST", PODS.path("ns", "p", "eviction")), ("POST", "pods/eviction")),
        (Request("PUT", LEASES.path("ns", "l")), ("PUT", "leases")),
        (Request("GET", "/version"), ("GET", "other")),
        (Request("GET", "/apis/resource.k8s.io/v1"), ("GET", "other")),
    ],
)
def test_requests_are_named_as_the_api_server_names_them(request_: Request, expected: tuple[str, str]) -> None:
    assert verb_and_resource(request_) == expected


def test_watches_do_not_count_as_slow_requests() -> None:
    metrics = Metrics()
    metrics.request(Request("GET", PODS.path(), query={"watch": "true"}), 200, 290.0)
    metrics.request(Request("GET", PODS.path()), 200, 0.1)
    read = metrics.registry.get_sample_value
    watched = {"verb": "WATCH", "resource": "pods", "code": "200"}
    assert read("dra_operator_api_requests_total", watched) == 1
    assert read("dra_operator_api_request_seconds_count", {"verb": "WATCH", "resource": "pods"}) is None
    assert read("dra_operator_api_request_seconds_count", {"verb": "LIST", "resource": "pods"}) == 1
