"""Whatever groups, policies and nodes there are, everything in the cluster can be explained, and reports are written all the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dra_operator.api.meta import Key
from tests.engine.stage import Object, Stage, claim, device_class, gpus, node, pod, policy
from tests.explain.clusters import settled
from tests.explain.gangcases import group, members


def cluster(random: Random) -> Stage:
    nodes: list[Object] = []
    for number in range(random.randint(1, 4)):
        nodes += [node(f"n{number}", cpu=random.choice(("2", "32")), rack=random.choice("ab"))]
        nodes += [gpus(f"n{number}", random.randint(0, 4))]
    ties: dict[str, Any] = {}
    if random.random() < 0.6:
        ties["topology"] = {"key": "rack", "mode": random.choice(("Same", "Spread", "Prefer"))}
    if random.random() < 0.3:
        ties["constraints"] = [{"matchAttribute": "gpu.example.com/index"}]
    budgets: dict[str, Any] = {}
    if random.random() < 0.4:
        budgets["quota"] = [{"deviceClassName": "gpu", "devices": random.randint(1, 6)}]
    if random.random() < 0.3:
        budgets["reserve"] = [{"deviceClassName": "gpu", "devices": random.randint(1, 3)}]
        budgets["namespaceSelector"] = {"matchLabels": {"team": "other"}}
    stage = settled(
        *nodes, device_class(), policy(**budgets), group("ring", random.randint(1, 4), **ties),
        claim("x", random.randint(1, 3)), pod("x", "x"),
    )  # fmt: skip
    stage.apply(*members(random.randint(1, 4), random.randint(1, 3), of=random.choice(("ring", "ring", "rign"))))
    return stage.run(90)


@pytest.mark.parametrize("seed", range(8))
def test_property_everything_can_be_explained(seed: int) -> None:
    stage = cluster(Random(seed))
    everything = [("pod", item) for item in stage.objects("Pod")]
    everything += [("claim", item) for item in stage.objects("ResourceClaim")]
    for kind, item in everything:
        key = Key("default", item["metadata"]["name"])
        account = stage.engines[-1].explain("pod" if kind == "pod" else "claim", key, stage.world.now)
        assert account is not None
        assert account.summary
    assert len(everything) >= 4
    reported = {item["metadata"]["name"] for item in stage.objects("ClaimReport")}
    assert reported == {item["metadata"]["name"] for item in stage.objects("ResourceClaim")}
