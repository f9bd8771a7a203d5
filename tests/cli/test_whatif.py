"""What-if flags of `simulate`: each changes the input as it says, and nothing else; mistakes are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.manifests import read_manifests
from dra_operator.cli.whatif import AddedNodes, WhatIf, change
from dra_operator.cluster.rest import NODES, PODS, RESOURCE_SLICES
from tests.cli.commands import DEMO, call, data
from tests.cli.scene import pod, scene, template
from tests.cli.served import Served, serve


def nodes_of(run: dict[str, Any]) -> set[str]:
    return {claim["node"] for claim in run["claims"] if claim["node"]}


def test_a_removed_node_is_not_used() -> None:
    assert "node-c" in nodes_of(data("simulate", "-f", DEMO))
    run = data("simulate", "-f", DEMO, "--remove-node", "node-c")
    assert nodes_of(run) == {"node-a", "node-b"}
    # Its claims wait; those of the other nodes do not care.
    waiting = {claim["name"].partition("-")[0] for claim in run["claims"] if not claim["devices"]}
    assert waiting == {"evaluation", "finetune"}


def test_added_nodes_are_used() -> None:
    before = data("simulate", "-f", DEMO, "--until", "45s")
    after = data("simulate", "-f", DEMO, "--until", "45s", "--add-nodes", "like=node-b,count=1,name=new")
    waiting = [[claim for claim in run["claims"] if claim["phase"] == "Queued"] for run in (before, after)]
    assert list(map(len, waiting)) == [1, 0]
    assert "new-0" in nodes_of(after)


def test_names_that_are_taken_are_passed_over() -> None:
    manifests = read_manifests([str(DEMO)])
    for _ in range(2):
        change(manifests, WhatIf(add_nodes=[AddedNodes.parse("profile=l4,count=2")]))
    names = [manifest.name for manifest in manifests.of_kind("Node")]
    assert [name for name in names if name.startswith("l4")] == ["l4-0", "l4-1", "l4-2", "l4-3"]


def test_copies_are_like_the_original() -> None:
    manifests = read_manifests([str(DEMO)])
    change(manifests, WhatIf(add_nodes=[AddedNodes.parse("like=node-c,count=2")]))
    slices = {
        manifest.object["spec"]["nodeName"]: manifest.object
        for manifest in manifests.objects
        if manifest.resource is RESOURCE_SLICES
    }
    for name in ("node-c-0", "node-c-1"):
        copy, original = slices[name], slices["node-c"]
        assert copy["spec"]["devices"] == original["spec"]["devices"]
        assert copy["spec"]["pool"]["name"] == name
        assert copy["metadata"]["name"] not in (original["metadata"]["name"], slices["node-b"]["metadata"]["name"])


POLICY = {
    "apiVersion": "dra-operator.dev/v1alpha1",
    "kind": "AllocationPolicy",
    "metadata": {"name": "all"},
    "spec": {"quota": [{"deviceClassName": "gpu", "devices": 1, "per": "Namespace"}]},
}


def test_a_policy_takes_the_place_of_its_namesake(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(POLICY))
    manifests = read_manifests([str(DEMO)])
    for _ in range(2):
        change(manifests, WhatIf(policy=[str(file)]))
    assert [item.object["spec"] for item in manifests.of_kind("AllocationPolicy") if item.name == "all"] == [
        POLICY["spec"]
    ]
    phases = {claim["phase"] for claim in data("simulate", "-f", DEMO, "--policy", file)["claims"]}
    assert "QuotaExceeded" in phases


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profile=p4d,count=0", "count=0 is no number from 1 to 10000"),
        ("profile=p4e", "there is no profile 'p4e', but "),
        ("count=2", "give one of profile=NAME and like=NODE"),
        ("profile=p4d,like=n", "give one of profile=NAME and like=NODE"),
        ("p4d", "write profile=NAME,count=N or like=NODE,count=N"),
    ],
)
def test_wrong_nodes(text: str, said: str) -> None:
    with pytest.raises(CommandFailed, match="--add-nodes") as caught:
        AddedNodes.parse(text)
    assert said in caught.value.message
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ("-f", DEMO, "--remove-node", "node-x"),
            1,
            "error: --remove-node node-x: there is no such node; did you mean ",
        ),
        (("-f", DEMO, "--add-nodes", "like=nowhere"), 1, "error: --add-nodes like=nowhere: there is no such node"),
        (("-f", DEMO, "--policy", DEMO / "cluster.yaml"), 1, "--policy takes AllocationPolicies; give others with -f"),
        (("-f", DEMO, "--context", "c"), 2, "--kubeconfig and --context name the cluster of --live"),
        ((), 2, "give manifests, or a cluster with --live"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], code: int, said: str) -> None:
    done = call("simulate", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(scene().server, tmp_path_factory.mktemp("cluster")) as served:
        yield served


def test_live_starts_from_the_cluster_and_writes_nothing(cluster: Served, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump_all([template("four", 4), pod("extra", "four")]))
    more = ("-f", file, "--add-nodes", "like=rack7-0,name=rack8")
    run = data("simulate", "--live", "--kubeconfig", cluster.kubeconfig, *more)
    phases = {claim["name"].rpartition("-gpus")[0]: claim["phase"] for claim in run["claims"]}
    assert (phases["tardy"], phases["extra"]) == ("Reserved", "Reserved")
    assert {method for method, _ in cluster.requests} == {"GET"}
    # What was so before the run is no news.
    assert not [event for event in run["events"] if "/train-" in event["object"] or "/web-" in event["object"]]


def test_a_node_less_moves_what_ran_there(cluster: Served) -> None:
    run = data("simulate", "--live", "--kubeconfig", cluster.kubeconfig, "--remove-node", "rack7-0", "--until", "10m")
    assert nodes_of(run) == {"rack7-1"}
    running = [item for item in run["pods"] if item["phase"] == "Running"]
    assert {item["node"] for item in running} == {"rack7-1"}


def test_the_server_serves_what_tests_need() -> None:
    store = scene().server.store
    assert len(store.listed(NODES)) == 2
    assert len(store.listed(PODS)) == 9
