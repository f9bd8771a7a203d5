"""ClaimGroups and their members for tests, and what must hold whenever a gang is let go."""

from __future__ import annotations

from typing import Any

from dra_operator.engine.decisions import PatchPod, WriteClaimStatus
from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    node,
    pod,
)

LABEL = "dra-operator.dev/claim-group"
NEVER = {"mode": "Never"}
RACK = "example.com/rack"


def group(name: str = "gang", members: int = 2, **spec: Any) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMembers": members, **spec},
    }


def member(name: str, *, of: str = "gang", count: int = 1, **spec: Any) -> list[Object]:
    """A pod of the group and its claim, of the same name."""
    return [claim(name, count), pod(name, name, labels={LABEL: of}, **spec)]


def members(*names: str, **spec: Any) -> list[Object]:
    return [item for name in names for item in member(name, **spec)]


def bare(name: str, count: int = 1, *, of: str = "gang") -> Object:
    item = claim(name, count)
    item["metadata"]["labels"] = {LABEL: of}
    return item


def cluster(nodes: int = 2, each: int = 2, *, cpu: str = "32", racks: tuple[str, ...] = ()) -> list[Object]:
    found: list[Object] = [device_class()]
    for number in range(nodes):
        labels = {RACK: racks[number]} if racks else {}
        found += [node(f"n{number}", cpu=cpu, **labels), gpus(f"n{number}", each)]
    return found


def let_go_together(stage: Stage, least: int, total: int, *, but: str = "") -> None:
    """No pod of the group loses its gate before `least` of them have all their devices. `but`: a pod that is no member."""
    allocated: set[str] = set()
    counts: list[int] = []
    for each in stage.runner.executed:
        decision = each.decision
        if each.response is None or not each.response.ok:
            continue
        if isinstance(decision, PatchPod | WriteClaimStatus) and but in (
            decision.pod if isinstance(decision, PatchPod) else decision.claim
        ):
            continue
        if isinstance(decision, WriteClaimStatus):
            (allocated.add if decision.action == "allocate" else allocated.discard)(decision.claim.name)
        elif isinstance(decision, PatchPod):
            counts.append(len(allocated))
    assert len(counts) >= total
    assert min(counts) >= least


def foreign(name: str, where: str) -> Object:
    """A claim that kube-scheduler has allocated."""
    item = claim(name)
    item["metadata"] |= {"uid": f"uid-{name}", "labels": {}}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": where, "device": "gpu-0"}
    item["status"] = {"allocation": {"devices": {"results": [result]}}}
    return item
