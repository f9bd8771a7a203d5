"""What is counted, under which names: and that the number of series does not grow with the cluster."""

from __future__ import annotations

import re

import pytest

from dra_operator.cluster.rest import LEASES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Request
from dra_operator.engine.phases import PhaseChange
from dra_operator.operator.account import Account
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


#: Values of these are words of the code or of the API. Names of objects are in none: each would be a series for ever.
LABELS = {
    "action",
    "change",
    "code",
    "kind",
    "lane",
    "le",
    "phase",
    "reason",
    "resource",
    "status",
    "type",
    "verb",
    "why",
}


def test_no_label_grows_with_what_is_in_the_cluster() -> None:
    metrics = Metrics()
    named = {label for each in vars(metrics).values() for label in getattr(each, "_labelnames", ())}
    assert named <= LABELS


def test_words_of_webhooks_make_no_series() -> None:
    metrics = Metrics()
    for number in range(100):
        metrics.outcome("PatchPod", 403, f"pod-{number} is not welcome")
    metrics.outcome("PatchPod", 403, "Forbidden")
    metrics.outcome("PatchPod", 0, "NotLeader")
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith("dra_operator_outcomes_total{")]
    assert [re.findall(r'reason="(\w*)"', line) for line in lines] == [["Other"], ["Forbidden"], ["NotLeader"]]


def test_who_does_not_lead_tells_of_no_claims() -> None:
    metrics = Metrics()
    account = Account(metrics, every=0.0, clock=lambda: 0.0, steady=lambda: 0.0)
    account.tell(Leading())
    account.close()
    read = metrics.registry.get_sample_value
    assert read("dra_operator_claims", {"phase": "Queued"}) == 0
    assert read("dra_operator_waiting_units") == 0


class Leading:
    """An engine with two claims that wait."""

    waiting = 2

    def journal(self) -> list[PhaseChange]:
        return []

    def phases(self) -> dict[str, int]:
        return {"Queued": 2}
