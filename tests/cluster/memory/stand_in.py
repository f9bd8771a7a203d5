"""Objects, shorthands and the least that an engine can be, for the tests of the memory world itself."""

from __future__ import annotations

import itertools
from typing import Any

from dra_operator.api.meta import Key, format_time
from dra_operator.api.selectors import node_by_name
from dra_operator.cluster.memory.actors.objects import claim_names
from dra_operator.cluster.memory.admission import GATE
from dra_operator.cluster.memory.identity import ADMIN, User
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import BY_KIND, Request, Response
from dra_operator.engine.decisions import PatchClaim, PatchPod, WriteClaimStatus

FINALIZER = "resource.kubernetes.io/delete-protection"


class FirstFree:
    """The least that an engine can be: the first free device for each claim of a gated pod, then the gate is removed.

    One device a claim; selectors, classes and priorities are not looked at. It knows only what it has observed.
    """

    def __init__(self) -> None:
        self.pods: dict[Key, dict[str, Any]] = {}
        self.claims: dict[Key, dict[str, Any]] = {}
        self.slices: dict[Key, dict[str, Any]] = {}
        self.unsynced = {"Pod", "ResourceClaim", "ResourceSlice"}
        self.assumed: dict[Key, tuple[str, str, str]] = {}
        self.pending: set[Key] = set()
        self.ids = itertools.count()

    def observe(self, kind: str, type: str, object: dict[str, Any], now: float) -> None:
        table = {"Pod": self.pods, "ResourceClaim": self.claims, "ResourceSlice": self.slices}.get(kind)
        if table is None:
            return
        meta = object["metadata"]
        key = Key(meta.get("namespace", ""), meta["name"])
        table.pop(key, None)
        if type != "DELETED":
            table[key] = object

    def synced(self, kind: str) -> None:
        self.unsynced.discard(kind)

    def replaced(self, kind: str, keys: set[Key], now: float) -> None:
        table = {"Pod": self.pods, "ResourceClaim": self.claims, "ResourceSlice": self.slices}.get(kind, {})
        for key in set(table) - keys:
            del table[key]

    def next_wake(self, now: float) -> float | None:
        return None

    def settle(self, outcome: Any, now: float) -> None:
        decision = outcome.decision
        key = decision.pod if isinstance(decision, PatchPod) else decision.claim
        self.pending.discard(key)
        if not outcome.ok:
            self.assumed.pop(key, None)
        elif isinstance(decision, WriteClaimStatus | PatchClaim):
            self.observe("ResourceClaim", "MODIFIED", outcome.object, now)

    def decide(self, now: float) -> list[Any]:
        if self.unsynced:
            return []
        return [decision for pod in list(self.pods.values()) for decision in self._serve(pod, now)]

    def _serve(self, pod: dict[str, Any], now: float) -> list[Any]:
        key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        if gates != [GATE] or key in self.pending or pod["metadata"].get("deletionTimestamp"):
            return []
        claims = [self.claims.get(Key(key.namespace, name or "")) for name in claim_names(pod).values()]
        if any(claim is None for claim in claims):
            return []
        decisions = [
            self._write(claim, pod, now) for claim in claims if claim and not claim["status"].get("allocation")
        ]
        if decisions:
            return [decision for decision in decisions if decision is not None]
        self.pending.add(key)
        patch = {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]},
        }
        return [PatchPod(next(self.ids), key, pod["metadata"]["uid"], patch, None)]

    def _write(self, claim: dict[str, Any], pod: dict[str, Any], now: float) -> Any:
        key = Key(claim["metadata"]["namespace"], claim["metadata"]["name"])
        if key in self.pending:
            return None
        meta = claim["metadata"]
        if FINALIZER not in meta.get("finalizers", ()):
            self.pending.add(key)
            patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": [FINALIZER]}}
            return PatchClaim(next(self.ids), key, meta["uid"], patch, "protect")
        device = self._free()
        if device is None:
            return None
        self.pending.add(key)
        self.assumed[key] = device
        driver, pool, name = device
        result = {
            "request": claim["spec"]["devices"]["requests"][0]["name"],
            "driver": driver,
            "pool": pool,
            "device": name,
        }
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": node_by_name(pool),
            "allocationTimestamp": format_time(now),
        }
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        body = {**claim, "status": {"allocation": allocation, "reservedFor": [consumer]}}
        return WriteClaimStatus(next(self.ids), key, meta["uid"], body, "allocate")

    def _free(self) -> tuple[str, str, str] | None:
        taken = {device for key, device in self.assumed.items() if key in self.pending}
        for claim in self.claims.values():
            for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ()):
                taken.add((result["driver"], result["pool"], result["device"]))
        for item in self.slices.values():
            for device in item["spec"]["devices"]:
                found = item["spec"]["driver"], item["spec"]["pool"]["name"], device["name"]
                if found not in taken:
                    return found
        return None


class Cluster:
    """A world with shorthands for tests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.start = world.now

    @property
    def time(self) -> float:
        return self.world.now - self.start

    def send(
        self,
        method: str,
        kind: str,
        name: str = "",
        body: Any = None,
        *,
        namespace: str = "default",
        sub: str = "",
        user: User = ADMIN,
        **more: Any,
    ) -> Response:
        resource = BY_KIND[kind]
        path = resource.path(namespace if resource.namespaced else "", name, sub)
        return self.world.server.handle(Request(method, path, body, **more), user)

    def apply(self, *objects: dict[str, Any]) -> None:
        for item in objects:
            namespace = item["metadata"].get("namespace", "default")
            response = self.send("POST", item["kind"], body=item, namespace=namespace)
            assert response.ok, response.message

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        response = self.send("GET", kind, name, namespace=namespace)
        return response.body if response.ok else None

    def all(self, kind: str) -> list[dict[str, Any]]:
        return list(self.world.server.store.listed(BY_KIND[kind]))

    def run(self, seconds: float = 1.0) -> None:
        self.world.run_until(self.world.now + seconds)

    def operate(self, **options: Any) -> Runner:
        runner = Runner(self.world, FirstFree, **options)
        runner.start()
        return runner


def node(name: str, cpu: str = "16", **labels: str) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    }


def slice_of(node_name: str, devices: int = 2, driver: str = "gpu.example.com") -> dict[str, Any]:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
        },
    }


def device_class(name: str = "gpu") -> dict[str, Any]:
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


CLAIM_SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def claim(name: str, **meta: Any) -> dict[str, Any]:
    return {"kind": "ResourceClaim", "metadata": {"name": name, **meta}, "spec": CLAIM_SPEC}


def template(name: str = "gpu") -> dict[str, Any]:
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": CLAIM_SPEC}}


def pod_spec(*, template: str | None = "gpu", claim: str | None = None, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    entry = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    claims = [{"name": "gpu", **entry}] if claim or template else []
    return {
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
        "terminationGracePeriodSeconds": 2,
        **({"resourceClaims": claims} if claims else {}),
        **spec,
    }


def pod(
    name: str, *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": pod_spec(**spec),
    }


def deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(**spec)},
        },
    }
