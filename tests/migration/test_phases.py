"""Risks found, phases made and taken back, checks that hold or do not: rows on small clusters."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.migration.phases import backward, forward
from dra_operator.migration.progress import checks, progress
from dra_operator.migration.risks import risks
from dra_operator.migration.survey import Survey, survey

Object = dict[str, Any]
GPU, CLASS = "nvidia.com/gpu", "gpu.nvidia.com"


def device_class(plugin: str = "", served: str = "", name: str = CLASS) -> Object:
    annotations = {"annotations": {"dra-operator.dev/plugin-resource": plugin}} if plugin else {}
    extended = {"extendedResourceName": served} if served else {}
    expression = "device.driver == 'gpu.nvidia.com'"
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name, "uid": "u", **annotations},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **extended},
    }  # fmt: skip


def node(name: str, offers: int = 0, publishes: int = 0, resource: str = GPU, **labels: str) -> list[Object]:
    amounts = {"cpu": "8", **({resource: str(offers)} if offers else {})}
    made: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts},
        }
    ]
    if publishes:
        spec = {
            "driver": CLASS, "nodeName": name, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(publishes)],
        }  # fmt: skip
        made.append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )
    return made


def pod(name: str, on: str = "", by_claim: bool = False, **limits: int) -> Object:
    resources = {
        "limits": {
            key.replace("_", "/", 1).replace("nvidia/", "nvidia.com/"): str(value) for key, value in limits.items()
        }
    }
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], **({"nodeName": on} if on else {})}
    status = {"phase": "Running", **({"extendedResourceClaimStatus": {"resourceClaimName": "x"}} if by_claim else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": spec,
        "status": status,
    }


def claim(name: str, on: str, count: int = 1) -> Object:
    results = [{"request": "r", "driver": CLASS, "pool": on, "device": f"gpu-{number}"} for number in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "team"},
        "spec": {"devices": {"requests": []}}, "status": {"allocation": {"devices": {"results": results}}},
    }  # fmt: skip


def codes(found: Survey) -> list[tuple[int, str, str]]:
    return [(risk.phase, risk.level, risk.code) for risk in risks(found)]


USER = pod("user", on="a", nvidia_gpu=2)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([*node("a", publishes=4), device_class()], [], id="DRA alone"),
        pytest.param([*node("a", 4, 4), device_class()], [(1, "blocks", "OfferedTwice")], id="both, and the class says nothing"),
        pytest.param([*node("a", 4, 4), device_class(GPU)], [], id="both, and the class says so"),
        pytest.param([*node("a", 4, 3), device_class(GPU)], [(1, "warns", "CountsDiffer")], id="plugin and driver do not agree"),
        pytest.param(
            [*node("a", 4, 4), device_class(GPU), claim("c", "a"), USER],
            [(1, "blocks", "InBothHands"), (2, "warns", "BarePod"), (2, "warns", "TooFewNodes")],
            id="used by both",
        ),
        pytest.param([*node("a", 4)], [(1, "blocks", "NoClass"), (2, "warns", "NoSlices")], id="no driver"),
        pytest.param(
            [*node("a", 4, 4), device_class(GPU, GPU), device_class("", GPU, "other")],
            [(2, "warns", "TwoClasses")],
            id="two classes for one resource",
        ),
        pytest.param(
            [pod("p", nvidia_gpu=1), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"dra-operator.dev/managed": "false"}}},
             *node("a", publishes=1), device_class(GPU)],
            [(2, "warns", "BarePod"), (2, "warns", "Exempt")],
            id="an exempt namespace",
        ),
    ],
)  # fmt: skip
def test_risks(objects: list[Object], expected: list[tuple[int, str, str]]) -> None:
    assert codes(survey(objects)) == expected


def test_a_pod_served_by_dra_does_not_use_the_plugin() -> None:
    found = survey([*node("a", publishes=4), device_class(GPU, GPU), pod("old", on="a", by_claim=True, nvidia_gpu=1)])
    assert found.nodes["a"].mode == "dra"


def test_a_pod_that_outlives_its_plugin_still_uses_the_node() -> None:
    found = survey([*node("a", publishes=4), device_class(GPU, GPU), pod("old", on="a", nvidia_gpu=1)])
    assert found.nodes["a"].mode == "both"
    assert [check.holds for check in checks(found, 3)] == [True, False, True]


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_a_phase_applied_again_changes_nothing(phase: int) -> None:
    cluster = [*node("a", 4, 4), *node("b", publishes=4), device_class()]
    step = forward(survey(cluster), phase)
    again = forward(survey([*cluster[:-1], *(item for item in step.objects if item["kind"] == "DeviceClass")]), phase)
    assert again.objects == step.objects


@pytest.mark.parametrize("phase", [1, 2])
def test_a_phase_is_taken_back(phase: int) -> None:
    """To the classes of the phase before; what was made anew is deleted."""
    cluster = [*node("a", 4, 4), device_class()]
    for number in range(1, phase + 1):
        before = [item for item in cluster if item["kind"] == "DeviceClass"]
        step = forward(survey(cluster), number)
        cluster = [*node("a", 4, 4), *(item for item in step.objects if item["kind"] == "DeviceClass")]
    back = backward(survey(cluster), phase)
    (restored,) = [item for item in back.objects if item["kind"] == "DeviceClass"]
    assert restored["spec"] == before[0]["spec"]
    assert restored["metadata"].get("annotations") == before[0]["metadata"].get("annotations")
    made = {
        f"{item['kind'].lower()}/{item['metadata']['name']}" for item in step.objects if item["kind"] != "DeviceClass"
    }
    assert made - {"devicetaintrule/device-plugin-a"} <= set(back.delete)


def test_progress_by_namespace() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"dra-operator.dev/devices": "dra"}},
    }
    found = survey([*node("a", publishes=4), device_class(GPU), namespace, pod("p", nvidia_gpu=2), claim("c", "a")])
    assert [(item.name, item.asked, item.claims, item.follows) for item in progress(found)] == [("team", 2, 1, True)]
    assert not all(check.holds for check in checks(found, 2))


def test_every_pool_of_a_node_is_left_to_the_plugin() -> None:
    one, published = node("a", 4, 2)
    other = {
        "metadata": {"name": "more"},
        "spec": {**published["spec"], "pool": {**published["spec"]["pool"], "name": "b"}},
    }
    found = survey([one, published, {**published, **other}, device_class(GPU)])
    rules = [item for item in forward(found, 1).objects if item["kind"] == "DeviceTaintRule"]
    assert {item["metadata"]["name"]: item["spec"]["deviceSelector"]["pool"] for item in rules} == {
        "device-plugin-a": "a", "device-plugin-a-1": "b",
    }  # fmt: skip
    assert [name for name in forward(found, 3).delete if "taint" in name] == [
        "devicetaintrule/device-plugin-a", "devicetaintrule/device-plugin-a-1",
    ]  # fmt: skip
