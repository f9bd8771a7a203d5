"""What is published of a node, and what is written as it changes: rows."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.slices import ResourceSlice
from dra_operator.bridge.limits import add_limits
from dra_operator.bridge.publishing import left_out, resources, slices
from dra_operator.bridge.reconciling import Write, wanted_writes

Object = dict[str, Any]
GFD = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "0",
}  # fmt: skip


def node(labels: Object | None = None, *, bridged: bool = True, **amounts: Any) -> Object:
    """`amounts`: allocatable, with `nvidia_com_gpu` for nvidia.com/gpu."""
    own = {"dra-operator.dev/bridge": "true"} if bridged else {}
    allocatable = {"cpu": "8", "hugepages-1Gi": "0", **{_resource(name): str(count) for name, count in amounts.items()}}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "labels": {**own, **(labels or {})}},
        "status": {"allocatable": allocatable},
    }  # fmt: skip


def _resource(name: str) -> str:
    return {"gpu": "nvidia.com/gpu", "tpu": "google.com/tpu", "mig": "nvidia.com/mig-1g.5gb"}.get(name, name)


@pytest.mark.parametrize(
    ("allocatable", "expected"),
    [
        ({}, {}),
        ({"nvidia.com/gpu": "8", "cpu": "8"}, {"nvidia.com/gpu": 8}),
        ({"nvidia.com/gpu": "0"}, {}),
        ({"nvidia.com/gpu": "1500m"}, {}),
        ({"node.kubernetes.io/x": "1", "kubernetes.io/y": "1"}, {}),
        ({"nvidia.com/gpu": "-1", "nvidia.com/tpu": "many", "a/b": "1e400"}, {"a/b": 10**400}),
        ({"nvidia.com/mig-1g.5gb": "7", "rdma/hca": "1k"}, {"nvidia.com/mig-1g.5gb": 7, "rdma/hca": 1000}),
    ],
)
def test_resources(allocatable: Object, expected: dict[str, int]) -> None:
    assert resources({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}) == expected


@pytest.mark.parametrize(
    ("given", "attributes", "capacity"),
    [
        (node(gpu=1), {"resource": "nvidia.com/gpu"}, {}),
        (
            node(GFD, gpu=1),
            {"resource": "nvidia.com/gpu", "productName": "NVIDIA-A100-SXM4-40GB", "architecture": "ampere", "cudaComputeCapability": "8.0.0"},
            {"memory": "40Gi"},
        ),
        (
            node(GFD, mig=1),
            {"resource": "nvidia.com/mig-1g.5gb", "profile": "1g.5gb", "productName": "NVIDIA-A100-SXM4-40GB", "architecture": "ampere", "cudaComputeCapability": "8.0.0"},
            {},
        ),
        (
            node({**GFD, "nvidia.com/mig-1g.5gb.product": "A100-MIG-1g.5gb", "nvidia.com/mig-1g.5gb.memory": "4864"}, mig=1),
            {"resource": "nvidia.com/mig-1g.5gb", "profile": "1g.5gb", "productName": "A100-MIG-1g.5gb", "architecture": "ampere", "cudaComputeCapability": "8.0.0"},
            {"memory": "4864Mi"},
        ),
        (
            node({"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "2x2x1"}, tpu=1),
            {"resource": "google.com/tpu", "accelerator": "tpu-v5p-slice", "topology": "2x2x1"},
            {},
        ),
        (node({**GFD, "nvidia.com/gpu.memory": "unknown", "nvidia.com/gpu.compute.major": "x", "nvidia.com/gpu.family": ""}, gpu=1),
         {"resource": "nvidia.com/gpu", "productName": "NVIDIA-A100-SXM4-40GB"}, {}),
    ],
    ids=["no labels", "labels", "mig, labels of the whole", "mig, labels of its own", "tpu", "labels that mean nothing"],
)  # fmt: skip
def test_attributes(given: Object, attributes: Object, capacity: Object) -> None:
    (spec,) = slices(given, 1)
    (device,) = spec["devices"]
    assert {name: next(iter(value.values())) for name, value in device["attributes"].items()} == attributes
    assert {name: value["value"] for name, value in device.get("capacity", {}).items()} == capacity
    ResourceSlice.from_dict({"metadata": {"name": "s"}, "spec": spec})


def test_nothing_of_a_node_that_has_not_opted_in() -> None:
    assert slices(node(bridged=False, gpu=4), 1) == []


def test_many_devices_take_several_slices_of_one_pool() -> None:
    specs = slices(node(gpu=200), 3)
    assert [len(spec["devices"]) for spec in specs] == [128, 72]
    assert {(spec["pool"]["generation"], spec["pool"]["resourceSliceCount"]) for spec in specs} == {(3, 2)}
    assert len({device["name"] for spec in specs for device in spec["devices"]}) == 200


@pytest.mark.parametrize(
    ("amounts", "devices", "left"),
    [
        ({"gpu": 8}, 8, []),
        ({"gpu": 8, "a/a": "2k"}, 2008, []),
        ({"gpu": 8, "a/a": 2040}, 2048, []),
        ({"gpu": 8, "a/a": 2041}, 8, ["2041 of a/a"]),
        ({"gpu": 8, "a/a": 10**8}, 8, ["100000000 of a/a"]),
        ({"gpu": 8, "a/a": "1e400", "b/b": "3k"}, 8, ["1e400 of a/a", "3k of b/b"]),
        ({"a/a": 1500, "b/b": 1500}, 1500, ["1500 of b/b"]),
    ],
)
def test_a_node_fills_no_more_than_a_pool_of_sixteen_slices(amounts: Object, devices: int, left: list[str]) -> None:
    """Whatever a plugin claims: the resources that fit are published, the others are named."""
    given = node(**amounts)
    assert sum(len(spec["devices"]) for spec in slices(given, 1)) == devices
    said = left_out(given)
    assert bool(said) == bool(left)
    for part in left:
        assert part in said
    assert not left or "node n offers" in said


def test_nothing_is_said_of_a_node_that_has_not_opted_in() -> None:
    assert left_out(node(bridged=False, gpu=10**8)) == ""


@pytest.mark.parametrize("names", [("a.b/c", "a-b/c"), (f"{'x' * 60}/a", f"{'x' * 60}/b")])
def test_devices_of_resources_with_like_names_have_names_of_their_own(names: tuple[str, str]) -> None:
    (spec,) = slices(node(**dict.fromkeys(names, 2)), 1)
    devices = [device["name"] for device in spec["devices"]]
    assert len(set(devices)) == 4
    assert max(map(len, devices)) <= 63


def test_where_kubelet_needs_no_plugin_the_devices_say_so() -> None:
    """An API server without the feature gate drops the field: that alone is no reason to write again."""
    given = node(gpu=1)
    assert "skipNodeOperations" not in slices(given, 1)[0]
    given["status"]["declaredFeatures"] = ["DRAOptionalNodeOperations"]
    (write,) = wanted_writes("n", given, [])
    assert write.body["spec"].pop("skipNodeOperations") == ["*"]
    assert wanted_writes("n", given, carried_out([write], [])) == []


# -- in step


def carried_out(writes: list[Write], published: list[Object]) -> list[Object]:
    """As the API server does."""
    found = {item["metadata"]["name"]: item for item in published}
    for write in writes:
        if write.action == "delete":
            del found[write.name]
        else:
            body = {**write.body, "metadata": {"uid": "s", "resourceVersion": "1", **write.body["metadata"]}}
            found[body["metadata"]["name"]] = body
    return list(found.values())


@pytest.mark.parametrize(
    ("before", "after", "actions"),
    [
        (None, node(gpu=2), ["create"]),
        (node(gpu=2), node(gpu=2), []),
        (node(gpu=2), node({"unrelated": "x"}, gpu=2), []),
        (node(gpu=2), node(gpu=3), ["replace"]),
        (node(gpu=2), node(GFD, gpu=2), ["replace"]),
        (node(gpu=2), node(gpu=200), ["create", "replace"]),
        (node(gpu=200), node(gpu=2), ["replace", "delete"]),
        (node(gpu=2), node(), ["delete"]),
        (node(gpu=2), node(bridged=False, gpu=2), ["delete"]),
        (node(gpu=2), None, ["delete"]),
        (None, node(bridged=False, gpu=2), []),
    ],
)
def test_what_is_written(before: Object | None, after: Object | None, actions: list[str]) -> None:
    published: list[Object] = [] if before is None else carried_out(wanted_writes("n", before, []), [])
    writes = wanted_writes("n", after, published)
    assert [write.action for write in writes] == actions
    left = carried_out(writes, published)
    assert wanted_writes("n", after, left) == [], "it settles"
    assert len({item["spec"]["pool"]["generation"] for item in left}) <= 1


def test_slices_of_others_are_never_touched() -> None:
    other = {
        "metadata": {"name": "x", "uid": "x"},
        "spec": {"driver": "gpu.nvidia.com", "pool": {"name": "n", "generation": 1}},
    }
    assert wanted_writes("n", None, [other]) == []


# -- limits


def pod(*containers: Object, **claims: str) -> Object:
    entries = [{"name": name, "resourceClaimTemplateName": template} for name, template in claims.items()]
    return {"metadata": {"name": "p"}, "spec": {"resourceClaims": entries, "containers": list(containers)}}


def container(*claims: str, **limits: str) -> Object:
    resources: Object = {"claims": [{"name": name} for name in claims]}
    return {"name": "c", "resources": {**resources, **({"limits": limits, "requests": dict(limits)} if limits else {})}}


TEMPLATE = {
    "metadata": {"name": "two", "labels": {"dra-operator.dev/bridge": "nvidia.com_gpu"}},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}]}}},
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pod(container("gpu"), gpu="two"), [{"nvidia.com/gpu": "2"}]),
        (pod(container("gpu", cpu="1"), gpu="two"), [{"cpu": "1", "nvidia.com/gpu": "2"}]),
        (pod(container(), container("gpu"), gpu="two"), [{}, {"nvidia.com/gpu": "2"}]),
        (pod(container("gpu"), container("gpu"), gpu="two"), [{"nvidia.com/gpu": "2"}, {}]),
        (pod(container("gpu"), gpu="other"), [{}]),
        (pod(container(), gpu="two"), [{}]),
    ],
    ids=[
        "a limit",
        "beside others",
        "the container that uses it",
        "the first of two",
        "another template",
        "used by none",
    ],
)
def test_limits(given: Object, expected: list[Object]) -> None:
    add_limits(given, [TEMPLATE])
    for field in ("limits", "requests"):
        assert [item["resources"].get(field, {}) for item in given["spec"]["containers"]] == expected
