"""What must hold in every run, checked from the outside: on the objects and requests, with no code of the engine or the search.

`Invariants` watches a world from the moment it is made. What is broken at once is in `violations`; what may be broken for a moment
(a collision with somebody else's allocation, a pod whose claim is being freed) is looked at by `at_rest`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from dra_operator.api.core import Node, Pod
from dra_operator.api.meta import Key
from dra_operator.api.quantity import Quantity
from dra_operator.api.selectors import NodeSelector
from dra_operator.cluster.memory import identity
from dra_operator.cluster.memory.actors.node_fit import NodeUse, lacks
from dra_operator.cluster.memory.actors.objects import claim_names, deleting, key, node_of, reserved_for, terminal, uid
from dra_operator.cluster.memory.admission import GATE, allocation, managed
from dra_operator.cluster.memory.routes import route
from dra_operator.cluster.memory.server import Served
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.validity import Validity
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import (
    CLAIM_REPORTS,
    DEVICE_CLASS_REPORTS,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

Device = tuple[str, str, str]
_REPORTS = (CLAIM_REPORTS, DEVICE_CLASS_REPORTS, EVENTS)


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` says what must hold, `object` names where it does not. `at`: seconds since the epoch."""

    at: float
    rule: str
    object: str
    message: str

    def __str__(self) -> str:
        return f"{self.object}: {self.message} ({self.rule})"


