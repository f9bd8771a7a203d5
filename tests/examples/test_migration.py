"""`examples/migration` plays as its README tells: no device in two hands, node-b changes over, an unchanged pod is served by DRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dra_operator.cli.simulation import play_files, result
from tests.cli.commands import call, data

MIGRATION = Path(__file__).parents[2] / "examples" / "migration"


def after(seconds: float) -> dict[str, Any]:
    run = play_files([str(MIGRATION)], until=seconds)
    assert not run.bad
    return result(run)


def test_side_by_side() -> None:
    found = after(50)
    assert {pod["name"]: pod["node"] for pod in found["pods"] if pod["name"].startswith("chat")} == {
        "chat-0": "node-a", "chat-1": "node-b",
    }  # fmt: skip
    claims = [claim["node"] for claim in found["claims"]]
    assert sorted(map(str, claims)) == ["None", "node-c", "node-c"], "claims keep off the plugin's nodes"


def test_node_b_changes_over() -> None:
    found = after(180)
    nodes = {pod["name"]: pod["node"] for pod in found["pods"]}
    assert (nodes["chat-0"], nodes["chat-1"], nodes["batch"]) == ("node-a", "node-d", "node-b")
    by_node: dict[str, list[str]] = {}
    for claim in found["claims"]:
        by_node.setdefault(claim["node"], []).extend(device["device"] for device in claim["devices"])
    assert {node: len(set(devices)) for node, devices in by_node.items()} == {"node-b": 4, "node-c": 4}
    assert sum(map(len, by_node.values())) == 8
    assert any(claim["name"].startswith("batch-extended-resources") for claim in found["claims"])


def test_the_plan_names_what_is_in_the_way_here() -> None:
    plan = data("migrate", "plan", "-f", MIGRATION)
    assert {node["name"]: node["mode"] for node in plan["nodes"]} == {
        "node-a": "both", "node-b": "both", "node-c": "dra", "node-d": "plugin",
    }  # fmt: skip
    assert [(risk["phase"], risk["code"], risk["object"]) for risk in plan["risks"] if risk["level"] == "blocks"] == [
        (3, "Shared", "Deployment serving/preview")
    ]


def test_what_is_generated_is_what_the_example_applies() -> None:
    made = [
        item for item in yaml.safe_load_all(call("migrate", "generate", "--phase", "2", "-f", MIGRATION).stdout) if item
    ]
    (shown,) = yaml.safe_load_all((MIGRATION / "phase-2" / "class.yaml").read_text())
    assert next(item for item in made if item["kind"] == "DeviceClass") == shown


def test_full_is_not_reached_here() -> None:
    done = call("migrate", "verify", "--phase", "3", "-f", MIGRATION)
    assert done.returncode == 1
    assert "node node-a: 4 nvidia.com/gpu" in done.stdout
    assert call("migrate", "verify", "--phase", "1", "-f", MIGRATION).returncode == 0
