"""From one version of the CRDs to another and back, with objects that are stored already, on a real API server."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from devcluster import eventually
from dra_operator.api.policy import AllocationPolicy
from dra_operator.cluster.rest import ALLOCATION_POLICIES
from tests.manifests.impersonation import USER, Cluster

pytestmark = pytest.mark.real

CRD = Path(__file__).parents[2] / "crds" / "allocationpolicies.yaml"


def test_a_field_of_a_newer_version_is_dropped_and_the_rest_still_reads(cluster: Cluster) -> None:
    """As docs/install.md says of going back: apply the older manifest, and its operator reads what is stored."""
    ours: dict[str, Any] = YAML(typ="safe").load(CRD.read_text())
    newer = copy.deepcopy(ours)
    (version,) = newer["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    path = ALLOCATION_POLICIES.path("", "from-later")
    policy = {
        "apiVersion": ALLOCATION_POLICIES.api_version,
        "kind": ALLOCATION_POLICIES.kind,
        "metadata": {"name": "from-later"},
        "spec": {"priority": 7, "later": "on"},
    }

    def put(crd: dict[str, Any]) -> None:
        cluster.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(crd))

    def stored() -> dict[str, Any]:
        spec: dict[str, Any] = cluster.must(USER, "GET", path)["spec"]
        return spec

    def made() -> bool:
        status, answer = cluster.call(
            USER, "POST", f"{ALLOCATION_POLICIES.path()}?dryRun=All&fieldValidation=Strict", policy
        )
        return bool(status == 201 and answer["spec"].get("later") == "on")

    put(newer)
    try:
        eventually(made, what="the newer schema is in force")
        cluster.must(USER, "POST", ALLOCATION_POLICIES.path(), policy)
        assert stored()["later"] == "on"
    finally:
        put(ours)
    eventually(lambda: "later" not in stored(), what="the older schema is in force")
    assert AllocationPolicy.from_dict(cluster.must(USER, "GET", path)).spec.priority == 7
    cluster.must(USER, "DELETE", path)
