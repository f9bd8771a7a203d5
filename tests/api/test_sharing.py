"""What many objects have in common is in memory once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from dra_operator.api.claims import ResourceClaim
from dra_operator.api.core import Node, Pod
from dra_operator.api.sharing import LIMIT, Sharing, packed, shared_texts
from dra_operator.api.slices import ResourceSlice, attribute_value

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "a", "hash": "77"}},
    "spec": {
        "nodeName": "node-1.example.com",
        "nodeSelector": {"zone": "a"},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one gpu"}],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    },
    "status": {"phase": "Running"},
}
NODE: dict[str, Any] = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}}}
CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "ns", "finalizers": ["resource.kubernetes.io/delete-protection"]},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", "driver": "d.example.com", "pool": "node 1", "device": "gpu 0"}]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node 1"]}]}
                ]
            },
        }
    },
}
SLICE: dict[str, Any] = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.example.com", "nodeName": "node 1", "pool": {"name": "node 1", "generation": 1},
        "devices": [{
            "name": "gpu 0", "capacity": {"memory": {"value": "80Gi"}},
            "attributes": {"model": {"string": "some model"}, "driverVersion": {"version": "1.2.3"}},
        }],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "item", "paths"),
    [
        (Pod.from_dict, POD, ["meta.namespace", "meta.labels", "node_name", "node_selector", "claims", "tolerations",
                              "requests", "phase", "scheduler_name"]),
        (Node.from_dict, NODE, ["allocatable"]),
        (ResourceClaim.from_dict, CLAIM, ["meta.finalizers", "spec", "allocation.node_selector", "allocation.results.0.pool"]),
        (ResourceSlice.from_dict, SLICE, ["driver", "pool", "devices.0.name", "devices.0.capacity",
                                          "devices.0.attributes.model", "devices.0.attributes.driverVersion"]),
    ],
    ids=["Pod", "Node", "ResourceClaim", "ResourceSlice"],
)  # fmt: skip
def test_two_objects_of_a_kind_share(read: Any, item: dict[str, Any], paths: list[str]) -> None:
    one, other = (read(orjson.loads(orjson.dumps(item))) for _ in range(2))
    for path in paths:
        assert at(one, path) is at(other, path), path


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdigit() else value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(
    ("read", "item"), [(Pod.from_dict, POD), (Node.from_dict, NODE), (ResourceClaim.from_dict, CLAIM)]
)
def test_the_key_of_an_object_is_made_once(read: Any, item: dict[str, Any]) -> None:
    one = read(item)
    assert one.meta.key is one.meta.key
    assert (one.meta.namespace, one.meta.name) == one.meta.key
    other = one.meta.renamed("other")
    assert other.key == (one.meta.namespace, "other")
    assert one.meta.name == item["metadata"]["name"]


def test_what_is_no_text_is_left_as_it_is() -> None:
    odd = {"a": 1, "b": None}
    assert shared_texts(odd) is odd
    assert dict(shared_texts({"a": "1"})) == {"a": "1"}
    assert dict(shared_texts({"a": "1", "b": "2"})) == dict(shared_texts({"b": "2", "a": "1"}))


def test_ever_new_values_do_not_pile_up() -> None:
    sharing = Sharing()
    for number in range(3 * LIMIT):
        sharing.get(number, object)
    assert len(sharing) <= LIMIT


def test_packed_text_takes_no_more_than_it_needs() -> None:
    value = {"some": ["text", 1, None]}
    assert orjson.loads(packed(value)) == value
    assert packed(value).__sizeof__() < len(packed(value)) + 64


def test_numbers_and_truths_in_lists_are_told_apart() -> None:
    """Equal in Python, but not the same attribute values."""
    assert repr(attribute_value({"ints": [1]})) == "(1,)"
    assert repr(attribute_value({"bools": [True]})) == "(True,)"


@pytest.mark.parametrize(("kind", "once"), [("ReplicaSet", True), ("Pod", False)])
def test_what_a_single_pod_is_called_is_not_remembered_for_others(kind: str, once: bool) -> None:
    """One that comes and goes every tenth of a second would have the interpreter's table of texts grow."""
    named = {"kind": kind, "name": "web 1", "uid": "uid web 1"}

    def read() -> ResourceClaim:
        item: dict[str, Any] = orjson.loads(orjson.dumps(CLAIM))
        item["metadata"]["ownerReferences"] = [dict(named)]
        item["status"]["reservedFor"] = [{"resource": "pods", "name": "web 1", "uid": "uid web 1"}]
        claim: ResourceClaim = ResourceClaim.from_dict(orjson.loads(orjson.dumps(item)))
        return claim

    first, second = read(), read()
    assert first.meta.owners == second.meta.owners
    assert (first.meta.owners[0].uid is second.meta.owners[0].uid) == once
    assert (first.meta.owners[0].name is second.meta.owners[0].name) == once
    assert first.reserved_for == second.reserved_for
    assert first.reserved_for[0].uid is not second.reserved_for[0].uid
    assert first.reserved_for[0].resource is second.reserved_for[0].resource
