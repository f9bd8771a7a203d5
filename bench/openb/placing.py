"""The trace's cluster under the real allocator: every GPU a device that can be shared, every GPU pod a claim.

Nodes are judged by the ledger that the engine uses, and what Fragmentation knows besides is what the engine gives it: the demand so far and
what pods take beside their GPUs. Pods without GPUs are not the operator's to place; they go where the strategy's idea would put them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.openb.trace import WHOLE, TraceNode, TracePod
from dra_operator.allocator import Problem, RecentDemand, Solved, Strategy, solve
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node, Pod
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.queue.companions import Companions
from dra_operator.queue.nodefit import NodeLedger

DRIVER = "gpu.example.com"


class Allocator:
    """Places pods one by one, none of which leaves."""

    def __init__(self, nodes: Sequence[TraceNode], strategy: Strategy) -> None:
        self.strategy = strategy
        self.inventory, self.ledger = Inventory(), NodeLedger()
        self.recent, self.companions = RecentDemand(), Companions()
        self.free = {node.name: float(node.gpus) for node in nodes}
        self.number = 0
        self.inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
        for node in nodes:
            typed = Node.from_dict(_node(node))
            self.inventory.apply_node(typed)
            self.ledger.apply_node(typed)
            if node.gpus:
                self.inventory.apply_slice(ResourceSlice.from_dict(_slice(node)))

    def place(self, pod: TracePod) -> bool:
        self.number += 1
        typed = Pod.from_dict(_pod(pod, self.number))
        node = self._allocate(pod, typed) if pod.demand else self._without_gpu(typed)
        if node is None:
            return False
        self.ledger.occupy(typed, node)
        self.free[node] -= pod.demand / WHOLE
        return True

    def _allocate(self, pod: TracePod, typed: Pod) -> str | None:
        claim = ResourceClaim.from_dict(_claim(pod, self.number))
        self.recent.note(claim.spec)
        self.companions.note("gpu", pod.demand / WHOLE, typed.requests)
        problem = Problem(
            (claim,),
            fits=lambda name: self.ledger.misfit(typed, name) is None,
            strategy=self.strategy,
            demand=self.recent.demand,
            serves=self.companions.serves("gpu", typed, self.ledger),
        )
        answer = solve(problem, self.inventory.snapshot())
        if not isinstance(answer, Solved):
            return None
        self.inventory.use(claim.meta.uid, answer.allocations[0])
        return answer.node

    def _without_gpu(self, pod: Pod) -> str | None:
        names = (name for name in self.free if self.ledger.misfit(pod, name) is None)
        if self.strategy is Strategy.FirstFit:
            return next(names, None)
        if self.strategy is Strategy.Fragmentation:
            serves = self.companions.serves("gpu", pod, self.ledger)

            def stranded(name: str) -> float:
                if serves is None:
                    return 0.0
                before, after = serves(name)
                return max(0.0, self.free[name] - after) - max(0.0, self.free[name] - before)

            return min(names, key=lambda name: (stranded(name), self.ledger.free(name, "cpu"), name), default=None)
        sign = 1 if self.strategy is Strategy.Pack else -1
        return min(names, key=lambda name: (sign * self.ledger.free(name, "cpu"), name), default=None)


def _node(node: TraceNode) -> dict[str, Any]:
    allocatable = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "100000"}
    return {"metadata": {"name": node.name}, "status": {"allocatable": allocatable}}


def _slice(node: TraceNode) -> dict[str, Any]:
    policy = {"default": str(WHOLE), "validRange": {"min": "1"}}
    devices = [
        {
            "name": f"gpu-{index}",
            "allowMultipleAllocations": True,
            "attributes": {"model": {"string": node.model}},
            "capacity": {"milli": {"value": str(WHOLE), "requestPolicy": policy}},
        }
        for index in range(node.gpus)
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node.name, "pool": pool, "devices": devices}
    return {"metadata": {"name": node.name}, "spec": spec}


def _pod(pod: TracePod, number: int) -> dict[str, Any]:
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    container = {"name": "main", "image": "image", "resources": {"requests": requests}}
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"pod-{number}"}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def _claim(pod: TracePod, number: int) -> dict[str, Any]:
    exactly: dict[str, Any] = {
        "deviceClassName": "gpu",
        "count": pod.gpus,
        "capacity": {"requests": {"milli": str(pod.milli)}},
    }
    if pod.models:
        models = ", ".join(f'"{model}"' for model in pod.models)
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{models}]'}}]
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}"}
    return {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
