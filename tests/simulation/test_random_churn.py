"""Random lives in which classes and devices change under the claims: nothing is doubled, and when the changes end so do the restarts."""

from __future__ import annotations

from random import Random

import pytest

from dra_operator.engine.decisions import EvictPod
from tests.engine.stage import GPU, Object, Stage, claim, device_class, gpus, node, policy, template, workload

MEMORIES = (40, 40, 80, 80)


def at_least(memory: int) -> Object:
    return device_class("mem", f'device.driver == "{GPU}" && device.attributes["{GPU}"].memory >= {memory}')


def slice_of(number: int, generation: int = 1) -> Object:
    found = gpus(f"n{number}", 3, memory=MEMORIES[number])
    found["spec"]["pool"]["generation"] = generation
    return found


def taint(number: int, effect: str) -> Object:
    selector = {"driver": GPU, "pool": f"n{number}", "device": "gpu-0"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"t{number}"},
        "spec": {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}},
    }


def budget(app: str) -> Object:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}}
    metadata = {"name": app, "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def change(stage: Stage, random: Random, gone: set[int], generation: int) -> None:
    """One thing of those that happen to classes and devices."""
    number = random.randrange(len(MEMORIES))
    match random.randrange(6):
        case 0:
            stage.apply(at_least(random.choice((20, 40, 80))))
        case 1 if number not in gone and len(gone) < 2:
            stage.delete("ResourceSlice", f"n{number}-gpus")
            gone.add(number)
        case 2 if gone:
            back = gone.pop()
            stage.apply(slice_of(back, generation))
        case 3:
            stage.apply(taint(number, random.choice(("NoSchedule", "NoExecute"))))
        case 4 if stage.get("DeviceTaintRule", f"t{number}") is not None:
            stage.delete("DeviceTaintRule", f"t{number}")
        case 5 if number not in gone:
            stage.apply(slice_of(number, generation))
        case _:
            stage.runner.kill()


def evictions(stage: Stage) -> int:
    done = [each for each in stage.runner.executed if each.response is not None and each.response.ok]
    return sum(1 for each in done if isinstance(each.decision, EvictPod) and not each.decision.dry_run)


@pytest.mark.parametrize("seed", range(12))
def test_changes_end_and_so_do_restarts(seed: int) -> None:
    random = Random(seed)
    stage = Stage(*(node(f"n{number}") for number in range(len(MEMORIES))), at_least(40), template(of="mem"))
    stage.apply(policy(onClassChange="Reallocate"), *(slice_of(number) for number in range(len(MEMORIES))))
    stage.apply(*(claim(f"bare-{number}", of="mem") for number in range(2)))
    for app in ("a", "b"):
        stage.apply(budget(app), workload("Deployment", app, random.choice((1, 2))))
    stage.run(10)
    gone: set[int] = set()
    for generation in range(2, 14):
        change(stage, random, gone, generation)
        stage.run(random.choice((0.2, 3.0, 30.0)))
        taken = stage.taken()
        assert len(taken) == len(set(taken)), f"seed {seed}: a device is in two allocations"
    stage.run(600)
    before = evictions(stage)
    stage.run(900)

    assert evictions(stage) == before, f"seed {seed}: pods are restarted although nothing changes"
    for name, phase in stage.phases().items():
        assert phase != "Lost" or "stays where it is" in str(stage.report(name)["explanation"]), f"seed {seed}: {name}"
