"""Constraints across the claims of one pod."""

from __future__ import annotations

import pytest

from tests.engine.gangs import cluster
from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    node,
    pod,
    policy,
)


def annotated(text: str) -> Object:
    item = pod("p", "one", "two")
    item["metadata"]["annotations"] = {"dra-operator.dev/constraints": text}
    return item


def test_a_pods_constraint_across_its_claims() -> None:
    slices = gpus("n0", 4)
    for number, device in enumerate(slices["spec"]["devices"]):
        device["attributes"]["numa"] = {"int": (0, 1, 1, 0)[number]}
    objects = (device_class(), node("n0"), slices, claim("one"), claim("two"))
    taken = {}
    for kind in ("matchAttribute", "distinctAttribute"):
        text = f'[{{"requests": ["c0/gpu", "c1/gpu"], "{kind}": "gpu.example.com/numa"}}]'
        stage = Stage(*objects, annotated(text)).run(10)
        assert stage.bound() == {"p": "n0"}
        taken[kind] = stage.taken()
    values = {"n0/gpu-0": 0, "n0/gpu-1": 1, "n0/gpu-2": 1, "n0/gpu-3": 0}
    assert len({values[name] for name in taken["matchAttribute"]}) == 1
    assert len({values[name] for name in taken["distinctAttribute"]}) == 2


def test_aliases_of_the_policy_count() -> None:
    """The NIC's driver calls it by another name."""
    slices = gpus("n0", 2)
    slices["spec"]["devices"][0]["attributes"]["numa"] = {"int": 0}
    slices["spec"]["devices"][1]["attributes"]["dra.net/numaNode"] = {"int": 1}
    text = '[{"distinctAttribute": "gpu.example.com/numa"}]'
    objects = (device_class(), node("n0"), slices, claim("one"), claim("two"), annotated(text))
    assert Stage(*objects).run(10).bound() == {}
    aliases = [{"attribute": "gpu.example.com/numa", "names": ["dra.net/numaNode"]}]
    assert Stage(*objects, policy(placement={"aliases": aliases})).run(10).bound() == {"p": "n0"}


def test_a_constraint_counts_claims_that_have_devices_already() -> None:
    slices = [gpus("n0", 2, numa=0), gpus("n1", 2, numa=1)]
    text = '[{"matchAttribute": "gpu.example.com/numa"}]'
    everywhere = slices[1]
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    stage = Stage(
        device_class(), node("n0"), *slices, claim("one", selector='device.attributes["gpu.example.com"].numa == 1')
    )
    stage.run(10)
    assert stage.devices("one") == ["n1/gpu-0"]
    stage.apply(claim("two"), annotated(text))
    stage.run(10)
    assert stage.devices("two") == ["n1/gpu-1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('[{"matchAttribute": "gpu.example.com/numa", "requests": ["c0/nic"]}]', "there is no request 'c0/nic'"),
        ('[{"requests": ["c0/gpu"]}]', "set exactly one of matchAttribute and distinctAttribute"),
    ],
)
def test_an_annotation_that_cannot_be_followed(text: str, message: str) -> None:
    stage = Stage(*cluster(1, 4), claim("one"), claim("two"), annotated(text)).run(20)
    report = stage.report("one")
    assert (report["phase"], report["reason"]) == ("Unsatisfiable", "InvalidConstraints")
    assert message in report["explanation"]["summary"]
    assert stage.taken() == []
