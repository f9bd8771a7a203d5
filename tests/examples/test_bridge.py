"""`examples/bridge` plays as its README tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dra_operator.cli.simulation import play_files, result
from dra_operator.cluster.rest import PODS

BRIDGE = Path(__file__).parents[2] / "examples" / "bridge"


def after(seconds: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    run = play_files([str(BRIDGE)], until=seconds)
    assert not run.bad
    return result(run), run.store.listed(PODS)


def test_one_runs_beside_the_old_pod_the_other_after_it() -> None:
    found, pods = after(50)
    nodes = {pod["name"].split("-")[0]: [] for pod in found["pods"]}
    for pod in found["pods"]:
        nodes[pod["name"].split("-")[0]].append(pod["node"])
    assert nodes["old"] == ["a100-0"]
    assert sorted(map(str, nodes["training"])) == ["None", "a100-0"]
    (waiting,) = [claim for claim in found["claims"] if not claim["devices"]]
    assert "not enough nvidia.com/gpu (needs 2, most free 0)" in waiting["reason"]
    limits = [
        pod["spec"]["containers"][0]["resources"].get("limits") for pod in pods if pod["metadata"]["name"] != "old"
    ]
    assert limits == [{"nvidia.com/gpu": "2"}] * 2
    found, _ = after(180)
    assert {pod["node"] for pod in found["pods"]} == {"a100-0"}
    taken = [(device["pool"], device["device"]) for claim in found["claims"] for device in claim["devices"]]
    assert len(set(taken)) == len(taken) == 4


def test_the_class_is_the_one_of_the_manifests() -> None:
    text = (BRIDGE.parents[1] / "manifests" / "bridge" / "classes.yaml").read_text()
    installed = {item["metadata"]["name"]: item["spec"] for item in yaml.safe_load_all(text)}
    for item in yaml.safe_load_all((BRIDGE / "cluster.yaml").read_text()):
        if item["kind"] == "DeviceClass":
            assert item["spec"] == installed[item["metadata"]["name"]]
