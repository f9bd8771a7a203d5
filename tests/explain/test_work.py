"""What a look at the cluster costs, counted in work: nodes in one state are judged once, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Problem
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node, Pod
from dra_operator.api.slices import ResourceSlice
from dra_operator.explain import looking
from dra_operator.explain.bench import BRIEF
from dra_operator.explain.explaining import explain
from dra_operator.explain.explanation import Explanation
from dra_operator.explain.looking import Look
from dra_operator.explain.situation import Holding, Situation
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.usage import Use
from dra_operator.queue.nodefit import Misfit
from tests.engine.stage import GPU, claim, device_class, gpus, node, pod

DEVICES = 4


def cluster(nodes: int) -> Inventory:
    """Every device is taken, by a claim a node."""
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict(device_class()))
    for number in range(nodes):
        name = f"n{number:03}"
        inventory.apply_node(Node.from_dict(node(name)))
        inventory.apply_slice(ResourceSlice.from_dict(gpus(name, DEVICES)))
        inventory.use_devices(f"u{number}", tuple(Use(DeviceId(GPU, name, f"gpu-{d}"), None) for d in range(DEVICES)))
    return inventory


def explained(nodes: int, cordoned: int) -> Explanation:
    """Of a claim for one device, while its pod cannot run on some of the nodes."""

    def misfit(_: Pod, name: str, __: frozenset[str]) -> Misfit | None:
        return Misfit("node is cordoned") if int(name[1:]) < cordoned else None

    waiting = claim("w")
    waiting["metadata"]["uid"] = "w"
    return explain(
        Situation(
            problem=Problem((ResourceClaim.from_dict(waiting),)),
            snapshot=cluster(nodes).snapshot(),
            holding=lambda uid: Holding(f"claim d/{uid}", (f"ResourceClaim d/{uid}",), (uid,)),
            pod=Pod.from_dict(pod("p", "w")),
            misfit=misfit,
        ),
        BRIEF,
    )


def test_nodes_in_one_state_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **more: Any) -> Any:
            nonlocal work
            work += 1
            return function(*args, **more)

        return counting

    monkeypatch.setattr(Look, "_dynamic", counted(Look._dynamic))
    monkeypatch.setattr(looking, "Verdict", counted(looking.Verdict))
    spent = []
    for nodes in (10, 160):
        work = 0
        explanation = explained(nodes, cordoned=nodes // 2)
        spent.append(work)
        steps = {step.why: step.devices for step in explanation.requests[0].steps}
        assert steps == {"node": nodes // 2 * DEVICES, "allocated": nodes // 2 * DEVICES}
    assert spent[0] == spent[1] > 0
