"""Lists and watches: order, contents, selectors, what a deletion looks like, versions that are too old."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cluster.rest import RESOURCE_CLAIMS
from tests.cluster.semantics.things import allocate, claim, delete, patch, pod, status
from tests.cluster.semantics.worlds import Event, Place


def versions(events: list[Event]) -> list[int]:
    return [int(item["metadata"]["resourceVersion"]) for _, item in events]


def watch(place: Place, since: str, until: Any) -> list[Event]:
    return place.world.watch(RESOURCE_CLAIMS, place.namespace, since, until)


def test_changes_come_in_the_order_of_their_versions(place: Place) -> None:
    since = place.must("GET", "ResourceClaim")["metadata"]["resourceVersion"]
    place.create(claim("a"))
    place.create(claim("b"))
    assert allocate("a")(place).ok
    assert status("a", lambda found: found.pop("allocation"))(place).ok
    assert patch("ResourceClaim", "b", {"metadata": {"finalizers": None}}, by="kcm")(place).ok
    assert delete("ResourceClaim", "b")(place).ok
    events = watch(place, since, lambda events: any(kind == "DELETED" for kind, _ in events))
    told = [(kind, item["metadata"]["name"], "allocation" in item.get("status", {})) for kind, item in events]
    assert told == [
        ("ADDED", "a", False),
        ("ADDED", "b", False),
        ("MODIFIED", "a", True),
        ("MODIFIED", "a", False),
        ("MODIFIED", "b", False),
        ("DELETED", "b", False),
    ]
    assert versions(events) == sorted(set(versions(events)))


def test_a_deletion_has_a_version_of_its_own(place: Place) -> None:
    created = place.create(claim("a"))
    stripped = patch("ResourceClaim", "a", {"metadata": {"finalizers": None}}, by="kcm")(place).body
    assert delete("ResourceClaim", "a")(place).ok
    since = created["metadata"]["resourceVersion"]
    events = watch(place, since, lambda events: any(kind == "DELETED" for kind, _ in events))
    assert [kind for kind, _ in events] == ["MODIFIED", "DELETED"]
    assert versions(events)[-1] > int(stripped["metadata"]["resourceVersion"])


def test_a_watch_from_a_list_misses_and_repeats_nothing(place: Place) -> None:
    place.create(claim("a"))
    listed = place.must("GET", "ResourceClaim")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert listed["kind"] == "ResourceClaimList"
    place.create(claim("b"))
    events = watch(place, listed["metadata"]["resourceVersion"], lambda events: len(events) >= 1)
    assert [(kind, item["metadata"]["name"]) for kind, item in events] == [("ADDED", "b")]


def test_a_version_from_the_future_or_the_distant_past(place: Place) -> None:
    """Too old is 410 Expired; here the oldest that the real server's cache has is unknown, so only the shape is compared."""
    place.create(claim("a"))
    listed = place.must("GET", "ResourceClaim", query={"resourceVersion": "0"})
    assert int(listed["metadata"]["resourceVersion"]) > 0


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"labelSelector": "app=a"}, ["a"]),
        ({"labelSelector": "app!=a"}, ["b", "c"]),
        ({"labelSelector": "app in (a,b)"}, ["a", "b"]),
        ({"labelSelector": "app notin (a,b)"}, ["c"]),
        ({"labelSelector": "app"}, ["a", "b"]),
        ({"labelSelector": "!app"}, ["c"]),
        ({"labelSelector": "app,tier=x"}, ["b"]),
        ({"fieldSelector": "metadata.name=b"}, ["b"]),
        ({"fieldSelector": "spec.nodeName=n1"}, ["c"]),
        ({"fieldSelector": "spec.nodeName!=n1"}, ["a", "b"]),
        ({"fieldSelector": "status.phase=Pending"}, ["a", "b", "c"]),
    ],
    ids=str,
)
def test_selectors(place: Place, query: dict[str, str], names: list[str]) -> None:
    place.create(pod("a", labels={"app": "a"}, schedulerName="nobody"))
    place.create(pod("b", labels={"app": "b", "tier": "x"}, schedulerName="nobody"))
    place.create(pod("c", nodeName="n1"))
    found = place.must("GET", "Pod", query=query)["items"]
    assert [item["metadata"]["name"] for item in found] == names


def test_an_unknown_field_selector_is_refused(place: Place) -> None:
    assert place.send("GET", "ResourceClaim", query={"fieldSelector": "spec.devices=x"}).status == 400


def test_long_lists_come_in_chunks(place: Place) -> None:
    for name in "abcde":
        place.create(claim(name))
    names: list[str] = []
    query = {"limit": "2"}
    while True:
        page = place.must("GET", "ResourceClaim", query=query)
        names += [item["metadata"]["name"] for item in page["items"]]
        if not page["metadata"].get("continue"):
            break
        query = {"limit": "2", "continue": page["metadata"]["continue"]}
    assert names == ["a", "b", "c", "d", "e"]
