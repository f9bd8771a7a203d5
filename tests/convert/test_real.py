"""Converted objects on a real API server: all are taken as they are, and the document the dialect comes from gets its devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import eventually
from devcluster.control_plane import ControlPlane
from devcluster.pytest_plugin import Kubectl, Nodes
from dra_operator.cluster.rest import BY_KIND, OPERATOR_GROUP
from dra_operator.convert.conversion import Conversion
from tests.cli.test_convert import SEED, seed_manifests

pytestmark = pytest.mark.real

CASES = Path(__file__).parent / "cases"


def converted(values: list[Any]) -> list[dict[str, Any]]:
    flat = [item for value in values for item in (value["items"] if value["kind"] == "List" else [value])]
    conversion = Conversion(flat)
    return [dict(item) for index, value in enumerate(flat) for item in conversion.convert(index, value).objects]


@pytest.mark.parametrize("case", ["seed-dialect", "versions", "plugins"])
def test_the_api_server_takes_them(case: str, control_plane: ControlPlane, namespace: str) -> None:
    values = list(yaml.safe_load_all((CASES / f"{case}.yaml").read_text()))
    taken = 0
    for item in converted(values):
        resource = BY_KIND.get(item["kind"])
        if resource is None or resource.group == OPERATOR_GROUP:
            continue
        metadata = {**item["metadata"], "namespace": namespace} if resource.namespaced else item["metadata"]
        path = f"{resource.path(namespace)}?dryRun=All&fieldValidation=Strict"
        control_plane.client.post(path, {**item, "metadata": metadata})
        taken += 1
    assert taken > 5


@pytest.mark.skipif(not SEED.is_dir(), reason="no shared data")
def test_the_document_gets_its_devices(control_plane: ControlPlane, nodes: Nodes, kubectl: Kubectl) -> None:
    """On the only node, whose two A100s the classes of the document describe; kube-scheduler is the allocator here."""
    (node,) = nodes("cpu:1")
    text = seed_manifests().replace("nodeName: node-a", f"nodeName: {node}")
    objects = [item for item in converted(list(yaml.safe_load_all(text))) if item["kind"] != "NetworkDeviceClass"]
    cluster_scoped = [item for item in objects if item["kind"] in ("DeviceClass", "ResourceSlice")]
    try:
        kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))

        def allocated() -> Any:
            path = "{.status.allocation.devices.results[0]['driver','pool','device']}"
            return kubectl("get", "resourceclaim", "training-gpu-0", "-o", f"jsonpath={path}").split()

        found = eventually(lambda: allocated() if len(allocated()) == 3 else None, what="training-gpu-0 is allocated")
        assert found[:2] == ["legacy.dra-operator.dev", node]
        assert found[2] in ("gpu-0", "gpu-1")
    finally:
        kubectl("delete", "--wait=false", "-f", "-", input=yaml.safe_dump_all(cluster_scoped))
