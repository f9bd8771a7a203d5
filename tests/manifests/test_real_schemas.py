"""The schemas on a real API server: it refuses what the models refuse, and fills in the defaults that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dra_operator.api.meta import ObjectMeta
from dra_operator.api.policy import AllocationPolicy, AllocationPolicySpec
from dra_operator.api.reports import claim_report_body, class_report_body, condition
from dra_operator.cluster.rest import BY_KIND
from tests.manifests.impersonation import OPERATOR, USER, Cluster

pytestmark = pytest.mark.real

CASES = Path(__file__).parent / "cases"
KINDS = {"policies": "AllocationPolicy", "groups": "ClaimGroup", "networks": "NetworkDeviceClass"}

ALL = [
    pytest.param(KINDS[file], case, id=f"{file}-{case['name'].replace(' ', '-')}")
    for file in KINDS
    for case in YAML(typ="safe").load((CASES / f"{file}.yaml").read_text())
]


@pytest.mark.parametrize(("kind", "case"), ALL)
def test_the_api_server_judges_as_the_models_do(cluster: Cluster, kind: str, case: dict[str, Any]) -> None:
    resource = BY_KIND[kind]
    body = {
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {"name": "sample"},
        "spec": case["spec"],
    }
    query = "?dryRun=All&fieldValidation=Strict"
    status, answer = cluster.call(USER, "POST", resource.path("default") + query, body)
    assert status == (422 if "error" in case else 201), answer


def test_unknown_fields_are_refused(cluster: Cluster) -> None:
    """By kubectl's strict validation as by the model."""
    resource = BY_KIND["AllocationPolicy"]
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "p"}, "spec": {"prio": 1}}
    status, answer = cluster.call(USER, "POST", resource.path() + "?fieldValidation=Strict", body)
    assert status == 400
    assert "prio" in answer["message"]


def test_defaults(cluster: Cluster) -> None:
    resource = BY_KIND["AllocationPolicy"]
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "defaults"}}
    stored = cluster.must(USER, "POST", resource.path() + "?dryRun=All", body)
    assert AllocationPolicy.from_dict(stored).spec == AllocationPolicySpec()


FULL_STATUS = {
    "phase": "Preempting",
    "reason": "WaitingForVictims",
    "conditions": [condition("Starved", True, "WaitedTooLong", "waits since 12:00", now=1.7e9)],
    "policy": "premium",
    "queue": {
        "position": 1,
        "waitingSince": "2026-01-01T00:00:00Z",
        "priority": 1000,
        "effectivePriority": 1010,
        "attempts": 3,
        "nextAttempt": "2026-01-01T00:10:00Z",
    },
    "node": "n1",
    "devices": [
        {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"},
        {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-3"},
    ],
    "explanation": {
        "summary": "1 of 2 free",
        "requests": [{"request": "gpu", "seen": 8, "rejected": {"allocated": 7}}],
        "fixes": [{"text": "ask for 1", "verified": True}],
    },
    "preemption": {"victims": [{"namespace": "a", "name": "b", "uid": "c", "priority": 0}], "preemptedBy": "x/y"},
    "hold": {"nodes": ["n1"], "devices": [{"driver": "d", "pool": "n1", "device": "gpu-0"}], "since": "2026-01-01T00:00:00Z"},
    "avoid": [{"for": "ReplicaSet/a/b", "node": "n2", "until": "2026-01-01T00:00:00Z", "why": "volume"}],
    "usedBy": {"name": "p", "uid": "u"},
    "classes": [{"name": "gpu", "hash": "abc"}, {"name": "nic", "hash": "def", "drift": "memory"}],
}  # fmt: skip


def test_a_full_claim_report_is_stored_whole(cluster: Cluster) -> None:
    owner = cluster.claim("managed free")["metadata"]
    body = claim_report_body(ObjectMeta.from_dict(owner), FULL_STATUS)
    stored = cluster.must(OPERATOR, "POST", BY_KIND["ClaimReport"].path("default"), body)
    assert stored["status"] == {**FULL_STATUS, "deviceNames": "gpu-0,gpu-3"}
    table = cluster.plane.kubectl("get", "claimreports", owner["name"]).splitlines()
    assert table[0].split() == ["NAME", "PHASE", "NODE", "DEVICES", "PRIORITY", "POSITION", "AGE", "REASON"]
    row = table[1].split()
    assert row[1:6] == ["Preempting", "n1", "gpu-0,gpu-3", "1010", "1"]
    assert row[7] == "WaitingForVictims"


def test_a_full_class_report_is_stored_whole(cluster: Cluster) -> None:
    numbers = ("total", "allocated", "free", "held", "reserved", "unusable", "tainted", "incomplete")
    status: dict[str, Any] = dict.fromkeys((*numbers, "waitingClaims", "largestFreeGroup", "fragmentation"), 3)
    status |= {"oldestWait": "2026-01-01T00:00:00Z", "message": "selector 0 does not compile"}
    body = class_report_body("gpu", status)
    stored = cluster.must(OPERATOR, "POST", BY_KIND["DeviceClassReport"].path(), body)
    assert stored["status"] == status
    assert cluster.plane.kubectl("get", "dcrep", "gpu").split()[:4] == ["NAME", "TOTAL", "ALLOCATED", "FREE"]
