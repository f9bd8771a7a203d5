"""What pods take of CPU and memory beside their devices, and for how many devices what is left of a node suffices.

A device on a node without CPU is as good as taken. Expected is what pods with devices of the same classes take on the average: enough
to tell nodes apart, and no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from dra_operator.api.core import Pod, Resources
from dra_operator.queue.nodefit import NodeLedger

#: What devices are commonly stranded for.
BESIDE = ("cpu", "memory")


class Companions:
    """Sums over pods with devices, by kind: the classes they ask for, say."""

    def __init__(self) -> None:
        self._devices: dict[Hashable, float] = {}
        self._beside: dict[Hashable, list[int]] = {}

    def note(self, kind: Hashable, devices: float, requests: Resources) -> None:
        """Count one pod with so many devices; parts of shared ones are fractions."""
        self._devices[kind] = self._devices.get(kind, 0.0) + devices
        sums = self._beside.setdefault(kind, [0] * len(BESIDE))
        for at, resource in enumerate(BESIDE):
            sums[at] += requests.get(resource, 0)

    def serves(self, kind: Hashable, pod: Pod, ledger: NodeLedger) -> Callable[[str], tuple[float, float]] | None:
        """By node, for how many devices of this kind the CPU and memory left suffice, without the pod and with it; None: unknown."""
        devices = self._devices.get(kind, 0.0)
        if devices <= 0.0:
            return None
        needs = [
            (resource, pod.requests.get(resource, 0), taken / devices)
            for resource, taken in zip(BESIDE, self._beside[kind], strict=True)
            if taken
        ]

        def serves(node: str) -> tuple[float, float]:
            before = after = inf
            for resource, need, each in needs:
                free = ledger.free(node, resource)
                before, after = min(before, free / each), min(after, max(free - need, 0) / each)
            return before, after

        return serves if needs else None
