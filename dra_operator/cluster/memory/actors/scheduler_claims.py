"""The scheduler's DynamicResources plugin: what it makes of a pod's claims from PreFilter to PreBind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dra_operator.api.claims import DELETE_PROTECTION
from dra_operator.api.core import Node
from dra_operator.api.meta import Key, format_time
from dra_operator.api.selectors import NodeSelector
from dra_operator.cluster.memory.actors import extended_resources
from dra_operator.cluster.memory.actors.actor import Actor
from dra_operator.cluster.memory.actors.extended_resources import Ask
from dra_operator.cluster.memory.actors.objects import claim_names, controller, deleting, key, reserved_for, uid
from dra_operator.cluster.memory.actors.scheduling_errors import ClaimError, NotYet
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, Request

if TYPE_CHECKING:
    from dra_operator.cluster.memory.actors.scheduler import FirstFit

_MAX_CONSUMERS = 256


@dataclass(frozen=True, slots=True)
class Chosen:
    """What would be written for a pod on one node: allocations by claim, and one for the special claim of `asks`."""

    allocations: Mapping[Key, Object]
    special: Object | None = None
    asks: tuple[Ask, ...] = ()


@dataclass(slots=True)
class PodClaims:
    """The claims of one pod as the scheduler's cache has them. `asks`: extended resources that a claim can stand for."""

    pod: Object
    allocated: list[Object] = field(default_factory=list)
    unallocated: list[Object] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)

    @classmethod
    def gather(cls, pod: Object, known: Mapping[Key, Object], store: Store) -> PodClaims:
        """PreEnqueue and PreFilter. Raises NotYet."""
        found = cls(pod, asks=extended_resources.asks(pod, store))
        named = {entry["name"] for entry in dig(pod, "spec", "resourceClaims") or () if entry.get("resourceClaimName")}
        for entry, name in claim_names(pod).items():
            claim = known.get(Key(pod["metadata"]["namespace"], name)) if name else None
            if claim is None:
                raise NotYet(f'waiting for resource claim "{name or entry}" of pod entry "{entry}" to be there')
            if deleting(claim):
                raise NotYet(f'resourceclaim "{name}" is being deleted')
            owner = controller(claim)
            if entry not in named and owner is not None and owner["uid"] != uid(pod):
                raise NotYet(f'ResourceClaim "{name}" was not created for this pod (pod is not owner)')
            if dig(claim, "status", "allocation") is None:
                _check_classes(claim, store)
                found.unallocated.append(claim)
                continue
            consumers = dig(claim, "status", "reservedFor") or ()
            if len(consumers) >= _MAX_CONSUMERS and not reserved_for(claim, uid(pod)):
                raise NotYet(f'resourceclaim "{name}" is in use by too many pods')
            found.allocated.append(claim)
        return found

    def only_node(self) -> str | None:
        """The one node that an allocated claim ties the pod to, where there is such a claim."""
        for claim in self.allocated:
            selector = dig(claim, "status", "allocation", "nodeSelector")
            if selector is not None and (name := NodeSelector.from_dict(selector).only_node()) is not None:
                return name
        return None

    def misplaced(self, node: Node) -> set[Key] | None:
        """Allocated claims that cannot be used from this node, None where all can."""
        wrong = {
            key(claim)
            for claim in self.allocated
            if (selector := dig(claim, "status", "allocation", "nodeSelector")) is not None
            and not NodeSelector.from_dict(selector).matches(node.name, node.labels)
        }
        return wrong or None

    @property
    def tied(self) -> bool:
        """All is allocated already: nothing to choose but the node."""
        return not self.unallocated and not self.asks

    def covered_on(self, node: Node) -> frozenset[str]:
        """Extended resources for which the node needs no device plugin, since a claim will do."""
        return frozenset(ask.resource for ask in self.asks if not node.allocatable.get(ask.resource))

    def allocate(self, first_fit: FirstFit | None, store: Store, node: Node, item: Object) -> Chosen | None:
        """Allocations for what has none yet, on one node. Raises ClaimError."""
        asks = tuple(ask for ask in self.asks if not node.allocatable.get(ask.resource))
        if not self.unallocated and not asks:
            return Chosen({})
        wanted = [*self.unallocated, *([extended_resources.claim_for(self.pod, list(asks))] if asks else [])]
        found = None if first_fit is None else first_fit(store, wanted, item)
        if found is None:
            return None
        chosen = dict(zip((key(claim) for claim in self.unallocated), found, strict=False))
        return Chosen(chosen, found[-1] if asks else None, asks)

    def bind(self, actor: Actor, chosen: Chosen, now: float) -> None:
        """PreBind: write what has been chosen, and reserve every claim for the pod. Raises ClaimError."""
        for claim in (*self.unallocated, *self.allocated):
            if not reserved_for(claim, uid(self.pod)):
                _bind(actor, self.pod, key(claim), chosen.allocations.get(key(claim)), now)
        if chosen.special is not None:
            extended_resources.write(actor, self.pod, list(chosen.asks), chosen.special, format_time(now))

    def clear_one(self, actor: Actor, unavailable: Iterable[Key], pod: str) -> bool:
        """PostFilter: give up one allocation that keeps the pod from the nodes it would fit; never one that others use."""
        for claim_key in sorted(unavailable):
            claim = actor.get(RESOURCE_CLAIMS, claim_key)
            if claim is None or dig(claim, "status", "allocation") is None:
                continue
            if any(consumer["uid"] != pod for consumer in dig(claim, "status", "reservedFor") or ()):
                continue
            cleared = clone(claim)
            cleared["status"].pop("allocation", None)
            cleared["status"].pop("reservedFor", None)
            actor.put(RESOURCE_CLAIMS, cleared, "status")
            return True
        return False


def _check_classes(claim: Object, store: Store) -> None:
    for request in dig(claim, "spec", "devices", "requests") or ():
        for detail in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            name = (detail or {}).get("deviceClassName")
            if name and store.get(DEVICE_CLASSES, Key("", name)) is None:
                raise NotYet(f"request {request.get('name')}: device class {name} does not exist")


def _bind(actor: Actor, pod: Object, claim_key: Key, allocation: Object | None, now: float) -> None:
    """Finalizer, then allocation and reservation in one write, on the claim as it is now."""
    response = actor.send(Request("GET", RESOURCE_CLAIMS.path(*claim_key)))
    if not response.ok:
        raise ClaimError(response.message)
    claim = response.body
    if allocation is not None:
        if dig(claim, "status", "allocation") is not None:
            raise ClaimError(f"claim {claim_key.name} got allocated elsewhere in the meantime")
        if DELETE_PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            claim["metadata"].setdefault("finalizers", []).append(DELETE_PROTECTION)
            response = actor.put(RESOURCE_CLAIMS, claim)
            if not response.ok:
                raise ClaimError(f"add finalizer to claim {claim_key}: {response.message}")
            claim = response.body
        claim.setdefault("status", {})["allocation"] = clone(allocation)
    elif dig(claim, "status", "allocation") is None:
        raise ClaimError(f"claim {claim_key.name} got deallocated elsewhere in the meantime")
    # Stamped where it is missing, which the API server refuses for an allocation that was written without.
    claim["status"]["allocation"].setdefault("allocationTimestamp", format_time(now))
    consumer = {"resource": PODS.plural, "name": pod["metadata"]["name"], "uid": uid(pod)}
    claim["status"].setdefault("reservedFor", []).append(consumer)
    response = actor.put(RESOURCE_CLAIMS, claim, "status")
    if not response.ok:
        raise ClaimError(f"update claim {claim_key}: {response.message}")
