"""What a policy prefers (`placement.prefer`), in the terms of the allocator: it scores, and never decides what fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from dra_operator.allocator import Problem, UnitConstraint
from dra_operator.allocator.joint import NodeTopology
from dra_operator.api.claims import ResourceClaim
from dra_operator.api.core import Pod
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.constraining import attributes_of
from dra_operator.engine.state import State


def device_wishes(claims: Sequence[ResourceClaim], terms: AllocationPolicySpec) -> tuple[UnitConstraint, ...]:
    """One a claim and preference: the claim's devices with one value. Claims for one device have nothing to prefer."""
    wished = [item for item in terms.placement.prefer if item.match_attribute is not None]
    found = []
    for number, claim in enumerate(claims) if wished else ():
        if not _for_several(claim):
            continue
        members = tuple((number, request.name) for request in claim.spec.requests)
        for item in wished:
            names = attributes_of(item.match_attribute or "", terms)
            found.append(UnitConstraint(members, names, required=False, weight=item.weight))
    return tuple(found)


def _for_several(claim: ResourceClaim) -> bool:
    """Can the claim get more than one device?"""
    requests = claim.spec.requests
    return len(requests) > 1 or any(
        detail.allocation_mode == "All" or detail.count > 1 for request in requests for detail in request.details
    )


class NodeWishes:
    """The nodes whose labels have the values that the pod's fellows have: those of its controller, or of its ClaimGroup."""

    def __init__(self, state: State) -> None:
        self._state = state

    def onto(self, problem: Problem, pod: Pod | None, terms: AllocationPolicySpec) -> Problem:
        """The problem with the policy's wishes about nodes."""
        wished = [item for item in terms.placement.prefer if item.node_label is not None]
        places = self._places(pod) if pod is not None and wished else []
        if not places:
            return problem
        labels = {name: node.labels for name, node in self._state.ledger.nodes.items()}
        shares: list[tuple[str, dict[str, float]]] = []
        for item in wished:
            key = item.node_label or ""
            counts = Counter(labels[name].get(key) for name in places if name in labels)
            shares.append((key, {value: item.weight * count / len(places) for value, count in counts.items() if value}))

        def wish(name: str) -> float:
            own = labels.get(name, {})
            return sum(weights.get(own.get(key, ""), 0.0) for key, weights in shares)

        most = sum(max(weights.values(), default=0.0) for _, weights in shares)
        return replace(problem, wish=wish, wish_most=most) if most else problem

    def _places(self, pod: Pod) -> list[str]:
        """The nodes of the pod's fellows."""
        state = self._state
        group = state.groups.of("pod", pod.key)
        if group is not None:
            fellows = [state.view.pods[key] for key in state.groups.members(group, "pod") if key in state.view.pods]
        elif pod.meta.controller is not None:
            fellows = list(state.view.pods_of_controller(pod.meta.controller.uid))
        else:
            return []
        found = (
            each.node_name or state.ledger.place_of(each.meta.uid) for each in fellows if each.meta.uid != pod.meta.uid
        )
        return [name for name in found if name is not None]


def group_topology(
    terms: AllocationPolicySpec, value_of: Callable[[str, str], str | None], nodes: Sequence[str]
) -> NodeTopology | None:
    """For a ClaimGroup that says nothing of nodes: the heaviest preferred label, as if its mode was Prefer.

    `value_of`: a node's value of a label. `nodes`: those of members placed before.
    """
    wished = [item for item in terms.placement.prefer if item.node_label is not None]
    if not wished:
        return None
    key = max(wished, key=lambda item: item.weight).node_label or ""
    present = tuple(value_of(name, key) for name in nodes)
    return NodeTopology("Prefer", lambda name: value_of(name, key), present, key)
