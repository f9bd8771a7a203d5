"""A pod of a megabyte, which anybody with a namespace may create: it is answered, and keeps nobody else from being placed.

Work is counted in requirements and tolerations that are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api import selectors, taints
from dra_operator.api.core import MOST_CONDITIONS
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, template

NODES = 20
MANY = 5_000


def affinity(*terms: Object) -> Object:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def term(key: str, operator: str = "Exists", *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


OVERSIZED: dict[str, Object] = {
    "terms": affinity(*[term(f"k{number}") for number in range(MANY)]),
    "expressions": affinity({"matchExpressions": [term("kubernetes.io/hostname")["matchExpressions"][0]] * MANY}),
    "fields": affinity(
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [f"x{i}"]} for i in range(MANY)]}
    ),
    "selector": {"nodeSelector": {f"k{number}": "v" for number in range(MANY)}},
    "tolerations": {"tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(MANY)]},
}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry: how many requirements and tolerations were looked at."""
    count = [0]

    def counted(method: Callable[..., bool]) -> Callable[..., bool]:
        def call(*arguments: Any) -> bool:
            count[0] += 1
            return method(*arguments)

        return call

    monkeypatch.setattr(selectors.Requirement, "matches", counted(selectors.Requirement.matches))
    monkeypatch.setattr(taints.Toleration, "tolerates", counted(taints.Toleration.tolerates))
    return count


def stage() -> Stage:
    tainted = {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    nodes = [node(f"n{number}", spec=tainted if number else {}) for number in range(NODES)]
    return Stage(*nodes, *[gpus(f"n{number}", 2) for number in range(NODES)], device_class(), template())


@pytest.mark.parametrize("what", OVERSIZED)
def test_what_is_too_much_is_told_and_not_looked_at(what: str, looks: list[int]) -> None:
    scene = stage()
    scene.apply(pod("big", templates=["gpu"], **OVERSIZED[what]))
    scene.run(5)
    (status,) = [item["status"] for item in scene.objects("ClaimReport")]
    assert status["phase"] == "Unsatisfiable"
    said = status["explanation"]["summary"]
    assert f"more than the {MOST_CONDITIONS} that are looked at" in said
    assert looks[0] < MANY
    scene.apply(pod("other", templates=["gpu"]))
    scene.run(20)
    assert scene.bound() == {"other": "n0"}


def test_a_list_of_all_nodes_is_looked_up() -> None:
    """Values may be as many as there are nodes, and are no conditions."""
    names = [f"x{number}" for number in range(MANY)]
    scene = stage()
    scene.apply(pod("listed", templates=["gpu"], **affinity(term("kubernetes.io/hostname", "In", *names, "n0"))))
    scene.run(20)
    assert scene.bound() == {"listed": "n0"}


def test_pinning_a_pod_does_not_make_it_too_much() -> None:
    """The operator adds the node's name to each term."""
    at_most = MOST_CONDITIONS // 2 - 8
    scene = stage()
    wanted = affinity(*[term("kubernetes.io/hostname") for _ in range(at_most)])
    scene.apply(
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs", "namespace": "default"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "rs"}},
                "template": {
                    "metadata": {"labels": {"app": "rs"}}, "spec": pod("x", templates=["gpu"], **wanted)["spec"],
                },
            },
        }
    )  # fmt: skip
    scene.run(20)
    assert list(scene.bound().values()) == ["n0"]


@pytest.mark.parametrize(("entries", "phase"), [(32, "Reserved"), (33, "Unsatisfiable"), (MANY, "Unsatisfiable")])
def test_constraints_of_a_pod_are_as_many_as_those_of_a_claim(entries: int, phase: str) -> None:
    scene = stage()
    asks = pod("many", templates=["gpu"])
    text = json.dumps([{"matchAttribute": "gpu.example.com/index"}] * entries)
    asks["metadata"]["annotations"] = {"dra-operator.dev/constraints": text}
    scene.apply(asks)
    scene.run(20)
    (status,) = [item["status"] for item in scene.objects("ClaimReport")]
    assert status["phase"] == phase
    if phase == "Unsatisfiable":
        assert f"{entries} constraints, at most 32" in status["explanation"]["summary"]


def test_a_claim_with_all_the_constraints_it_may_have_is_placed() -> None:
    """Each value of each attribute by itself is a group of devices; together they are as many as there are devices."""
    names = [f"a{number}" for number in range(32)]
    alike = gpus("n0", 8)
    for number, device in enumerate(alike["spec"]["devices"]):
        device["attributes"] = {name: {"int": number} for name in names}
    scene = Stage(node("n0"), alike, device_class())
    wanted = claim("all")
    wanted["spec"]["devices"]["constraints"] = [{"matchAttribute": f"gpu.example.com/{name}"} for name in names]
    scene.apply(wanted, pod("p", "all"))
    scene.run(20)
    assert scene.bound() == {"p": "n0"}


def test_many_gates_are_counted_in_the_report() -> None:
    scene = stage()
    scene.apply(pod("gated", templates=["gpu"], schedulingGates=[{"name": f"g{number}"} for number in range(MANY)]))
    scene.run(20)
    (status,) = [item["status"] for item in scene.objects("ClaimReport")]
    assert "held by another scheduling gate (g0, g1, g2, g3, g4, g5 and 4994 more)" in status["explanation"]["summary"]
