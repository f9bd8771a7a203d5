"""Reports: the body written, and what is read back of it."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import ObjectMeta
from dra_operator.api.reports import (
    Avoid,
    ClaimReport,
    DeviceClassReport,
    HeldDevice,
    Hold,
    Phase,
    SeenClass,
    User,
    claim_report_body,
    class_report_body,
    condition,
)

CLAIM = ObjectMeta.from_dict({"namespace": "ns", "name": "claim", "uid": "u1"})
NEW_YEAR = 1_767_225_600.0


def test_a_claim_report_is_owned_by_its_claim() -> None:
    body = claim_report_body(CLAIM, {"phase": "Queued"})
    assert body == {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimReport",
        "metadata": {
            "namespace": "ns",
            "name": "claim",
            "ownerReferences": [
                {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "claim", "uid": "u1"}
            ],
        },
        "status": {"phase": "Queued"},
    }
    assert claim_report_body(CLAIM, {}, "7")["metadata"]["resourceVersion"] == "7"


def test_nothing_is_written_as_null() -> None:
    status = {"node": None, "queue": {"position": None, "priority": 0}, "classes": [{"name": "a", "drift": None}]}
    written = claim_report_body(CLAIM, status)["status"]
    assert written == {"queue": {"priority": 0}, "classes": [{"name": "a"}]}


def test_the_devices_column() -> None:
    devices = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in ("gpu-3", "gpu-0")]
    assert claim_report_body(CLAIM, {"devices": devices})["status"]["deviceNames"] == "gpu-3,gpu-0"
    assert "deviceNames" not in claim_report_body(CLAIM, {"devices": []})["status"]


def test_a_class_report_has_no_owner() -> None:
    body = class_report_body("gpu", {"total": 8}, "3")
    assert body["metadata"] == {"name": "gpu", "resourceVersion": "3"}
    assert DeviceClassReport.from_dict(body).status == {"total": 8}


def test_what_outlives_a_restart() -> None:
    starved = condition("Starved", True, "WaitedTooLong", "", now=NEW_YEAR)
    status = {
        "phase": "Starved",
        "conditions": [starved],
        "queue": {"waitingSince": "2026-01-01T00:00:00Z", "attempts": 2, "nextAttempt": "2026-01-01T00:00:04Z"},
        "hold": {"nodes": ["n1"], "devices": [{"driver": "d", "pool": "p", "device": "x"}], "since": "2026-01-01T00:00:01Z"},
        "avoid": [{"for": "ReplicaSet/ns/r", "node": "n2", "until": "2026-01-01T00:00:02Z", "why": "volume"}],
        "usedBy": {"name": "pod", "uid": "u2"},
        "classes": [{"name": "gpu", "hash": "h"}, {"name": "nic", "hash": "i", "drift": "memory"}],
    }  # fmt: skip
    report = ClaimReport.from_dict(claim_report_body(CLAIM, status, "1"))
    assert report.claim_uid == "u1"
    assert report.phase is Phase.Starved
    assert report.hold == Hold(("n1",), (HeldDevice("d", "p", "x"),), NEW_YEAR + 1)
    assert report.avoid == (Avoid("ReplicaSet/ns/r", "n2", NEW_YEAR + 2, "volume"),)
    assert report.used_by == User("pod", "u2")
    assert report.classes == (SeenClass("gpu", "h", None), SeenClass("nic", "i", "memory"))
    assert (report.waiting_since, report.attempts, report.next_attempt) == (NEW_YEAR, 2, NEW_YEAR + 4)
    assert report.starved_since == NEW_YEAR
    assert report.conditions == (starved,)


NONSENSE: list[Any] = [
    None, [], "x", 7,
    {"phase": "Dancing", "conditions": "none", "queue": [], "hold": "n1", "avoid": {}, "usedBy": [], "classes": [1]},
    {"phase": {}, "conditions": [1], "queue": {"waitingSince": "soon", "attempts": "2", "nextAttempt": 3}},
    {"hold": {"since": "now", "nodes": ["n"]}, "avoid": [{"node": "n"}, {"until": "2026-01-01T00:00:00Z"}], "usedBy": {"name": "p"}},
]  # fmt: skip


@pytest.mark.parametrize("status", NONSENSE, ids=range(len(NONSENSE)))
def test_what_cannot_be_read_is_left_out(status: Any) -> None:
    report = ClaimReport.from_dict({"metadata": {"namespace": "ns", "name": "claim"}, "status": status})
    empty = ClaimReport.from_dict({"metadata": {"namespace": "ns", "name": "claim"}})
    assert report == empty


def test_a_hold_keeps_what_can_be_read_of_it() -> None:
    hold = {"since": "2026-01-01T00:00:00Z", "nodes": "n1", "devices": [{"driver": "d"}, {"driver": "d", "pool": "p", "device": "x"}]}  # fmt: skip
    report = ClaimReport.from_dict({"metadata": {}, "status": {"hold": hold}})
    assert report.hold == Hold((), (HeldDevice("d", "p", "x"),), NEW_YEAR)


def test_not_an_object() -> None:
    with pytest.raises(InvalidObject, match="ClaimReport"):
        ClaimReport.from_dict([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("previous", "status", "since"),
    [
        ([], True, "2026-01-01T00:00:00Z"),
        ([{"type": "Starved", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}], True, "2025-01-01T00:00:00Z"),
        ([{"type": "Starved", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}], False, "2026-01-01T00:00:00Z"),
        ([{"type": "Other", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}], True, "2026-01-01T00:00:00Z"),
        ([{"type": "Starved", "status": "Unknown", "lastTransitionTime": "2025-01-01T00:00:00Z"}], None, "2025-01-01T00:00:00Z"),
    ],
)  # fmt: skip
def test_a_condition_keeps_the_time_of_its_last_change(previous: list[Any], status: bool | None, since: str) -> None:
    made = condition("Starved", status, "Because", "text", now=NEW_YEAR, previous=previous)
    assert made["lastTransitionTime"] == since
    assert made["status"] == {True: "True", False: "False", None: "Unknown"}[status]
