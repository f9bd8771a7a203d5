"""`lint --live`: manifests against what a cluster publishes, with GETs only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import call
from tests.cli.scene import pod, scene, template
from tests.cli.served import Served, serve


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(scene().server, tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.mark.parametrize(
    ("objects", "codes"),
    [
        # The template is in the cluster, and so is its class.
        ([pod("more", "one")], set()),
        ([template("nine", 9), pod("more", "nine")], {"count-too-high"}),
        # All classes that there are, are known.
        ([template("tape", device_class="tape"), pod("more", "tape")], {"unknown-class"}),
    ],
)
def test_against_a_cluster(cluster: Served, tmp_path: Path, objects: list[dict[str, Any]], codes: set[str]) -> None:
    (tmp_path / "app.yaml").write_text(yaml.safe_dump_all(objects))
    done = call("lint", "-f", "app.yaml", "--kubeconfig", cluster.kubeconfig, "-o", "json", folder=tmp_path)
    assert done.returncode == bool(codes), done.stderr
    assert {finding["code"] for finding in json.loads(done.stdout)} == codes
    assert {method for method, _ in cluster.requests} == {"GET"}
