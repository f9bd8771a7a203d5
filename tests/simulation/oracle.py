"""Who was forgotten: gated pods that would fit now. Judged with the in-tree visiting order and the simulated scheduler's node fit."""

from __future__ import annotations

from typing import Any

from dra_operator.api.core import Node, Pod
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.node_fit import NodeUse, lacks, refuses
from dra_operator.cluster.memory.actors.objects import claim_names, deleting, key, node_of, terminal
from dra_operator.cluster.memory.admission import GATE, allocation
from dra_operator.cluster.memory.first_fit import InTreeAllocator
from dra_operator.cluster.memory.invariants import Violation
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import CLAIM_REPORTS, NODES, PODS, RESOURCE_CLAIMS


def forgotten(world: World) -> list[Violation]:
    """Pods that wait for their devices though a node has them and takes the pod."""
    store = world.server.store
    use: dict[str, NodeUse] = {}
    for item in store.listed(PODS):
        if node_of(item) and not terminal(item):
            use.setdefault(node_of(item) or "", NodeUse()).add(Pod.from_dict(item))
    allocate = InTreeAllocator()
    found: list[Violation] = []
    for item in store.listed(PODS):
        if [gate["name"] for gate in item["spec"].get("schedulingGates") or ()] != [GATE] or deleting(item):
            continue
        claims = [
            store.get(RESOURCE_CLAIMS, Key(key(item).namespace, name or "")) for name in claim_names(item).values()
        ]
        if any(claim is None or deleting(claim) or allocation(claim) is not None for claim in claims):
            continue
        if any(_kept_back(store, claim) for claim in _present(claims)):
            continue
        found += [
            Violation(
                world.now, "nothing that fits waits for ever", f"pod {key(item)}", f"fits {node['metadata']['name']}"
            )
            for node in store.listed(NODES)
            if _fits(item, node, use) and allocate(store, _present(claims), node) is not None
        ][:1]
    return found


def _kept_back(store: Store, claim: dict[str, Any]) -> bool:
    """Its report says that a hold of another claim keeps it back, and there is such a hold."""
    report = store.get(CLAIM_REPORTS, key(claim))
    return (report or {}).get("status", {}).get("reason") == "Held" and any(
        item["status"].get("hold") for item in store.listed(CLAIM_REPORTS)
    )


def _fits(item: dict[str, Any], node: dict[str, Any], use: dict[str, NodeUse]) -> bool:
    pod, place = Pod.from_dict(item), Node.from_dict(node)
    return refuses(pod, place) is None and lacks(pod, place, use.get(place.name, NodeUse())) is None


def _present(claims: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
    return [claim for claim in claims if claim is not None]
