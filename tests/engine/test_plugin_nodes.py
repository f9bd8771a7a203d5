"""Nodes that a device plugin serves as well: their devices are left to it, as long as it is there, for classes that say so."""

from __future__ import annotations

from typing import Any

from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod

RESOURCE = "nvidia.com/gpu"
TOLERATION = {"key": "dra-operator.dev/device-plugin", "operator": "Exists"}


def annotated(name: str = "gpu") -> Object:
    made = device_class(name)
    made["metadata"]["annotations"] = {"dra-operator.dev/plugin-resource": RESOURCE}
    return made


def offering(name: str, count: int) -> Object:
    """A node whose kubelet has so many from a device plugin."""
    made = node(name)
    for field in ("capacity", "allocatable"):
        made["status"][field] = {**made["status"][field], RESOURCE: str(count)}
    return made


def stage(*more: Object) -> Stage:
    return Stage(offering("a-plugin", 2), node("b-dra"), gpus("a-plugin", 2), gpus("b-dra", 1), *more)


def test_the_devices_of_a_node_with_a_plugin_are_left_to_it() -> None:
    stage_ = stage(annotated(), claim("one"), pod("one", "one"), claim("two"), pod("two", "two")).run(10)
    assert stage_.taken() == ["b-dra/gpu-0"]
    (waiting,) = [name for name in ("one", "two") if not stage_.devices(name)]
    assert "2 have taints" in stage_.report(waiting)["explanation"]["summary"]
    assert "dra-operator.dev/device-plugin=nvidia.com_gpu" in str(stage_.report(waiting)["explanation"])


def test_they_are_free_once_the_plugin_is_gone() -> None:
    stage_ = stage(annotated(), claim("both", 2), pod("both", "both")).run(10)
    assert stage_.devices("both") == []
    status: dict[str, Any] = {"allocatable": {RESOURCE: "0"}, "capacity": {RESOURCE: "0"}}
    stage_.send("PATCH", "Node", "a-plugin", {"status": status}, sub="status")
    stage_.run(10)
    assert stage_.devices("both") == ["a-plugin/gpu-0", "a-plugin/gpu-1"]


def test_what_is_allocated_there_already_stays() -> None:
    stage_ = Stage(node("a"), gpus("a", 2), annotated(), claim("one"), pod("one", "one")).run(10)
    stage_.send("PATCH", "Node", "a", {"status": {"allocatable": {RESOURCE: "2"}}}, sub="status")
    stage_.apply(claim("two"), pod("two", "two"))
    stage_.run(10)
    assert stage_.devices("one") == ["a/gpu-0"]
    assert stage_.devices("two") == []


def test_without_the_annotation_nothing_is_left_out() -> None:
    assert stage(device_class(), claim("both", 2), pod("both", "both")).run(10).devices("both") == [
        "a-plugin/gpu-0", "a-plugin/gpu-1",
    ]  # fmt: skip


def test_an_annotation_put_on_later_counts_from_then_on() -> None:
    stage_ = stage(device_class()).run(10)
    stage_.apply(annotated())
    stage_.run(1)
    stage_.apply(claim("both", 2), pod("both", "both"))
    assert stage_.run(10).devices("both") == []


def test_a_request_that_tolerates_it_gets_them() -> None:
    wanted = claim("both", 2)
    wanted["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [TOLERATION]
    assert stage(annotated(), wanted, pod("both", "both")).run(10).devices("both") == [
        "a-plugin/gpu-0", "a-plugin/gpu-1",
    ]  # fmt: skip


def test_a_pod_that_outlives_the_plugin_keeps_its_node_out() -> None:
    user = pod("user")
    user["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: "2"}
    stage_ = Stage(offering("a", 2), gpus("a", 2), annotated(), user).run(10)
    assert stage_.bound() == {"user": "a"}
    stage_.send("PATCH", "Node", "a", {"status": {"allocatable": {RESOURCE: "0"}}}, sub="status")
    stage_.apply(claim("both", 2), pod("both", "both"))
    assert stage_.run(10).devices("both") == []
    stage_.delete("Pod", "user")
    assert stage_.run(10).devices("both") == ["a/gpu-0", "a/gpu-1"]
