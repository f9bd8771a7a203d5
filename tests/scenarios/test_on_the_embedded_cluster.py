"""Every scenario in virtual time on the embedded cluster."""

from __future__ import annotations

import random
import uuid

import pytest

from dra_operator.cluster.memory.registrar import Registrar
from dra_operator.engine.decisions import EvictPod
from tests.engine.stage import Object, Stage
from tests.scenarios.looking import seen
from tests.scenarios.story import Step, Story, stories

GATE = "dra-operator.dev/allocation"


@pytest.mark.parametrize("story", stories(), ids=lambda story: story.name)
def test_scenario(story: Story) -> None:
    play(story)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("story", [each for each in stories() if each.real], ids=lambda story: story.name)
def test_no_real_scenario_depends_on_uids(story: Story, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of one second are tried in the order of their uids, and a real API server draws those at random."""
    drawn = random.Random(seed)
    monkeypatch.setattr(Registrar, "_uid", lambda self, meta: str(uuid.UUID(int=drawn.getrandbits(128), version=4)))
    play(story, in_order=False)


def play(story: Story, *, in_order: bool = True) -> None:
    """`in_order`: evictions must come in the order written."""
    stage = Stage(*story.given)
    start = stage.world.now
    for what in story.moments:
        stage.world.run_until(start + what.at)
        if isinstance(what, Step):
            do(stage, what)
        else:
            found, expected = seen(Embedded(stage), what), what.expected
            if not in_order and "evicted" in expected:
                found, expected = ({**each, "evicted": sorted(each["evicted"])} for each in (found, expected))
            assert found == expected, f"{story.told} (at {what.at:g} s)"


def do(stage: Stage, step: Step) -> None:
    stage.apply(*step.objects)
    for kind, name in step.delete:
        stage.delete(kind, name, namespace=_namespace(stage, kind, name))
    for name, off in step.cordon:
        stage.patch("Node", name, {"spec": {"unschedulable": off or None}})
    for name in step.finish:
        body = {"status": {"phase": "Succeeded"}}
        stage.send("PATCH", "Pod", name, body, namespace=_namespace(stage, "Pod", name), sub="status")
    for name in step.ungate:
        body = {"spec": {"schedulingGates": [{"name": GATE}]}}
        stage.patch("Pod", name, body, namespace=_namespace(stage, "Pod", name))
    for name, replicas in step.scale:
        stage.patch("Deployment", name, {"spec": {"replicas": replicas}})
    if step.restart:
        stage.runner.kill()


def _namespace(stage: Stage, kind: str, name: str) -> str:
    """Names are used once in a story."""
    metadata = (item["metadata"] for item in stage.objects(kind))
    return next((each.get("namespace") or "default" for each in metadata if each["name"] == name), "default")


class Embedded:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def objects(self, kind: str) -> list[Object]:
        return self._stage.objects(kind)

    def evicted(self) -> list[str]:
        executed = self._stage.runner.executed
        done = [each.decision for each in executed if each.response is not None and each.response.ok]
        return [item.pod.name for item in done if isinstance(item, EvictPod) and not item.dry_run]

    def events(self, reason: str) -> int:
        return len(self._stage.events(reason))

    def tries(self, pod: str) -> int:
        units = self._stage.engines[-1]._state.units
        return next(unit.attempts for key, unit in units.items() if key.subject.name == pod)
