"""What lint says the API server refuses, a real API server refuses; what lint has nothing against, it takes."""

from __future__ import annotations

import pytest
import yaml

from devcluster.client import ApiError, Client
from devcluster.control_plane import ControlPlane
from dra_operator.cluster.rest import BY_KIND, OPERATOR_GROUP
from tests.lint.test_rules import ALONE

pytestmark = pytest.mark.real

#: Codes of what the API server itself refuses.
REFUSED = frozenset(
    {
        "attribute-value", "bad-version", "duplicate-name", "invalid-value", "missing-field", "old-dialect", "over-limit",
        "selector-does-not-compile", "selector-too-expensive", "slice-place", "unknown-field", "unknown-pod-claim",
        "unknown-request", "unsupported-value", "wrong-type",
    }
)  # fmt: skip
#: What depends on the namespace in the cluster.
ELSEWHERE = "adminAccess"


def takes(client: Client, namespace: str, text: str) -> bool:
    value = list(yaml.safe_load_all(text))[-1]
    resource = BY_KIND[value["kind"]]
    metadata = dict(value["metadata"])
    if resource.namespaced:
        metadata["namespace"] = namespace
    path = f"{resource.path(namespace)}?dryRun=All&fieldValidation=Strict"
    try:
        client.post(path, {**value, "metadata": metadata})
    except ApiError as error:
        if error.status not in (400, 422):
            raise
        return False
    return True


def test_agreement_with_the_api_server(control_plane: ControlPlane, namespace: str) -> None:
    differing, asked = [], 0
    for text, wanted in ALONE:
        value = list(yaml.safe_load_all(text))[-1]
        resource = BY_KIND.get(value.get("kind"))
        if resource is None or value.get("apiVersion") != resource.api_version or resource.group == OPERATOR_GROUP:
            continue
        if ELSEWHERE in text or not value.get("metadata"):
            continue
        codes = {part.split()[0] for part in wanted.split("; ") if part}
        asked += 1
        if takes(control_plane.client, namespace, text) == bool(codes & REFUSED):
            differing.append((wanted, text))
    assert differing == []
    assert asked > 60
