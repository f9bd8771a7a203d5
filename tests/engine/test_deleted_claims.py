"""Somebody deletes a claim that was allocated for a pod which is not bound yet: nobody can use its devices, so they are taken back."""

from __future__ import annotations

import pytest

from tests.engine.gangs import LABEL, group
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, template, workload

WORLD = (node("n1"), gpus("n1", 3), device_class(), template())


def gang_of(name: str, members: int) -> Object:
    item = workload("Job", "w", members)
    item["spec"]["template"]["metadata"]["labels"][LABEL] = name
    return item


def without_last(count: int, *objects: Object) -> Stage:
    """So many claims are allocated, and the last of them is deleted before its pod has lost the gate."""
    stage = Stage(*WORLD, *objects)
    names: list[str] = []

    def allocated() -> bool:
        held = [
            item["metadata"]["name"]
            for item in stage.objects("ResourceClaim")
            if stage.devices(item["metadata"]["name"])
        ]
        names.extend(name for name in held if name not in names)
        return len(names) == count

    stage.until(allocated)
    stage.delete("ResourceClaim", names[-1])
    return stage


@pytest.mark.parametrize(
    ("objects", "count", "taken", "waiting"),
    [
        pytest.param([pod("p", templates=["gpu"])], 1, 1, 0, id="a generated claim is generated again"),
        pytest.param([claim("a"), pod("p", "a")], 1, 0, 1, id="a claim of its own is gone"),
        pytest.param(
            [claim("a"), claim("b"), pod("p", "a", "b")],
            2,
            0,
            1,
            id="and what other claims hold for the same pod is of no use",
        ),
        pytest.param([claim("a"), pod("p", "a"), claim("b"), pod("q", "b")], 2, 1, 1, id="other pods keep theirs"),
        pytest.param(
            [group("g", 2), gang_of("g", 3)],
            3,
            3,
            0,
            id="of a gang that can do without it",
        ),
    ],
)
def test_its_devices_do_not_stay_behind(objects: list[Object], count: int, taken: int, waiting: int) -> None:
    stage = without_last(count, *objects).run(120)
    assert len(stage.taken()) == taken
    assert len([item for item in stage.objects("Pod") if not item["spec"].get("nodeName")]) == waiting
    assert not [item for item in stage.objects("ResourceClaim") if item["metadata"].get("deletionTimestamp")]
