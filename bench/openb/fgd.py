"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023), the policy published with this trace, as something to compare with.

Written from the paper: the fragmentation of a node, as seen by one kind of pod, is the GPU left that this kind cannot use: all of it where
the kind does not fit, else the GPUs (or what is left of them) that are too small for it. A pod goes where the expectation of that over
the workload's kinds grows least. As there, the workload is known beforehand (here the kinds that make 95 % of the pods); no other
policy of this bench is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import mul

from bench.openb.trace import WHOLE, TraceNode, TracePod

#: What is left of each GPU of a node, sorted.
Left = tuple[int, ...]

_TYPICAL = 0.95


class GradientDescent:
    """Places pods one by one, none of which leaves."""

    def __init__(self, nodes: Sequence[TraceNode], workload: Sequence[TracePod]) -> None:
        self.nodes = list(nodes)
        self.left: list[Left] = [(WHOLE,) * node.gpus for node in nodes]
        kinds = _typical(workload)
        self.shapes = sorted({pod[2:] for pod in kinds})
        self.kinds = [(pod.cpu, pod.memory, self.shapes.index(pod[2:]), share) for pod, share in kinds.items()]
        self.cpus, self.memories = sorted({kind[0] for kind in self.kinds}), sorted({kind[1] for kind in self.kinds})
        self.fitting: dict[tuple[int, int, str], list[float]] = {}
        self.usable: dict[Left, list[int]] = {}
        #: By pod: how many of the changes its scores have taken in, and per node growth and what would be left.
        self.scores: dict[TracePod, tuple[int, list[tuple[float, Left] | None]]] = {}
        self.changed: list[int] = []

    def place(self, pod: TracePod) -> bool:
        seen, scores = self.scores.get(pod, (0, [None] * len(self.nodes)))
        for at in set(self.changed[seen:]) if pod in self.scores else range(len(self.nodes)):
            scores[at] = self._score(at, pod)
        self.scores[pod] = len(self.changed), scores
        options = ((round(score[0], 9), at) for at, score in enumerate(scores) if score is not None)
        _, at = min(options, default=(0.0, -1))
        chosen = scores[at] if at >= 0 else None
        if chosen is None:
            return False
        node = self.nodes[at]
        self.nodes[at] = node._replace(cpu=node.cpu - pod.cpu, memory=node.memory - pod.memory)
        self.left[at] = chosen[1]
        self.changed.append(at)
        return True

    def _score(self, at: int, pod: TracePod) -> tuple[float, Left] | None:
        """The least growth of fragmentation on one node, and what is then left of its GPUs; None where the pod does not fit."""
        node, left = self.nodes[at], self.left[at]
        if node.cpu < pod.cpu or node.memory < pod.memory or (pod.models and node.model not in pod.models):
            return None
        rest = node._replace(cpu=node.cpu - pod.cpu, memory=node.memory - pod.memory)
        grown = [(self._fragmentation(rest, after), after) for after in _after(left, pod)]
        if not grown:
            return None
        least, after = min(grown)
        return least - self._fragmentation(node, left), after

    def _fragmentation(self, node: TraceNode, left: Left) -> float:
        return sum(left) - sum(map(mul, self._fitting(node), self._usable(left)))

    def _fitting(self, node: TraceNode) -> list[float]:
        """By shape, the part of the workload that has it and that the node's CPU, memory and model suffice for."""
        key = bisect_right(self.cpus, node.cpu), bisect_right(self.memories, node.memory), node.model
        known = self.fitting.get(key)
        if known is None:
            known = self.fitting[key] = [0.0] * len(self.shapes)
            for cpu, memory, shape, share in self.kinds:
                models = self.shapes[shape][2]
                if cpu <= node.cpu and memory <= node.memory and (not models or node.model in models):
                    known[shape] += share
        return known

    def _usable(self, left: Left) -> list[int]:
        """By shape, how much of the GPUs left it can use."""
        known = self.usable.get(left)
        if known is None:
            known = self.usable[left] = []
            for gpus, milli, _ in self.shapes:
                large = [amount for amount in left if amount >= milli]
                known.append(sum(large) if gpus and len(large) >= gpus else 0)
        return known


def _typical(workload: Sequence[TracePod]) -> dict[TracePod, float]:
    found: dict[TracePod, float] = {}
    for pod, count in Counter(workload).most_common():
        if sum(found.values()) >= _TYPICAL * len(workload):
            break
        found[pod] = count
    total = sum(found.values())
    return {pod: count / total for pod, count in found.items()}


def _after(left: Left, pod: TracePod) -> Iterator[Left]:
    """What may be left of the GPUs once the pod has its own."""
    if pod.gpus == 0:
        yield left
    elif pod.gpus == 1:
        for amount in sorted(set(left)):
            if amount >= pod.milli:
                rest = list(left)
                rest.remove(amount)
                yield tuple(sorted([*rest, amount - pod.milli]))
    else:
        largest = sorted(left, reverse=True)
        if len(largest) >= pod.gpus and largest[pod.gpus - 1] >= pod.milli:
            taken = [amount - pod.milli for amount in largest[: pod.gpus]]
            yield tuple(sorted(taken + largest[pod.gpus :]))
