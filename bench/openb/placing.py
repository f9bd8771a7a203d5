"""The trace's cluster under the real allocator: every GPU a device that can be shared, every GPU pod a claim.

Nodes are judged by the ledger that the engine uses, and what Fragmentation knows besides is what the engine gives it: the claims so far and
what their pods take beside GPUs. Pods without GPUs are not the operator's to place; they go where the strategy's idea would put them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.openb.trace import WHOLE, TraceNode, TracePod
from dra_operator.allocator import Besides, Demand, Problem, Solved, Strategy, attempt, by_spec, kinds_of
from dra_operator.api.claims import ClaimSpec, DeviceClass, ResourceClaim
from dra_operator.api.core import Node, Pod
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.queue.nodefit import NodeLedger, beside_devices

DRIVER = "gpu.example.com"


class Allocator:
    """Places pods one by one, none of which leaves."""

    def __init__(self, nodes: Sequence[TraceNode], strategy: Strategy) -> None:
        self.strategy = strategy
        self.inventory, self.ledger = Inventory(), NodeLedger()
        self.kinds: dict[int, tuple[ClaimSpec, Besides]] = {}
        self.demand: Demand | None = None
        self.counted = self.due = 0
        self.names = [node.name for node in nodes]
        self.bare = [node.name for node in nodes if not node.gpus]
        self.watcher = ResourceClaim.from_dict(_watcher())
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
        return True

    def _allocate(self, pod: TracePod, typed: Pod) -> str | None:
        claim = ResourceClaim.from_dict(_claim(pod, self.number))
        self._note(claim.spec, typed)
        answer = self._solve((claim,), typed)
        if answer is not None:
            self.inventory.use(claim.meta.uid, answer.allocations[0])
        return None if answer is None else answer.node

    def _note(self, spec: ClaimSpec, pod: Pod) -> None:
        """Count as the engine does: all claims there are, anew when an eighth has changed."""
        _, besides = self.kinds.setdefault(id(spec), (spec, {}))
        beside = beside_devices(pod)
        besides[beside] = besides.get(beside, 0.0) + 1.0
        self.counted += 1
        if self.counted >= self.due:
            self.due = self.counted + max(1, self.counted // 8)
            items = kinds_of(self.kinds.values())
            shares, before = by_spec(items), by_spec(() if self.demand is None else self.demand.items)
            changed = sum(abs(shares.get(key, 0.0) - before.get(key, 0.0)) for key in shares.keys() | before.keys())
            if self.demand is None or changed > 0.4 or self.counted >= 2 * self.demand.evidence:
                self.demand = Demand(items, float(self.counted))

    def _without_gpu(self, pod: Pod) -> str | None:
        """Not the operator's business. Fragmentation: a claim that takes nothing says where the least would be lost."""
        if self.strategy is Strategy.Fragmentation:
            without = (name for name in self.bare if self.ledger.misfit(pod, name) is None)
            found = min(without, key=lambda name: (self.ledger.free(name, "cpu"), name), default=None)
            if found is None:
                answer = self._solve((self.watcher,), pod)
                found = None if answer is None else answer.node
            return found
        names = (name for name in self.names if self.ledger.misfit(pod, name) is None)
        if self.strategy is Strategy.FirstFit:
            return next(names, None)
        sign = 1 if self.strategy is Strategy.Pack else -1
        return min(names, key=lambda name: (sign * self.ledger.free(name, "cpu"), name), default=None)

    def _solve(self, claims: tuple[ResourceClaim, ...], pod: Pod) -> Solved | None:
        problem = Problem(
            claims,
            fits=lambda name: self.ledger.misfit(pod, name) is None,
            strategy=self.strategy,
            demand=self.demand,
            rooms=self.ledger,
            beside=beside_devices(pod),
        )
        return attempt(problem, self.inventory.snapshot())


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


def _watcher() -> dict[str, Any]:
    """Admin access leaves the device as free as it was."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
    return {"metadata": {"name": "watcher", "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}


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
