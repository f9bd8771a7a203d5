"""A rearrangement tried out on the embedded cluster: the same objects, the same engine, evictions one after another.

Says what became of it, and whether anybody was the worse for it. Nothing outside the embedded cluster is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.identity import ADMIN, OPERATOR
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.values import Object, clone
from dra_operator.cluster.rest import PODS, RESOURCE_CLAIMS, Request
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings

#: Seconds of virtual time: to settle before the first eviction, and for each step to come to its end.
SETTLE = 5.0
PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Departure:
    """What goes: a pod that is evicted, or (`pod` None) a claim that no pod uses and that is freed."""

    claims: tuple[str, ...]
    pod: Key | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where it turned up again. `name`: of the new pod, or of the claim. `devices` are POOL/DEVICE."""

    name: str
    node: str | None
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """`failure`: why the rearrangement does not do what it should; "" if it does. `arrivals` one a departure, as far as it came.

    `seconds`: virtual time from the first eviction to the end.
    """

    failure: str
    arrivals: tuple[Arrival, ...] = ()
    unit: Arrival | None = None
    seconds: float = 0.0


def rehearse(objects: Iterable[Object], now: float, unit: Sequence[Key], departures: Sequence[Departure]) -> Rehearsed:
    """Play the departures in order; each is waited for before the next. `unit`: the claims that are to be allocated in the end."""
    return _Stage(objects, now).play(unit, departures)


class _Failed(Exception):
    pass


class _Stage:
    def __init__(self, objects: Iterable[Object], now: float) -> None:
        self._world = embedded_cluster(start=now)
        self._server = self._world.server
        for item in objects:
            try:
                self._server.load([clone(item)], exempt=True)
            except Refused:
                continue  # whoever read it has said so
        Runner(self._world, lambda: Engine(EngineSettings())).start()
        self._arrivals: list[Arrival] = []
        self._started = now

    def play(self, unit: Sequence[Key], departures: Sequence[Departure]) -> Rehearsed:
        self._world.run_until(self._world.now + SETTLE)
        self._started = self._world.now
        moved = {uid for departure in departures for uid in departure.claims}
        others = {uid: found for uid, found in self._allocated().items() if uid not in moved}
        try:
            if not departures and not self._has(unit):
                raise _Failed("it does not get its devices although nobody is in the way")
            for departure in departures:
                self._depart(departure)
            self._wait(lambda: self._has(unit), "it still does not get its devices")
            self._compare(others)
        except _Failed as failure:
            return Rehearsed(str(failure), tuple(self._arrivals))
        return Rehearsed("", tuple(self._arrivals), self._unit(unit), self._world.now - self._started)

    # -- one departure

    def _depart(self, departure: Departure) -> None:
        if departure.pod is None:
            for uid in departure.claims:
                self._free(uid)
            return
        pod = self._server.store.get(PODS, departure.pod)
        if pod is None:
            raise _Failed(f"pod {departure.pod} is gone already")
        controller = _controller(pod)
        before = {item["metadata"]["uid"] for item in self._pods_of(controller)}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": departure.pod.name}}
        response = self._server.handle(Request("POST", PODS.path(*departure.pod, "eviction"), body), ADMIN)
        if not response.ok:
            raise _Failed(f"pod {departure.pod} cannot be evicted: {response.message}")

        def successor() -> Object | None:
            new = (item for item in self._pods_of(controller) if item["metadata"]["uid"] not in before)
            return next((item for item in new if item["spec"].get("nodeName")), None)

        self._wait(
            lambda: successor() is not None and self._gone(pod),
            f"the pod that takes the place of {departure.pod} finds none",
        )
        new = successor()
        assert new is not None
        claims = [self._server.store.get(RESOURCE_CLAIMS, key) for key in _claims_of(new)]
        devices = tuple(device for claim in claims if claim is not None for device in _devices(claim))
        key = Key(new["metadata"]["namespace"], new["metadata"]["name"])
        self._arrivals.append(Arrival(str(key), new["spec"]["nodeName"], devices))

    def _free(self, uid: str) -> None:
        """As the operator would: nobody else may."""
        claim = next((item for item in self._claims() if item["metadata"]["uid"] == uid), None)
        if claim is None:
            raise _Failed(f"the claim with UID {uid} is gone already")
        meta = claim["metadata"]
        key = Key(meta["namespace"], meta["name"])
        body = {**clone(claim), "status": {}}
        response = self._server.handle(Request("PUT", RESOURCE_CLAIMS.path(*key, "status"), body), OPERATOR)
        if not response.ok:
            raise _Failed(f"claim {key} cannot be freed: {response.message}")
        self._wait(lambda: bool(self._devices_of(key)), f"claim {key} gets no other devices")
        self._arrivals.append(Arrival(str(key), None, self._devices_of(key)))

    # -- looking

    def _wait(self, holds: Callable[[], bool], failure: str) -> None:
        end = self._world.now + PATIENCE
        while not holds():
            due = self._world.next_time
            if due is None or due > end:
                raise _Failed(failure)
            self._world.step()

    def _gone(self, pod: Object) -> bool:
        meta = pod["metadata"]
        now = self._server.store.get(PODS, Key(meta["namespace"], meta["name"]))
        return (
            now is None
            or now["metadata"]["uid"] != meta["uid"]
            or now["status"].get("phase") in ("Failed", "Succeeded")
        )

    def _claims(self) -> list[Object]:
        return list(self._server.store.listed(RESOURCE_CLAIMS))

    def _pods_of(self, controller: str) -> list[Object]:
        return [item for item in self._server.store.listed(PODS) if _controller(item) == controller]

    def _allocated(self) -> dict[str, tuple[str, ...]]:
        return {item["metadata"]["uid"]: _devices(item) for item in self._claims() if _devices(item)}

    def _devices_of(self, key: Key) -> tuple[str, ...]:
        claim = self._server.store.get(RESOURCE_CLAIMS, key)
        return () if claim is None else _devices(claim)

    def _has(self, claims: Sequence[Key]) -> bool:
        found = [self._server.store.get(RESOURCE_CLAIMS, key) for key in claims]
        return all(item is not None and (item.get("status") or {}).get("allocation") is not None for item in found)

    def _unit(self, claims: Sequence[Key]) -> Arrival:
        found = [self._server.store.get(RESOURCE_CLAIMS, key) for key in claims]
        nodes = [_node(item) for item in found if item is not None]
        devices = tuple(device for item in found if item is not None for device in _devices(item))
        return Arrival(", ".join(map(str, claims)), next((node for node in nodes if node), None), devices)

    def _compare(self, others: dict[str, tuple[str, ...]]) -> None:
        now = self._allocated()
        lost = [uid for uid, devices in others.items() if now.get(uid) != devices]
        if lost:
            raise _Failed(f"{len(lost)} other claim{'s' if len(lost) > 1 else ''} would lose devices by it")


def _controller(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _claims_of(pod: Object) -> list[Key]:
    namespace = pod["metadata"]["namespace"]
    generated = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    names = [
        entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims") or ()
    ]
    return [Key(namespace, name) for name in names if name]


def _results(claim: Object) -> list[dict[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def _devices(claim: Object) -> tuple[str, ...]:
    return tuple(f"{result['pool']}/{result['device']}" for result in _results(claim))


def _node(claim: Object) -> str | None:
    terms = (claim["status"]["allocation"].get("nodeSelector") or {}).get("nodeSelectorTerms") or [{}]
    fields = terms[0].get("matchFields") or [{}]
    return next(iter(fields[0].get("values") or ()), None)
