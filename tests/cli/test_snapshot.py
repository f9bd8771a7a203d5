"""`snapshot` of a served cluster: whole, readable by the other commands, without names where asked, and without a single write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_operator.cli.anonymity import Anonymizer
from dra_operator.cluster.rest import NODES, PODS, RESOURCE_CLAIMS
from tests.cli.commands import call, data
from tests.cli.scene import scene
from tests.cli.served import Served, serve


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(scene().server, tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(scope="module")
def saved(cluster: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Snapshots, as they are and anonymized."""
    folder = tmp_path_factory.mktemp("snapshots")
    files = {False: folder / "plain.yaml", True: folder / "anonymous.yaml"}
    for anonymous, file in files.items():
        flags = ["--anonymize"] if anonymous else []
        done = call("snapshot", "--kubeconfig", cluster.kubeconfig, "-o", file, *flags)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert done.stderr.endswith(f" objects in {file}\n")
    return files


def objects(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def test_it_holds_what_the_cluster_holds(saved: dict[bool, Path]) -> None:
    store = scene().server.store
    kinds = Counter(item["kind"] for item in objects(saved[False]))
    for resource in (PODS, NODES, RESOURCE_CLAIMS):
        assert kinds[resource.kind] == len(store.listed(resource))
    assert kinds["ReplicaSet"] == kinds["Deployment"] == kinds["StatefulSet"] == 1
    assert Counter(item["kind"] for item in objects(saved[True])) == kinds


def test_nothing_but_gets(cluster: Served, saved: dict[bool, Path]) -> None:
    assert {method for method, _ in cluster.requests} == {"GET"}


def test_nobodys_business_is_left_out(saved: dict[bool, Path]) -> None:
    text = saved[False].read_text()
    for secret in ("hunter2", "registry.example.com", "managedFields"):
        assert secret not in text


def test_names_are_gone(saved: dict[bool, Path]) -> None:
    text = saved[True].read_text()
    for name in ("team-a", "rack7", "opt1cs", "train", "tardy", "ann@example", "web", "eight"):
        assert name not in text, name


def test_references_hold(saved: dict[bool, Path]) -> None:
    items = objects(saved[True])
    names = {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items}
    nodes = {name for kind, _, name in names if kind == "Node"}
    for item in items:
        meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
        for owner in meta.get("ownerReferences") or ():
            space = "" if owner["kind"] == "Node" else meta["namespace"]
            assert (owner["kind"], space, owner["name"]) in names
        if item["kind"] == "ResourceSlice":
            assert spec["nodeName"] in nodes
            assert spec["pool"]["name"] == spec["nodeName"]
        if item["kind"] == "Pod":
            assert spec.get("nodeName") in nodes | {None}
            for used in status.get("resourceClaimStatuses") or ():
                assert ("ResourceClaim", meta["namespace"], used["resourceClaimName"]) in names
        if item["kind"] == "ResourceClaim" and status.get("allocation"):
            assert {result["pool"] for result in status["allocation"]["devices"]["results"]} <= nodes
            terms = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
            assert {value for term in terms for field in term["matchFields"] for value in field["values"]} <= nodes


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_simulation_goes_on_from_it(saved: dict[bool, Path], anonymous: bool) -> None:
    """What runs goes on running, what waits still waits; no workload is rolled over."""
    run = data("simulate", "-f", saved[anonymous])
    assert Counter(claim["phase"] for claim in run["claims"]) == {"Reserved": 8, "Starved": 1}
    assert not [event for event in run["events"] if event["reason"] in ("Deleted", "Freed", "Allocated")]


def test_what_if_there_were_another_node(saved: dict[bool, Path]) -> None:
    run = data("simulate", "-f", saved[False], "--add-nodes", "like=rack7-0,count=1")
    (tardy,) = (claim for claim in run["claims"] if claim["name"].startswith("tardy-"))
    assert (tardy["phase"], tardy["node"]) == ("Reserved", "rack7-0-0")


def test_other_commands_read_it(saved: dict[bool, Path]) -> None:
    plain, anonymous = ([*data("top", "nodes", "-f", saved[flag])["nodes"]] for flag in (False, True))
    assert [row["name"] for row in plain] == ["rack7-0", "rack7-1"]
    counts = [[{**row, "name": ""} for row in rows] for rows in (plain, anonymous)]
    assert sorted(counts[0], key=str) == sorted(counts[1], key=str)


def test_standard_output(cluster: Served, saved: dict[bool, Path]) -> None:
    done = call("snapshot", "--kubeconfig", cluster.kubeconfig)
    assert done.returncode == 0
    kinds = Counter(item["kind"] for item in yaml.safe_load_all(done.stdout))
    assert kinds == Counter(item["kind"] for item in objects(saved[False]))


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    done = call("snapshot", "--kubeconfig", tmp_path / "none", "-o", tmp_path / "out.yaml")
    assert done.returncode == 1
    assert done.stderr.startswith("error: kubeconfig ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "same"),
    [("default", True), ("kube-system", True), ("web", False), ("web-3", False), ("team/web", False)],
)
def test_names(before: str, same: bool) -> None:
    one, other = Anonymizer(b"1"), Anonymizer(b"2")
    assert (one.name(before) == before) is same
    assert one.name(before) == one.name(before)
    assert (one.name(before) == other.name(before)) is same
    assert one.name("web-3") == f"{one.name('web')}-3"
    assert one.name("team/web") == f"{one.name('team')}/{one.name('web')}"
