"""Converted objects on a real API server: all are taken as they are. (`tests/real/test_document.py` has them allocated.)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.control_plane import ControlPlane
from dra_operator.cluster.rest import BY_KIND, OPERATOR_GROUP
from dra_operator.convert.conversion import Conversion

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
