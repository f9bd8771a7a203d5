"""What requests do with ResourceClaims: their specs, their allocations and reservations."""

from __future__ import annotations

import pytest

from tests.cluster.semantics.rows import CLAIM, Row
from tests.cluster.semantics.things import (
    Step,
    allocate,
    allocation,
    change,
    claim,
    consumer,
    create,
    delete,
    patch,
    request,
    result,
    status,
    strategic,
)
from tests.cluster.semantics.worlds import ClusterWorld

ADMINS = Step(
    lambda place: patch(
        "Namespace", place.namespace, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )(place)
)
CLAIM_SPECS = [
    Row(
        "counts and modes get defaults",
        CLAIM,
        "201",
        then=lambda item: (
            item["spec"]["devices"]["requests"][0]["exactly"]
            == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
        ),
    ),
    Row("no requests at all", create(claim(requests=[])), "201"),
    Row(
        "33 requests",
        create(claim(requests=[request(f"r{index}") for index in range(33)])),
        "422 Invalid spec.devices.requests",
    ),
    Row(
        "two requests of one name",
        create(claim(requests=[request("a"), request("a")])),
        "422 Invalid spec.devices.requests[1]",
    ),
    Row(
        "a request without a class",
        create(claim(requests=[{"name": "a", "exactly": {}}])),
        "422 Invalid spec.devices.requests[0].exactly.deviceClassName",
    ),
    Row("a request of neither form", create(claim(requests=[{"name": "a"}])), "422 Invalid spec.devices.requests[0]"),
    Row(
        "admin access in a namespace that is not labelled for it",
        create(claim(requests=[request("a"), request("b", adminAccess=True)])),
        "422 Invalid spec.devices.requests[1].adminAccess",
    ),
    Row(
        "admin access in one that is",
        create(claim(requests=[request("a", adminAccess=True)])),
        "201",
        given=(ADMINS,),
    ),
    Row(
        "a request of both forms",
        create(claim(requests=[{**request("a"), "firstAvailable": [{"name": "b", "deviceClassName": "c"}]}])),
        "422 Invalid spec.devices.requests[0]",
    ),
    Row(
        "a negative count",
        create(claim(requests=[request("a", count=-1)])),
        "422 Invalid spec.devices.requests[0].exactly.count",
    ),
    Row(
        "All with a count",
        create(claim(requests=[request("a", allocationMode="All", count=2)])),
        "422 Invalid spec.devices.requests[0].exactly.count",
    ),
    Row(
        "a mode nobody knows",
        create(claim(requests=[request("a", allocationMode="Some")])),
        "422 Invalid spec.devices.requests[0].exactly.allocationMode",
    ),
    Row(
        "a selector without CEL",
        create(claim(requests=[request("a", selectors=[{}])])),
        "422 Invalid spec.devices.requests[0].exactly.selectors[0].cel",
    ),
    Row(
        "an empty expression",
        create(claim(requests=[request("a", selectors=[{"cel": {"expression": ""}}])])),
        "422 Invalid spec.devices.requests[0].exactly.selectors[0].cel.expression",
    ),
    Row(
        "a class that does not exist is fine",
        create(claim(requests=[request("a", deviceClassName="nowhere")])),
        "201",
    ),
    Row(
        "a constraint over an unknown request",
        create(claim(constraints=[{"requests": ["x"], "matchAttribute": "a.example/b"}])),
        "422 Invalid spec.devices.constraints[0].requests[0]",
    ),
    Row(
        "a constraint without an attribute", create(claim(constraints=[{}])), "422 Invalid spec.devices.constraints[0]"
    ),
    Row(
        "a constraint over an attribute without a domain",
        create(claim(constraints=[{"matchAttribute": "numa"}])),
        "422 Invalid spec.devices.constraints[0].matchAttribute",
    ),
]

