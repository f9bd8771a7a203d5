"""The log: one order of versions, compaction, and objects that nobody changes in place."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.rest import RESOURCE_CLAIMS
from tests.cluster.memory.stand_in import Cluster, claim, deployment, node, pod


def test_versions_grow_over_all_kinds(cluster: Cluster) -> None:
    since = cluster.world.server.store.version
    cluster.apply(node("n1"), claim("a"), node("n2"))
    nodes = [int(item["metadata"]["resourceVersion"]) for _, item in cluster.world.server.watch_since("Node", since)]
    claims = [
        int(item["metadata"]["resourceVersion"]) for _, item in cluster.world.server.watch_since("ResourceClaim", since)
    ]
    assert nodes[0] < claims[0] < nodes[1]


def test_compacted_changes_are_gone(cluster: Cluster) -> None:
    cluster.apply(claim("a"), claim("b"))
    server, store = cluster.world.server, cluster.world.server.store
    first = int((cluster.get("ResourceClaim", "a") or {})["metadata"]["resourceVersion"])
    store.compact(RESOURCE_CLAIMS, first)
    assert [item["metadata"]["name"] for _, item in server.watch_since("ResourceClaim", first)] == ["b"]
    with pytest.raises(Refused) as refusal:
        server.watch_since("ResourceClaim", first - 1)
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")


def test_what_is_handed_out_is_a_copy(cluster: Cluster) -> None:
    cluster.apply(claim("a"))
    (cluster.get("ResourceClaim", "a") or {})["spec"].clear()
    assert (cluster.get("ResourceClaim", "a") or {})["spec"]


def test_what_is_handed_in_is_copied(cluster: Cluster) -> None:
    given = claim("a")
    cluster.apply(given)
    before = (cluster.get("ResourceClaim", "a") or {})["spec"]
    given["spec"] = None
    assert (cluster.get("ResourceClaim", "a") or {})["spec"] == before


def test_the_same_seed_gives_the_same_names() -> None:
    def names(seed: int) -> list[tuple[str, str]]:
        server = MemoryServer(lambda: 0.0, seed=seed)
        server.load(
            [{**claim(""), "apiVersion": "resource.k8s.io/v1", "metadata": {"generateName": "x-"}} for _ in range(3)]
        )
        return [(item["metadata"]["name"], item["metadata"]["uid"]) for item in server.store.listed(RESOURCE_CLAIMS)]

    assert names(3) == names(3) != names(4)


def test_uids_sort_by_the_age_of_the_family(cluster: Cluster) -> None:
    """A Deployment's pods are as old as the Deployment to a tie-break by uid."""
    cluster.apply(deployment("first", 2, template=None), pod("second", template=None))
    cluster.run(1)
    by_uid = sorted(cluster.all("Pod"), key=lambda item: item["metadata"]["uid"])
    assert [item["metadata"]["name"].split("-")[0] for item in by_uid] == ["first", "first", "second"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"kind": "Nothing", "apiVersion": "v1", "metadata": {"name": "x"}}, "no kind 'Nothing'"),
        ({"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "x"}}, "'v2'"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {}}, "spec.containers"),
        ({"kind": "Node", "apiVersion": "v1", "metadata": {}}, "metadata.name"),
    ],
    ids=["kind", "version", "spec", "name"],
)
def test_load_refuses_what_no_cluster_holds(cluster: Cluster, item: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        cluster.world.server.load([item])


def test_a_snapshot_stays_as_it_is(cluster: Cluster) -> None:
    given = {**claim("a"), "apiVersion": "resource.k8s.io/v1", "status": {"reservedFor": []}}
    given["metadata"] |= {"uid": "u", "namespace": "elsewhere"}
    cluster.world.server.load([given], exempt=True)
    found = cluster.get("ResourceClaim", "a", "elsewhere") or {}
    assert found["metadata"]["uid"] == "u"
    assert "labels" not in found["metadata"]
    cluster.world.server.load([{**given, "metadata": {"name": "b"}}], exempt=False)
    assert (cluster.get("ResourceClaim", "b") or {})["metadata"]["labels"] == {"dra-operator.dev/managed": "true"}
