"""Devices that pods have from device plugins, and those that they have by a claim after all."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.core import Node, Pod
from dra_operator.queue.pluginuse import PluginUse

GPU, NIC = "example.com/gpu", "example.com/nic"
PLUGGED = {"n1": Node.from_dict({"metadata": {"name": "n1"}, "status": {"allocatable": {GPU: "8", NIC: "2"}}})}
BARE = {"n1": Node.from_dict({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}})}


def pod(limits: dict[str, str], *claimed: str, name: str = "p") -> Pod:
    """`claimed`: the resources that the scheduler made a claim for."""
    status: dict[str, Any] = {}
    if claimed:
        mappings = [{"containerName": "c", "resourceName": each, "requestName": "r"} for each in claimed]
        status["extendedResourceClaimStatus"] = {"resourceClaimName": "made", "requestMappings": mappings}
    return Pod.from_dict(
        {
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": status,
        }
    )


@pytest.mark.parametrize(
    ("limits", "claimed", "nodes", "counts"),
    [
        ({GPU: "2"}, (), PLUGGED, {GPU: 2, NIC: 0}),
        ({GPU: "2", "cpu": "4"}, (), BARE, {GPU: 0}),
        ({GPU: "2"}, (GPU,), PLUGGED, {GPU: 0}),
        ({GPU: "2", NIC: "1"}, (GPU,), PLUGGED, {GPU: 0, NIC: 1}),
    ],
)
def test_what_counts(
    limits: dict[str, str], claimed: tuple[str, ...], nodes: dict[str, Node], counts: dict[str, int]
) -> None:
    use = PluginUse()
    use.runs(pod(limits, *claimed), "n1")
    assert {name: sum(share.devices for share in use.of(name, nodes)) for name in counts} == counts


def test_a_claim_that_is_told_of_later_counts_from_then_on() -> None:
    use = PluginUse()
    use.runs(pod({GPU: "2"}), "n1")
    version = use.version
    use.runs(pod({GPU: "2"}), "n1")
    assert use.version == version
    use.runs(pod({GPU: "2"}, GPU), "n1")
    assert list(use.of(GPU, PLUGGED)) == []
    assert use.version > version


def test_what_ends_is_free() -> None:
    use = PluginUse()
    use.runs(pod({GPU: "2"}), "n1")
    use.ends("uid-p")
    assert list(use.of(GPU, PLUGGED)) == []
