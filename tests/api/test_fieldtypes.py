"""Shapes of objects: what a decoder refuses, and fields that a kind does not have."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.fieldtypes import check_fields
from dra_operator.cluster.rest import OPERATOR_GROUP, RESOURCES


def pod(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}, []),
        ({"nodeName": None, "containers": []}, []),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "web"}}}]}, []),
        ([], ["spec: expected a mapping, found a list"]),
        ({"nodeName": 5}, ["spec.nodeName: expected text, found the number 5; put it in quotes"]),
        ({"nodeSelector": {"a": True}}, ["spec.nodeSelector[a]: expected text, found the boolean true; put it in quotes"]),
        ({"hostNetwork": "yes"}, ["spec.hostNetwork: expected true or false, found the text 'yes'; write it without quotes"]),
        ({"priority": 2**31}, ["spec.priority: expected a whole number of 32 bits, found the number 2147483648"]),
        ({"priority": 1.5}, ["spec.priority: expected a whole number of 32 bits, found the number 1.5"]),
        ({"activeDeadlineSeconds": "60"}, ["spec.activeDeadlineSeconds: expected a whole number of 64 bits, found the text '60'; write it without quotes"]),
        ({"containers": {}}, ["spec.containers: expected a list, found a mapping"]),
        ({"containers": [None, {"name": 1}]}, ["spec.containers[0]: is empty; fill it in or take it out", "spec.containers[1].name: expected text, found the number 1; put it in quotes"]),
        ({"overhead": {"cpu": "much"}}, ["spec.overhead[cpu]: expected a quantity such as 500m or 40Gi, found the text 'much'"]),
    ],
)  # fmt: skip
def test_errors(spec: Any, errors: list[str]) -> None:
    found = check_fields("", "v1", "Pod", pod(spec))
    assert [str(error) for error in found.errors] == errors
    assert found.unknown == []


def test_unknown_fields_get_a_hint() -> None:
    found = check_fields("", "v1", "Pod", pod({"resourceClaim": [], "containers": [{"name": "c", "zzz": 1}]}))
    assert [str(error) for error in found.unknown] == [
        "spec.resourceClaim: is not known; did you mean resourceClaims?",
        "spec.containers[0].zzz: is not known",
    ]
    assert found.errors == []


def test_times_and_anything() -> None:
    meta = {"creationTimestamp": "yesterday", "managedFields": [{"fieldsV1": {"f:spec": {}}}]}
    found = check_fields("", "v1", "Node", {"metadata": meta})
    assert [error.path for error in found.errors] == ["metadata.creationTimestamp"]


def test_schemas_that_nest_without_end_are_cut_off() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"metadata": {"annotations": {}}, "spec": {"template": deep}}
    assert check_fields("apps", "v1", "Deployment", deep).errors == []


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_every_kind_but_our_own_is_known(resource: Any) -> None:
    found = check_fields(resource.group, resource.version, resource.kind, {"metadata": [], "nonsense": 1})
    assert bool(found.errors) == (resource.group != OPERATOR_GROUP)
