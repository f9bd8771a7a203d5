"""Pods that share a claim can run on the node of its devices or nowhere."""

from __future__ import annotations

import pytest

from dra_operator.api.meta import Key
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, policy

DEVICES = (gpus("n1", 2), gpus("n2", 2), device_class(), claim("shared"))
WAITS = (
    "pod default/b waits: the pod cannot run there: 1 node: not enough cpu (needs 1, most free 0); claim default/shared is used by "
    "pod a as well and stays on node n1: make room for the pod there, or end pod a"
)


@pytest.mark.parametrize("strategy", ["FirstFit", "Pack", "Spread", "Fragmentation"])
@pytest.mark.parametrize(
    ("sizes", "pods", "where"),
    [
        ({"n1": "1", "n2": "8"}, 3, {"p0": "n2", "p1": "n2", "p2": "n2"}),
        ({"n1": "1", "n2": "0"}, 2, {"p0": "n1"}),
    ],
    ids=["several where all of them fit", "one where there is room for one only"],
)
def test_the_node_is_chosen_for_all_of_them(
    strategy: str, sizes: dict[str, str], pods: int, where: dict[str, str]
) -> None:
    terms = policy(placement={"strategy": strategy})
    stage = Stage(*(node(name, cpu=cpu) for name, cpu in sizes.items()), *DEVICES, terms)
    stage.apply(*(pod(f"p{number}", "shared") for number in range(pods)))
    stage.run(30)
    assert stage.bound() == where


def test_who_comes_too_late_is_told_what_keeps_it() -> None:
    stage = Stage(node("n1", cpu="1"), *DEVICES, pod("a", "shared")).run()
    stage.apply(pod("b", "shared"))
    stage.run()

    def summary(kind: str, name: str) -> str:
        found = stage.engines[0].explain("pod" if kind == "pod" else "claim", Key("default", name), stage.world.now)
        assert found is not None
        return found.summary

    assert stage.bound() == {"a": "n1"}
    assert stage.events("NodeUnsuitable")[0] == WAITS
    assert summary("pod", "b") == WAITS
    assert summary("pod", "a") == "all its claims are allocated (1 device); it runs on n1"
    assert summary("claim", "shared").endswith(f"used by pod default/a on n1; {WAITS}")
    assert condition(stage.report("shared"))["message"] == WAITS

    stage.patch("Node", "n1", {"metadata": {"labels": {"again": "yes"}}})
    stage.delete("Pod", "a")
    stage.run()
    assert stage.bound() == {"b": "n1"}
    assert condition(stage.report("shared"))["message"] == ""


def test_it_is_told_once_however_often_it_is_looked_at() -> None:
    stage = Stage(node("n1", cpu="1"), *DEVICES, pod("a", "shared"), pod("b", "shared")).run()
    for name in ("c", "d", "e"):
        stage.apply(pod(name))
        stage.patch("Pod", "b", {"metadata": {"labels": {"seen": name}}})
        stage.patch("Node", "n1", {"metadata": {"labels": {"seen": name}}})
        stage.run()
    assert stage.events("NodeUnsuitable") == [WAITS]


def condition(report: Object) -> Object:
    return next(item for item in report["conditions"] if item["type"] == "Allocated")
