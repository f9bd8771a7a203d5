"""Nodes made for slices and pods that name one the input lacks."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cli.manifests import Manifests, Source, read_values
from dra_operator.cli.standins import SIZE, stand_in_nodes


def slice_of(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", **spec},
    }


def node(status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("objects", "made", "remarks"),
    [
        ([slice_of({"nodeName": "n1"}), node({"allocatable": {"cpu": "1"}})], [], []),
        ([slice_of({"nodeName": "n1"})], ["n1"], ["no Node given for n1; made it with 256 CPUs, 4Ti of memory"]),
        ([slice_of({"allNodes": True})], [], []),
        (
            [slice_of({"perDeviceNodeSelection": True, "devices": [{"name": "a", "nodeName": "b1"}, {"name": "b", "nodeName": "a1"}]})],
            ["a1", "b1"],
            ["no Node given for a1, b1; made them with 256 CPUs, 4Ti of memory"],
        ),
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1"}}],
            ["n1"],
            ["no Node given for n1; made it with 256 CPUs, 4Ti of memory"],
        ),
        ([node()], [], ["no status.allocatable in Node n1; taken as 256 CPUs, 4Ti of memory"]),
    ],
)  # fmt: skip
def test_stand_ins(objects: list[dict[str, Any]], made: list[str], remarks: list[str]) -> None:
    found = Manifests()
    manifests = [manifest for item in objects for manifest in read_values(item, Source("f"), found)]
    nodes, said = stand_in_nodes(manifests)
    assert ([manifest.name for manifest in nodes], said) == (made, remarks)
    assert all(manifest.object["status"]["allocatable"] == SIZE for manifest in nodes)
    assert found.problems == []


def test_many_names_are_cut_short() -> None:
    found = Manifests()
    slices = [{**slice_of({"nodeName": f"n{i}"}), "metadata": {"name": f"s{i}"}} for i in range(9)]
    _, (remark,) = stand_in_nodes([manifest for item in slices for manifest in read_values(item, Source("f"), found)])
    assert remark.startswith("no Node given for n0, n1, n2, n3, n4 and 4 more; made them")
