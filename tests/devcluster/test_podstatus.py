"""What the simulated kubelet reads of pods and writes into their status."""

from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster import podstatus

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "8a10b6f7-077c-451f-88f0-eba64feb5e9f"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}], **(spec or {})},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("85s", 85), ("1m30s", 90), ("500ms", 0.5), ("2h", 7200), ("0s", 0), ("1.5s", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert podstatus.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "85", "s", "-5s", "5 s", "5d", "5s later"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write it as 85s"):
        podstatus.seconds(text)


NAMED = {"name": "a", "resourceClaimName": "named"}
TEMPLATED = {"name": "b", "resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    ("entries", "status", "claims", "complete"),
    [
        ([], {}, [], True),
        ([NAMED], {}, ["named"], True),
        ([NAMED, TEMPLATED], {}, ["named"], False),
        (
            [TEMPLATED],
            {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x7"}]},
            ["p-b-x7"],
            True,
        ),
        ([TEMPLATED], {"resourceClaimStatuses": [{"name": "b"}]}, [], True),
        ([], {"extendedResourceClaimStatus": {"resourceClaimName": "p-ext"}}, ["p-ext"], True),
    ],
)
def test_claims_a_pod_needs(
    entries: list[dict[str, str]], status: dict[str, Any], claims: list[str], complete: bool
) -> None:
    it = pod({"resourceClaims": entries}, status)
    assert podstatus.claims(it) == claims
    assert podstatus.has_all_claims(it) is complete


def test_running() -> None:
    initial = [{"name": "once", "image": "x"}, {"name": "sidecar", "image": "x", "restartPolicy": "Always"}]
    patch = podstatus.running(pod({"initContainers": initial}), NOW)
    status = patch["status"]
    assert patch["metadata"] == {"uid": "8a10b6f7-077c-451f-88f0-eba64feb5e9f"}
    assert status["phase"] == "Running"
    assert status["startTime"] == "2026-01-02T03:04:05Z"
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} >= {"Ready", "ContainersReady"}
    assert [(c["name"], c["ready"], *c["state"]) for c in status["containerStatuses"]] == [("c", True, "running")]
    assert [(c["name"], *c["state"]) for c in status["initContainerStatuses"]] == [
        ("once", "terminated"),
        ("sidecar", "running"),
    ]


@pytest.mark.parametrize(("succeeded", "phase", "code"), [(True, "Succeeded", 0), (False, "Failed", 143)])
def test_ended(succeeded: bool, phase: str, code: int) -> None:
    patch = podstatus.ended(pod(status={"startTime": "2026-01-02T03:00:00Z"}), NOW, succeeded=succeeded)
    (container,) = patch["status"]["containerStatuses"]
    assert patch["status"]["phase"] == phase
    assert container["state"]["terminated"] == {
        "exitCode": code,
        "reason": "Completed" if succeeded else "Error",
        "startedAt": "2026-01-02T03:00:00Z",
        "finishedAt": "2026-01-02T03:04:05Z",
    }
    assert container["state"]["running"] is None
    assert all(condition["status"] == "False" for condition in patch["status"]["conditions"])


@pytest.mark.parametrize(
    ("status", "written"),
    [
        ({}, {"capacity", "allocatable", "conditions"}),
        ({"capacity": {"cpu": "8"}}, {"allocatable", "conditions"}),
        ({"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}}, {"conditions"}),
    ],
)
def test_a_node_gets_what_it_lacks(status: dict[str, Any], written: set[str]) -> None:
    patch = podstatus.ready_node({"metadata": {"name": "n"}, "status": status})
    assert patch["status"].keys() == written
    assert patch["status"]["conditions"][0]["type"] == "Ready"