ALLOCATIONS = [
    Row(
        "admin access in a namespace that is not labelled for it",
        allocate("c", result(adminAccess=True)),
        "422 Invalid status.allocation.devices.results[0].adminAccess",
        given=(CLAIM,),
    ),
    Row("admin access in one that is", allocate("c", result(adminAccess=True)), "200", given=(ADMINS, CLAIM)),
    Row("an allocation", allocate(), "200", given=(CLAIM,), then=lambda item: bool(item["status"]["allocation"])),
    Row(
        "devices that do not exist, twice the same, too many", allocate("c", result(), result()), "200", given=(CLAIM,)
    ),
    Row("no results", status("c", lambda found: found.update(allocation={})), "200", given=(CLAIM,)),
    Row(
        "an unknown request name",
        allocate("c", result("x")),
        "422 Invalid status.allocation.devices.results[0].request",
        given=(CLAIM,),
    ),
    Row(
        "33 results",
        allocate("c", *(result(device=f"d{index}") for index in range(33))),
        "422 Invalid status.allocation.devices.results",
        given=(CLAIM,),
    ),
    Row(
        "a node selector without terms",
        status("c", lambda found: found.update(allocation={**allocation(), "nodeSelector": {"nodeSelectorTerms": []}})),
        "422 Invalid status.allocation.nodeSelector.nodeSelectorTerms",
        given=(CLAIM,),
    ),
    Row(
        "an allocation cannot be changed",
        status("c", lambda found: found["allocation"]["devices"]["results"][0].update(device="gpu-1")),
        "422 Invalid status.allocation",
        given=(CLAIM, allocate()),
    ),
    Row(
        "nor can it be stamped later",
        status("c", lambda found: found["allocation"].update(allocationTimestamp="2026-01-01T00:00:00Z")),
        "422 Invalid status.allocation",
        given=(CLAIM, status("c", lambda found: found.update(allocation={"devices": {"results": [result()]}}))),
    ),
    Row(
        "an allocation can be taken away",
        status("c", lambda found: found.pop("allocation")),
        "200",
        given=(CLAIM, allocate()),
        then=lambda item: "allocation" not in item.get("status", {}),
    ),
    Row(
        "a reservation without an allocation",
        status("c", lambda found: found.update(reservedFor=[consumer()])),
        "422 Invalid status.reservedFor",
        given=(CLAIM,),
    ),
    Row(
        "allocation goes, reservation stays",
        status("c", lambda found: found.pop("allocation")),
        "422 Invalid status.reservedFor",
        given=(
            CLAIM,
            allocate(),
            status("c", lambda found: found.update(reservedFor=[{**consumer(), "resource": "others"}])),
        ),
    ),
    Row(
        "the same consumer twice",
        allocate(reserved=[consumer(), consumer("q")]),
        "422 Invalid status.reservedFor[1]",
        given=(CLAIM,),
    ),
    Row(
        "257 consumers",
        allocate(reserved=[consumer(f"p{index}", f"u{index}") for index in range(257)]),
        "422 Invalid status.reservedFor",
        given=(CLAIM,),
    ),
    Row(
        "no new reservation on a claim that is being deleted",
        status("c", lambda found: found["reservedFor"].append(consumer())),
        "422 Invalid status.reservedFor",
        # In use by something that the claim controller does not know: it would free the claim at once otherwise.
        given=(
            create(claim(finalizers=["x.example/hold"])),
            allocate(reserved=[{**consumer("a", "u1"), "resource": "others"}]),
            delete("ResourceClaim", "c"),
        ),
    ),
    Row(
        "the status endpoint ignores spec and metadata",
        change(
            "ResourceClaim",
            "c",
            lambda item: (
                item["spec"]["devices"]["requests"][0].update(name="x"),
                item["metadata"].update(annotations={"a": "b"}),
            ),
            sub="status",
            by="operator",
        ),
        "200",
        given=(CLAIM,),
        then=lambda item: (
            item["spec"]["devices"]["requests"][0]["name"] == "gpu" and "annotations" not in item["metadata"]
        ),
    ),
    Row(
        "the main endpoint ignores status",
        change("ResourceClaim", "c", lambda item: item.update(status={"allocation": allocation()}), by="operator"),
        "200",
        given=(CLAIM,),
        then=lambda item: not item.get("status"),
    ),
    Row(
        "a stale status update conflicts",
        change(
            "ResourceClaim", "c", lambda item: item["metadata"].update(resourceVersion="1"), sub="status", by="operator"
        ),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "a strategic patch takes one consumer away",
        strategic("ResourceClaim", "c", {"status": {"reservedFor": [{"$patch": "delete", "uid": "u1"}]}}, sub="status"),
        "200",
        given=(
            CLAIM,
            allocate(
                reserved=[{**consumer("a", "u1"), "resource": "others"}, {**consumer("b", "u2"), "resource": "others"}]
            ),
        ),
        then=lambda item: [entry["uid"] for entry in item["status"]["reservedFor"]] == ["u2"],
    ),
    Row(
        "device status only for allocated devices",
        status(
            "c",
            lambda found: found.update(devices=[{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-9"}]),
            by="admin",
        ),
        "422 Invalid status.devices[0]",
        given=(CLAIM, allocate()),
    ),
    Row(
        "device status goes with its allocation",
        status("c", lambda found: found.pop("allocation")),
        "200",
        given=(
            CLAIM,
            allocate(),
            status(
                "c",
                lambda found: found.update(devices=[{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]),
                by="admin",
            ),
        ),
        then=lambda item: "devices" not in item.get("status", {}),
    ),
]


@pytest.mark.parametrize("row", CLAIM_SPECS, ids=str)
def test_claim_spec(row: Row, world: ClusterWorld) -> None:
    row.play(world)


@pytest.mark.parametrize("row", ALLOCATIONS, ids=str)
def test_allocation(row: Row, world: ClusterWorld) -> None:
    row.play(world)
