"""What one event costs the engine while many claims wait: a claim that comes, and a device that comes free.

All devices are taken. Claims of some twenty kinds wait, are starved and have their reports. Then, twenty times a second, one more claim
comes and one that has a device goes, so that the queue stays as long as it is. Measured is the CPU time of all that the engine does about
it up to its decisions and after their answers, reports of others that are brought up to date meanwhile included: the mean of many.
"""

from __future__ import annotations

import time
from collections import deque
from random import Random
from typing import Any, Literal

from bench.allocator.shapes import MODELS, claim, exactly, gpus, mixed, node, selected_class
from dra_operator.engine.decisions import Decision, Outcome, WriteClaimStatus, WriteReport
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.settings import EngineSettings

NODES, DEVICES = 125, 8
REPEATS = 100
_START = 1_800_000_000.0
#: Virtual seconds: between two events, and until everybody is starved and reported.
_BETWEEN, _LONG = 0.025, 400


class FullCluster:
    """`waiting` claims that find no device."""

    def __init__(self, waiting: int) -> None:
        # A bare claim is placed as soon as it is seen, so that what it costs is spent in the pass that is measured.
        self.engine, self.now, self.version = Engine(EngineSettings(bare_claim_age=0.0)), _START, 0
        self.allocated: deque[str] = deque()
        self.number, self.random = 0, Random(1)
        self.put("DeviceClass", selected_class())
        models = [model for model in MODELS for _ in range(model[2])]
        for at in range(NODES):
            name, (model, memory, _) = f"node-{at:05d}", models[at % len(models)]
            self.put("Node", node(name))
            self.put("ResourceSlice", gpus(name, model, memory, DEVICES))
        for _ in range(NODES * DEVICES):
            self.arrive(exactly(1))
        for kind in WATCHED:
            self.engine.synced(kind)
        self.run(5)
        assert len(self.allocated) == NODES * DEVICES
        for _ in range(waiting):
            self.arrive()
        self.run(_LONG)
        assert self.engine.waiting == waiting

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self.settle()

    def put(self, kind: str, item: dict[str, Any], type: Literal["ADDED", "MODIFIED", "DELETED"] = "ADDED") -> None:
        self.version += 1
        item["metadata"] = {
            "uid": f"u{self.version:06}",
            "creationTimestamp": "2027-01-15T07:00:00Z",
            **item["metadata"],
            "resourceVersion": str(self.version),
        }
        self.engine.observe(kind, type, item, self.now)

    def arrive(self, request: dict[str, Any] | None = None) -> None:
        """A claim for one device as `request` says, or of one of many kinds."""
        self.number += 1
        item = mixed(self.number, self.random) if request is None else claim(self.number, {"exactly": request})
        item["metadata"] |= {
            "labels": {"dra-operator.dev/managed": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        }
        self.put("ResourceClaim", item)

    def leave(self) -> None:
        """The claim that has had its device for longest is gone."""
        name = self.allocated.popleft()
        self.engine.observe("ResourceClaim", "DELETED", {"metadata": {"name": name, "namespace": "default"}}, self.now)

    def settle(self) -> None:
        """Decide until there is nothing more to be decided now; all is written and seen at once."""
        while decisions := self.engine.decide(self.now):
            for decision in decisions:
                self._answer(decision)

    def _answer(self, decision: Decision) -> None:
        if isinstance(decision, WriteClaimStatus):
            self.allocated.append(decision.claim.name)
            self.engine.settle(Outcome(decision, 200), self.now)
            self.put("ResourceClaim", decision.body, "MODIFIED")
            return
        stored = None
        if isinstance(decision, WriteReport):
            self.version += 1
            metadata = {"uid": f"r-{decision.key}", **decision.body["metadata"], "resourceVersion": str(self.version)}
            stored = {**decision.body, "metadata": metadata}
        self.engine.settle(Outcome(decision, 200, object=stored), self.now)

    def measure(self) -> tuple[float, float]:
        """Mean seconds of CPU for a claim that comes, and for a device that comes free."""
        came = freed = 0.0
        for _ in range(REPEATS):
            self.now += _BETWEEN
            began = time.process_time()
            self.arrive()
            self.settle()
            came += time.process_time() - began
            self.now += _BETWEEN
            began = time.process_time()
            self.leave()
            self.settle()
            freed += time.process_time() - began
        return came / REPEATS, freed / REPEATS
