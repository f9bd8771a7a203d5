"""What requests do with names, versions, finalizers and patches of any object."""

from __future__ import annotations

import pytest

from tests.cluster.semantics.rows import CLAIM, GATED, REPORT, UNGATE, Row
from tests.cluster.semantics.things import (
    allocation,
    change,
    claim,
    create,
    delete,
    finalizers,
    get,
    json_patch,
    patch,
    strategic,
    template,
)
from tests.cluster.semantics.worlds import FINALIZER, ClusterWorld, Place

METADATA = [
    Row(
        "a name is needed",
        create({"kind": "ResourceClaim", "metadata": {}, "spec": claim()["spec"]}),
        "422 Invalid metadata.name",
    ),
    Row("names are subdomains", create(claim("Not_A_Name")), "422 Invalid metadata.name"),
    Row(
        "generateName appends five letters",
        create({"kind": "ResourceClaim", "metadata": {"generateName": "g-"}, "spec": claim()["spec"]}),
        "201",
        then=lambda item: item["metadata"]["name"].startswith("g-") and len(item["metadata"]["name"]) == 7,
    ),
    Row(
        "generateName is cut to leave room",
        create({"kind": "ResourceClaim", "metadata": {"generateName": "x" * 80}, "spec": claim()["spec"]}),
        "201",
        then=lambda item: len(item["metadata"]["name"]) == 63,
    ),
    Row("the same name twice", CLAIM, "409 AlreadyExists", given=(CLAIM,)),
    Row("nothing there", get("ResourceClaim", "c"), "404 NotFound"),
    Row("update of nothing", patch("ResourceClaim", "c", {"metadata": {}}), "404 NotFound"),
    Row("delete of nothing", delete("ResourceClaim", "c"), "404 NotFound"),
    Row(
        "uid and resourceVersion a client sends are not taken",
        create(claim(uid="99999999-9999-9999-9999-999999999999", resourceVersion="")),
        "201",
        then=lambda item: not item["metadata"]["uid"].startswith("99999999-9999"),
    ),
    Row(
        "status is not taken on creation",
        create({**claim(), "status": {"allocation": allocation()}}),
        "201",
        then=lambda item: not item.get("status"),
    ),
    Row("a label value with a blank", create(claim(labels={"a": "b c"})), "422 Invalid metadata.labels"),
    Row("a finalizer without a domain", create(claim(finalizers=["mine"])), "422 Invalid metadata.finalizers[0]"),
    Row(
        "a stale resourceVersion conflicts",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(resourceVersion="1")),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "without a resourceVersion an update is unconditional",
        change(
            "ResourceClaim",
            "c",
            lambda item: (item["metadata"].pop("resourceVersion"), item["metadata"].update(annotations={"a": "b"})),
        ),
        "200",
        given=(CLAIM,),
    ),
    Row(
        "a stale resourceVersion in a merge patch conflicts",
        patch("ResourceClaim", "c", {"metadata": {"resourceVersion": "1", "annotations": {"a": "b"}}}),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "another uid in an update conflicts",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(uid="99999999-9999-9999-9999-999999999999")),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "another uid in a patch is invalid",
        strategic("Pod", "p", {"metadata": {"uid": "99999999-9999-9999-9999-999999999999"}, **UNGATE}),
        "422 Invalid metadata.uid",
        given=(GATED,),
    ),
    Row(
        "the name in the body must be that of the path",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(name="d")),
        "400 BadRequest",
        given=(CLAIM,),
    ),
    Row(
        "null in a merge patch deletes",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {"a": None}}}),
        "200",
        given=(create(claim(annotations={"a": "1", "b": "2"})),),
        then=lambda item: item["metadata"]["annotations"] == {"b": "2"},
    ),
    Row(
        "a merge patch replaces lists",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/a"]}}, by="kcm"),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: finalizers(item) == ["x.example/a"],
    ),
    Row(
        "a strategic patch merges finalizers",
        strategic("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/a"]}}),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: set(finalizers(item)) == {"x.example/a", "x.example/b", FINALIZER},
    ),
    Row(
        "$deleteFromPrimitiveList takes one finalizer away",
        strategic("ResourceClaim", "c", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/b"]}}),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: finalizers(item) == [FINALIZER],
    ),
    Row(
        "a JSON patch adds and removes",
        json_patch("ResourceClaim", "c", {"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}),
        "200",
        given=(CLAIM,),
        then=lambda item: item["metadata"]["annotations"] == {"a": "1"},
    ),
    Row(
        "a failing test in a JSON patch",
        json_patch("ResourceClaim", "c", {"op": "test", "path": "/metadata/name", "value": "d"}),
        "422 Invalid",
        given=(CLAIM,),
    ),
    Row(
        "a JSON patch that removes nothing",
        json_patch("ResourceClaim", "c", {"op": "remove", "path": "/metadata/annotations"}),
        "422 Invalid",
        given=(CLAIM,),
    ),
    Row(
        "custom resources have no strategic patch",
        strategic("ClaimReport", "c", {"metadata": {"labels": {"a": "b"}}}),
        "415 UnsupportedMediaType",
        given=(create(REPORT, "operator"),),
    ),
    Row(
        "spec of a claim is immutable",
        change("ResourceClaim", "c", lambda item: item["spec"]["devices"]["requests"][0]["exactly"].update(count=2)),
        "422 Invalid spec",
        given=(CLAIM,),
    ),
    Row(
        "spec of a template is immutable",
        change(
            "ResourceClaimTemplate", "t", lambda item: item["spec"]["spec"]["devices"]["requests"][0].update(name="x")
        ),
        "422 Invalid spec",
        given=(create(template()),),
    ),
]

DELETIONS = [
    Row(
        "a finalizer keeps a claim",
        delete("ResourceClaim", "c"),
        "200",
        given=(create(claim(finalizers=["x.example/hold"])),),
        then=lambda item: (
            "deletionTimestamp" in item["metadata"] and item["metadata"]["deletionGracePeriodSeconds"] == 0
        ),
    ),
    Row(
        "no finalizer can be added then",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/hold", "x.example/more"]}}),
        "422 Invalid metadata.finalizers",
        given=(create(claim(finalizers=["x.example/hold"])), delete("ResourceClaim", "c")),
    ),
    Row(
        "a stale resourceVersion precondition",
        delete("ResourceClaim", "c", preconditions={"resourceVersion": "1"}),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "a class",
        delete("DeviceClass", "semantics"),
        "200",
        given=(create({"kind": "DeviceClass", "metadata": {"name": "semantics"}, "spec": {}}),),
        then=lambda item: item["kind"] == "DeviceClass",
    ),
    Row(
        "a report answers with a status",
        delete("ClaimReport", "c", by="operator"),
        "200",
        given=(create(REPORT, "operator"),),
        then=lambda item: item["kind"] == "Status",
    ),
]


@pytest.mark.parametrize("row", METADATA, ids=str)
def test_metadata(row: Row, world: ClusterWorld) -> None:
    row.play(world)


@pytest.mark.parametrize("row", DELETIONS, ids=str)
def test_deletion(row: Row, world: ClusterWorld) -> None:
    row.play(world)


def test_dry_run_changes_nothing(place: Place) -> None:
    assert place.send("POST", "ResourceClaim", body=claim(), query={"dryRun": "All"}).status == 201
    assert place.gone("ResourceClaim", "c")


def test_an_update_without_a_change_is_no_event(place: Place) -> None:
    before = place.create(claim())
    after = change("ResourceClaim", "c", lambda _: None)(place)
    assert after.body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
