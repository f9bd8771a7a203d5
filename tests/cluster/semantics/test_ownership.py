"""Who may write what: the admission policies, and the DeviceClasses of NetworkDeviceClasses."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cluster.rest import Response
from tests.cluster.semantics.rows import CLAIM, REPORT, Row, gates
from tests.cluster.semantics.things import (
    Step,
    allocate,
    change,
    claim,
    consumer,
    create,
    delete,
    patch,
    pod,
    protected,
    status,
    template,
    uses,
)
from tests.cluster.semantics.worlds import GATE, MANAGED, ClusterWorld, Place

EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def owners(name: str, **other: Any) -> list[dict[str, Any]]:
    api = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass"}
    return [{**api, "name": name, "uid": "11111111-1111-1111-1111-111111111111", **other}]


def network_class(owner: str, name: str = "of", **other: Any) -> dict[str, Any]:
    """A DeviceClass whose owner is the NetworkDeviceClass `owner`; of nobody where that is empty."""
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["ownerReferences"] = owners(owner, **other)
    return {"kind": "DeviceClass", "metadata": metadata, "spec": {}}


def owned_class(name: str) -> Step:
    """Store one with an owner that exists: the garbage collector takes what has none."""

    def act(place: Place) -> Response:
        api = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass"}
        owner = place.create({**api, "metadata": {"name": name}, "spec": {}})
        body = network_class(name, name, uid=owner["metadata"]["uid"])
        return place.send("POST", "DeviceClass", body=body)

    return Step(act)


POLICIES = [
    Row(
        "a new claim is managed and protected",
        create(claim(), "alice"),
        "201",
        then=lambda item: item["metadata"]["labels"][MANAGED] == "true" and protected(item),
    ),
    Row(
        "whatever its label said",
        create(claim(labels={MANAGED: "false"}), "alice"),
        "201",
        then=lambda item: item["metadata"]["labels"][MANAGED] == "true",
    ),
    Row(
        "not in an exempt namespace",
        create(claim(), "alice"),
        "201",
        exempt=True,
        then=lambda item: "labels" not in item["metadata"] and not protected(item),
    ),
    Row(
        "a pod with claims is gated",
        create(pod(claims=[uses("c")]), "alice"),
        "201",
        then=lambda item: gates(item) == [GATE],
    ),
    Row(
        "after the gates it has",
        create(pod(claims=[uses("c")], schedulingGates=[{"name": "x.example/hold"}]), "alice"),
        "201",
        then=lambda item: gates(item) == ["x.example/hold", GATE],
    ),
    Row("a pod without claims is not", create(pod(), "alice"), "201", then=lambda item: gates(item) == []),
    Row(
        "nor one with a node",
        create(pod(claims=[uses("c")], nodeName="n1"), "alice"),
        "201",
        then=lambda item: gates(item) == [],
    ),
    Row(
        "nor one of another scheduler",
        create(pod(claims=[uses("c")], schedulerName="mine"), "alice"),
        "201",
        then=lambda item: gates(item) == [],
    ),
    Row(
        "nor one in an exempt namespace",
        create(pod(claims=[uses("c")]), "alice"),
        "201",
        exempt=True,
        then=lambda item: gates(item) == [],
    ),
    Row("the scheduler cannot allocate a managed claim", allocate(by="scheduler"), "403 Forbidden", given=(CLAIM,)),
    Row("a user cannot either", allocate(by="alice"), "403 Forbidden", given=(CLAIM,)),
    Row("the operator can", allocate(by="operator"), "200", given=(CLAIM,)),
    Row("an unmanaged claim is the scheduler's", allocate(by="scheduler"), "200", given=(CLAIM,), exempt=True),
    Row("and not the operator's", allocate(by="operator"), "403 Forbidden", given=(CLAIM,), exempt=True),
    Row(
        "the operator cannot touch its metadata",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {"a": "b"}}}, by="operator"),
        "403 Forbidden",
        given=(CLAIM,),
        exempt=True,
    ),
    Row(
        "nor adopt it",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "true"}}}, by="operator"),
        "403 Forbidden",
        given=(CLAIM,),
        exempt=True,
    ),
    Row("nor delete it", delete("ResourceClaim", "c", by="operator"), "403 Forbidden", given=(CLAIM,), exempt=True),
    Row(
        "the scheduler reserves an allocated managed claim",
        status("c", lambda found: found.update(reservedFor=[{**consumer(), "resource": "others"}]), by="scheduler"),
        "200",
        given=(CLAIM, allocate()),
    ),
    Row(
        "and clears it",
        status("c", lambda found: found.pop("allocation"), by="scheduler"),
        "200",
        given=(CLAIM, allocate()),
    ),
    Row(
        "nobody takes the label off",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: None}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "or changes it",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "false"}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "but the operator",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: None}}}, by="operator"),
        "200",
        given=(CLAIM,),
        then=lambda item: "labels" not in item["metadata"],
    ),
    Row(
        "a user adopts an unmanaged claim",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "true"}}}, by="alice"),
        "200",
        given=(CLAIM,),
        exempt=True,
    ),
    Row(
        "the finalizer of an allocated claim stays",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": None}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM, allocate()),
    ),
    Row(
        "that of an unallocated one may go",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": None}}, by="kcm"),
        "200",
        given=(CLAIM,),
        then=lambda item: not protected(item),
    ),
    Row(
        "a claim is annotated as extended by a user",
        create(claim(annotations={EXTENDED: "true"}), "alice"),
        "403 Forbidden",
    ),
    Row(
        "and by the scheduler",
        create(claim(annotations={EXTENDED: "true"}), "scheduler"),
        "201",
        then=lambda item: "labels" not in item["metadata"],
    ),
    Row(
        "a template is annotated as extended",
        create(template(annotations={EXTENDED: "true"}), "alice"),
        "403 Forbidden",
    ),
    Row(
        "a claim is annotated later",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {EXTENDED: "true"}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "reports are the operator's",
        create(REPORT, "alice"),
        "403 Forbidden",
    ),
    Row(
        "which writes them in one request",
        create(REPORT, "operator"),
        "201",
        then=lambda item: item["status"]["phase"] == "Queued",
    ),
    Row(
        "a report is replaced with its resourceVersion only",
        change("ClaimReport", "c", lambda item: item["metadata"].pop("resourceVersion"), by="operator"),
        "422 Invalid metadata.resourceVersion",
        given=(create(REPORT, "operator"),),
    ),
    Row("a class of a NetworkDeviceClass of its name", create(network_class("of"), "operator", dryRun="All"), "201"),
    Row("a class of nobody", create(network_class(""), "operator", dryRun="All"), "403 Forbidden"),
    Row("a class of another's name", create(network_class("other"), "operator", dryRun="All"), "403 Forbidden"),
    Row(
        "a class of another kind's object",
        create(network_class("of", kind="AllocationPolicy"), "operator", dryRun="All"),
        "403 Forbidden",
    ),
    Row(
        "a class of another group's NetworkDeviceClass",
        create(network_class("of", apiVersion="example.com/v1"), "operator", dryRun="All"),
        "403 Forbidden",
    ),
    Row("a class of nobody by anybody else", create(network_class(""), "alice", dryRun="All"), "201"),
]

#: Stored classes are cluster-scoped, so each row has a name of its own.
CLASSES = [
    Row(
        "the operator changes what belongs to a NetworkDeviceClass",
        patch("DeviceClass", "changed", {"spec": {"extendedResourceName": "example.com/nic"}}, by="operator"),
        "200",
        given=(owned_class("changed"),),
    ),
    Row(
        "the operator takes no class over",
        change(
            "DeviceClass",
            "theirs",
            lambda item: item["metadata"].update(ownerReferences=owners("theirs")),
            by="operator",
        ),
        "403 Forbidden",
        given=(create(network_class("", "theirs")),),
    ),
    Row(
        "the operator gives no class away",
        patch("DeviceClass", "kept", {"metadata": {"ownerReferences": None}}, by="operator"),
        "403 Forbidden",
        given=(owned_class("kept"),),
    ),
]


@pytest.mark.parametrize("row", POLICIES, ids=str)
def test_policy(row: Row, world: ClusterWorld) -> None:
    row.play(world)


@pytest.mark.parametrize("row", CLASSES, ids=str)
def test_class(row: Row, world: ClusterWorld) -> None:
    row.play(world)
