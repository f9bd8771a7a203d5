"""A pod that asks for more than anybody can count keeps nobody else from being placed."""

from __future__ import annotations

import pytest

from tests.engine.stage import Stage, device_class, gpus, node, pod, policy, template


@pytest.mark.parametrize("strategy", ["Pack", "Fragmentation"])
def test_the_others_get_their_devices(strategy: str) -> None:
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), template(), policy(placement={"strategy": strategy}))
    stage.apply(pod("odd", templates=["gpu"], cpu="1e400"))
    stage.run(5)
    stage.apply(pod("a", templates=["gpu"]), pod("b", templates=["gpu"]))
    stage.run(20)
    assert stage.bound() == {"a": "n1", "b": "n1"}
