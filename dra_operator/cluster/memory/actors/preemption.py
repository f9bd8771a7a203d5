"""The scheduler's DefaultPreemption for cpu, memory, ports and pod slots; devices are not its business."""

from __future__ import annotations

from collections.abc import Sequence

from dra_operator.api.core import Node, Pod
from dra_operator.cluster.memory.actors.node_fit import NodeUse, lacks


def choose_victims(pod: Pod, candidates: Sequence[tuple[Node, NodeUse, frozenset[str]]]) -> list[Pod]:
    """The pods to delete on one node: fewest of the lowest priority. Empty where that helps nowhere, or one is leaving already.

    A candidate is a node, the pods on it, and the extended resources that it need not have.
    """
    if pod.preemption_policy == "Never":
        return []
    options: list[tuple[tuple[int, int, str], list[Pod]]] = []
    for node, use, covered in candidates:
        lower = [other for other in use.pods.values() if other.priority < pod.priority]
        if any(other.meta.deleted is not None for other in lower):
            return []
        victims = _fewest(pod, node, use, lower, covered)
        if victims:
            options.append(((max(victim.priority for victim in victims), len(victims), node.name), victims))
    return min(options, key=lambda option: option[0])[1] if options else []


def _fewest(pod: Pod, node: Node, use: NodeUse, lower: list[Pod], covered: frozenset[str]) -> list[Pod]:
    gone = {other.meta.uid for other in lower}
    if lacks(pod, node, use, without=gone, covered=covered) is not None:
        return []
    # Give back the most important first, as long as the pod still fits.
    for other in sorted(lower, key=lambda other: (-other.priority, other.meta.created or 0.0, other.meta.uid)):
        if lacks(pod, node, use, without=gone - {other.meta.uid}, covered=covered) is None:
            gone.remove(other.meta.uid)
    return [other for other in lower if other.meta.uid in gone]
