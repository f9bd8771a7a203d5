"""Every scenario in virtual time on the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.engine.decisions import EvictPod
from tests.engine.stage import Stage
from tests.scenarios.story import Check, Step, Story, stories


@pytest.mark.parametrize("story", stories(), ids=lambda story: story.name)
def test_scenario(story: Story) -> None:
    stage = Stage(*story.given)
    start = stage.world.now
    moments: list[tuple[float, int, Step | Check]] = [(step.at, 0, step) for step in story.steps]
    moments += [(check.at, 1, check) for check in story.checks]
    for at, _, what in sorted(moments, key=lambda moment: moment[:2]):
        stage.world.run_until(start + at)
        if isinstance(what, Step):
            do(stage, what)
        else:
            assert seen(stage, what) == what.expected, f"{story.told} (at {at:g} s)"


def do(stage: Stage, step: Step) -> None:
    stage.apply(*step.objects)
    for kind, name in step.delete:
        stage.delete(kind, name)
    for name, off in step.cordon:
        stage.patch("Node", name, {"spec": {"unschedulable": off or None}})
    for name, replicas in step.scale:
        stage.patch("Deployment", name, {"spec": {"replicas": replicas}})


def seen(stage: Stage, check: Check) -> dict[str, Any]:
    """What is there, in the form of what is expected; a text expected somewhere in a summary is echoed if it is."""
    expected = check.expected
    found: dict[str, Any] = {}
    namespaces = {item["metadata"]["name"]: item["metadata"]["namespace"] for item in stage.objects("ResourceClaim")}
    if "pods" in expected:
        there = {
            item["metadata"]["name"]: item
            for item in stage.objects("Pod")
            if not item["metadata"].get("deletionTimestamp")
        }
        found["pods"] = {
            name: "gone" if name not in there else there[name]["spec"].get("nodeName") or "waiting"
            for name in expected["pods"]
        }
    if "running" in expected:
        labels = [
            item["metadata"]["labels"].get("app") for item in stage.objects("Pod") if item["spec"].get("nodeName")
        ]
        found["running"] = {app: labels.count(app) for app in expected["running"]}
    if "claims" in expected:
        found["claims"] = {name: stage.phases().get(name, "no report") for name in expected["claims"]}
    if "why" in expected:
        found["why"] = {}
        for name, text in expected["why"].items():
            summary = stage.report(name, namespaces[name]).get("explanation", {}).get("summary", "")
            found["why"][name] = text if text in summary else summary
    if "position" in expected:
        queues = {name: stage.report(name, namespaces[name])["queue"] for name in expected["position"]}
        found["position"] = {name: queue.get("position") for name, queue in queues.items()}
    if "devices" in expected:
        found["devices"] = {name: stage.devices(name, namespaces.get(name, "default")) for name in expected["devices"]}
    if "evicted" in expected:
        done = [each.decision for each in stage.runner.executed if each.response is not None and each.response.ok]
        found["evicted"] = [item.pod.name for item in done if isinstance(item, EvictPod) and not item.dry_run]
    if "events" in expected:
        found["events"] = {reason: len(stage.events(reason)) for reason in expected["events"]}
    return found
