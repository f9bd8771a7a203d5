"""The field types in the repository are those the API server publishes."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from devcluster import ControlPlane
from devcluster.fieldtypes import field_types

pytestmark = pytest.mark.real


def test_field_types_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    kept = json.loads(files("dra_operator.api").joinpath("fieldtypes.json").read_text())
    assert field_types(control_plane.client.get) == kept