class Invariants:
    """`observing`: the operator runs in observe mode, where it writes nothing but reports and Events."""

    def __init__(self, world: World, *, operator: str = identity.OPERATOR.name, observing: bool = False) -> None:
        self.violations: list[Violation] = []
        self._world = world
        self._operator = operator
        self._observing = observing
        self._users: dict[Device, dict[Key, list[Object]]] = {}
        for item in world.server.store.listed(RESOURCE_CLAIMS):
            self._count(item, gone=False)
        world.server.store.subscribe(self._on_change)
        world.server.audits.append(self._on_served)
        rule = "every allocation is valid"
        self._validity = Validity(world, lambda claim, message: self._broken(rule, f"claim {claim}", message))

    def check(self) -> None:
        """Raises AssertionError with everything that has been broken so far."""
        if self.violations:
            raise AssertionError("\n".join(map(str, self.violations)))

    def _broken(self, rule: str, item: str, message: str) -> None:
        self.violations.append(Violation(self._world.now, rule, item, message))

    # -- at every step

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource is RESOURCE_CLAIMS:
            before = allocation(change.previous) if change.previous else None
            if before is not None and change.previous is not None:
                self._count(change.previous, gone=True)
            if change.type != "DELETED" and allocation(change.object) is not None:
                self._count(change.object, gone=False)
                if before is None and managed(change.object):
                    self._newly_allocated(change.object)
        elif resource is PODS and change.type == "MODIFIED":
            self._pod_changed(change)

    def _count(self, claim: Object, *, gone: bool) -> None:
        for result in results_of(claim):
            users = self._users.setdefault(device_of(result), {})
            if gone:
                users.pop(key(claim), None)
            else:
                users.setdefault(key(claim), []).append(result)

    def _newly_allocated(self, claim: Object) -> None:
        """A managed claim was allocated: by itself and together with the other managed ones it must be possible."""
        name = f"claim {key(claim)}"
        for result in results_of(claim):
            device = device_of(result)
            others = self._users.get(device, {})
            if not result.get("shareID"):
                holders = [place for place in others if place != key(claim) and self._is_managed(place)]
                if holders or len(others.get(key(claim), ())) > 1:
                    self._broken(
                        "no device in two allocations", name, f"{'/'.join(device)} is taken by {holders or 'itself'}"
                    )
            else:
                self._capacity(name, device, others)
        for driver, pool in {device_of(result)[:2] for result in results_of(claim)}:
            self._counters(name, driver, pool)

    def _is_managed(self, place: Key) -> bool:
        claim = self._world.server.store.get(RESOURCE_CLAIMS, place)
        return claim is not None and managed(claim)

    def _capacity(self, name: str, device: Device, users: dict[Key, list[Object]]) -> None:
        if any(not result.get("shareID") for results in users.values() for result in results):
            self._broken("no device in two allocations", name, f"{'/'.join(device)} is shared and taken whole")
        published = self._published(device) or {}
        consumed: dict[str, Quantity] = {}
        for results in users.values():
            for result in results:
                for capacity, amount in (result.get("consumedCapacity") or {}).items():
                    total = consumed.get(capacity)
                    consumed[capacity] = Quantity.parse(amount) if total is None else total + Quantity.parse(amount)
        for capacity, total in consumed.items():
            value = dig(published.get("capacity"), capacity, "value")
            if value is not None and Quantity.parse(str(value)) < total:
                self._broken("no capacity above its value", name, f"{'/'.join(device)}: {capacity} {total} of {value}")

    def _counters(self, name: str, driver: str, pool: str) -> None:
        """Each allocated device takes its counters once, however often it is shared."""
        left: dict[tuple[str, str], Quantity] = {}
        for item in self._slices(driver, pool):
            for counters in dig(item, "spec", "sharedCounters") or ():
                for counter, value in counters["counters"].items():
                    left[counters["name"], counter] = Quantity.parse(str(value["value"]))
        if not left:
            return
        for device in self._users:
            if device[:2] != (driver, pool) or not self._users[device]:
                continue
            for consumption in (self._published(device) or {}).get("consumesCounters") or ():
                for counter, value in consumption["counters"].items():
                    place = consumption["counterSet"], counter
                    if place in left:
                        left[place] = left[place] - Quantity.parse(str(value["value"]))
        for (counter_set, counter), amount in left.items():
            if amount.sign < 0:
                self._broken("no counter below zero", name, f"{driver}/{pool}: {counter_set}/{counter} is at {amount}")

    def _slices(self, driver: str, pool: str) -> list[Object]:
        """The slices of the pool's newest generation."""
        found = [
            item
            for item in self._world.server.store.all(RESOURCE_SLICES)
            if dig(item, "spec", "driver") == driver and dig(item, "spec", "pool", "name") == pool
        ]
        newest = max((dig(item, "spec", "pool", "generation") or 0 for item in found), default=0)
        return [item for item in found if (dig(item, "spec", "pool", "generation") or 0) == newest]

    def _published(self, device: Device) -> dict[str, Any] | None:
        for item in self._slices(*device[:2]):
            for found in dig(item, "spec", "devices") or ():
                if found["name"] == device[2]:
                    return dict(found)
        return None

    def _pod_changed(self, change: Change) -> None:
        pod, before = change.object, change.previous or {}
        if node_of(pod) and not node_of(before):
            self._bound(pod)

    def _bound(self, pod: Object) -> None:
        """What the scheduler bound is where its devices are."""
        node = self._world.server.store.get(NODES, Key("", node_of(pod) or ""))
        for claim_key, claim in self._claims_of(pod):
            found = allocation(claim) if claim is not None else None
            if node is not None and found is not None and not reaches(found, node):
                rule = "devices are reachable from the node"
                self._broken(rule, f"pod {key(pod)}", f"claim {claim_key} is not on {node_of(pod)}")

    def _without_claims(self, pod: Object) -> None:
        """A pod on a node has all its claims, reserved for it; else its kubelet waits for ever."""
        if not node_of(pod) or terminal(pod) or deleting(pod):
            return
        for claim_key, claim in self._claims_of(pod):
            found = allocation(claim) if claim is not None else None
            if claim is None or found is None or not reserved_for(claim, uid(pod)):
                self._broken(
                    "a bound pod has its claims", f"pod {key(pod)}", f"claim {claim_key} is not allocated and reserved"
                )

    def _claims_of(self, pod: Object) -> Iterator[tuple[Key, Object | None]]:
        for name in claim_names(pod).values():
            if name is not None:
                place = Key(pod["metadata"]["namespace"], name)
                yield place, self._world.server.store.get(RESOURCE_CLAIMS, place)

    def _on_served(self, served: Served) -> None:
        if served.user.name != self._operator or served.request.method == "GET":
            return
        found = route(served.request.path)
        name = f"{served.request.method} {served.request.path}"
        if self._observing and found.resource not in _REPORTS:
            self._broken("observe mode writes only reports", name, "the operator wrote")
        if found.resource is RESOURCE_CLAIMS and served.before is not None and not managed(served.before):
            self._broken("no write on a claim that is not managed", name, f"answered {served.response.status}")
        if served.response.status in (400, 404, 405, 415) and served.before is not None:
            self._broken("requests make sense", name, served.response.message)
        if served.response.status == 422 and not self._overtaken(served):
            self._broken("requests are valid", name, served.response.message)

    def _overtaken(self, served: Served) -> bool:
        """A patch of a pod that carries the uid of its predecessor is refused as invalid: that is what the uid is for."""
        sent = dig(served.request.body, "metadata", "uid")
        return sent is not None and served.before is not None and sent != uid(served.before)

    # -- when nothing moves any more

    def at_rest(self) -> list[Violation]:
        """What is left over in a world that has come to rest, on top of what was broken on the way."""
        before = len(self.violations)
        for device, users in self._users.items():
            whole = Counter(
                place for place, results in users.items() for result in results if not result.get("shareID")
            )
            ours = [self._is_managed(place) for place in whole]
            # Between managed claims it has been told when it happened.
            if sum(whole.values()) > 1 and any(ours) and not all(ours) and not self._all_bound(whole):
                self._broken("collisions are resolved", "/".join(device), f"still taken by {sorted(map(str, whole))}")
        for claim in self._world.server.store.listed(RESOURCE_CLAIMS):
            if managed(claim) and not deleting(claim):
                self._left_over(claim)
        for pod in self._world.server.store.listed(PODS):
            self._stuck(pod)
            self._without_claims(pod)
        found = list(self.violations)
        del self.violations[before:]
        return found

    def _all_bound(self, places: Collection[Key]) -> bool:
        """Whether our claims among these are in use by pods on nodes: such a collision is only reported."""
        claims = [self._world.server.store.get(RESOURCE_CLAIMS, place) for place in places]
        consumers = [
            (place.namespace, consumer["name"])
            for place, claim in zip(places, claims, strict=True)
            if claim is not None and managed(claim)
            for consumer in dig(claim, "status", "reservedFor") or ({"name": ""},)
        ]
        pods = [self._world.server.store.get(PODS, Key(*consumer)) for consumer in consumers]
        return all(pod is not None and node_of(pod) for pod in pods)

    def _left_over(self, claim: Object) -> None:
        for consumer in dig(claim, "status", "reservedFor") or ():
            if consumer.get("apiGroup") or consumer.get("resource") != "pods":
                continue
            pod = self._world.server.store.get(PODS, Key(claim["metadata"]["namespace"], consumer["name"]))
            if pod is None or uid(pod) != consumer["uid"] or terminal(pod):
                self._broken(
                    "nothing leaks", f"claim {key(claim)}", f"reserved for pod {consumer['name']}, which is gone"
                )

    def _stuck(self, pod: Object) -> None:
        """Our gate stays only on pods that wait for devices: with all claims allocated it must be off."""
        gates = [gate["name"] for gate in dig(pod, "spec", "schedulingGates") or ()]
        if gates != [GATE] or deleting(pod) or self._observing:
            return
        claims = list(self._claims_of(pod))
        if len(claims) == len(dig(pod, "spec", "resourceClaims") or ()) and all(
            claim is not None and allocation(claim) is not None and reserved_for(claim, uid(pod)) for _, claim in claims
        ):
            if any(self._crowded_out(pod, claim) for _, claim in claims if claim is not None):
                return
            self._broken(
                "nothing is left half done", f"pod {key(pod)}", "all its claims are allocated for it, and it is gated"
            )

    def _crowded_out(self, pod: Object, claim: Object) -> bool:
        """Whether others with whom it shares the claim run on a node that has no room for it (any more): the claim stays there."""
        bound = [each for each in self._world.server.store.listed(PODS) if node_of(each) and not terminal(each)]
        for name in {node_of(each) or "" for each in bound if reserved_for(claim, uid(each))}:
            found = self._world.server.store.get(NODES, Key("", name))
            use = NodeUse()
            for each in bound:
                if node_of(each) == name:
                    use.add(Pod.from_dict(each))
            if found is None or lacks(Pod.from_dict(pod), Node.from_dict(found), use) is not None:
                return True
        return False


def results_of(claim: Object) -> list[Object]:
    """The devices a claim takes; admin access takes none."""
    found = dig(claim, "status", "allocation", "devices", "results") or ()
    return [result for result in found if not result.get("adminAccess")]


def device_of(result: Object) -> Device:
    return result["driver"], result["pool"], result["device"]


def reaches(found: Object, node: Object) -> bool:
    selector = found.get("nodeSelector")
    if selector is None:
        return True
    return NodeSelector.from_dict(selector).matches(node["metadata"]["name"], node["metadata"].get("labels") or {})
