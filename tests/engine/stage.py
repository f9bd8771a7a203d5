"""A small embedded cluster with the engine running in it, and short names for the objects that tests put there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.faults import Faults
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.scenario import Player
from dra_operator.cluster.rest import BY_KIND, MERGE_PATCH, Request
from dra_operator.engine.decisions import RecordEvent
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings

GPU = "gpu.example.com"
Object = dict[str, Any]


class Stage:
    """`apply` objects, `run` for some seconds, look."""

    def __init__(self, *objects: Object, faults: Faults | None = None, settings: EngineSettings | None = None) -> None:
        self.world = embedded_cluster()
        self.player = Player(self.world)
        self.engines: list[Engine] = []
        self.apply(*objects)
        self.runner = Runner(self.world, lambda: self._engine(settings), faults=faults)
        self.runner.start()

    def _engine(self, settings: EngineSettings | None) -> Engine:
        self.engines.append(Engine(settings))
        return self.engines[-1]

    def apply(self, *objects: Object) -> None:
        self.player.apply(list(objects))
        assert not self.player.troubles, self.player.troubles

    def run(self, seconds: float = 60.0) -> Stage:
        self.world.run_until(self.world.now + seconds)
        return self

    def until(self, holds: Callable[[], object], limit: float = 600.0) -> None:
        """Step until `holds`; fails after `limit` virtual seconds."""
        end = self.world.now + limit
        while not holds():
            assert self.world.now < end, "it did not happen in time"
            self.world.step()

    def send(
        self, method: str, kind: str, name: str, body: Any = None, *, namespace: str = "default", sub: str = ""
    ) -> Any:
        resource = BY_KIND[kind]
        path = resource.path(namespace if resource.namespaced else "", name, sub)
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        response = self.world.server.handle(Request(method, path, body, content_type), ADMIN)
        assert response.ok, response.body
        return response.body

    def patch(self, kind: str, name: str, body: Object, *, namespace: str = "default") -> None:
        self.send("PATCH", kind, name, body, namespace=namespace)

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> None:
        self.send("DELETE", kind, name, namespace=namespace)

    # -- looking

    def objects(self, kind: str, namespace: str | None = None) -> list[Object]:
        listed = self.world.server.store.listed(BY_KIND[kind])
        return [item for item in listed if namespace is None or item["metadata"].get("namespace") == namespace]

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        resource = BY_KIND[kind]
        key = Key(namespace if resource.namespaced else "", name)
        return next((item for item in self.objects(kind) if _key(item) == key), None)

    def report(self, name: str, namespace: str = "default") -> Object:
        found = self.get("ClaimReport", name, namespace)
        assert found is not None, f"no report of {name}"
        status: Object = found["status"]
        return status

    def phases(self) -> dict[str, str]:
        return {item["metadata"]["name"]: item["status"]["phase"] for item in self.objects("ClaimReport")}

    def devices(self, name: str, namespace: str = "default") -> list[str]:
        """pool/device of the claim's allocation, sorted; empty where it has none."""
        found = self.get("ResourceClaim", name, namespace)
        allocation = ((found or {}).get("status") or {}).get("allocation")
        if not allocation:
            return []
        return sorted(f"{result['pool']}/{result['device']}" for result in allocation["devices"]["results"])

    def taken(self) -> list[str]:
        """Every device of every allocation, with repetitions."""
        names = [(item["metadata"]["name"], item["metadata"]["namespace"]) for item in self.objects("ResourceClaim")]
        return sorted(device for name, namespace in names for device in self.devices(name, namespace))

    def bound(self) -> dict[str, str]:
        """Pod name to node, of pods that run or are about to."""
        return {
            item["metadata"]["name"]: item["spec"]["nodeName"]
            for item in self.objects("Pod")
            if item["spec"].get("nodeName") and not item["metadata"].get("deletionTimestamp")
        }

    def gates(self, pod: str) -> list[str]:
        found = self.get("Pod", pod)
        assert found is not None
        return [gate["name"] for gate in found["spec"].get("schedulingGates") or ()]

    def events(self, reason: str) -> list[str]:
        """The notes of the Events with this reason, as decided."""
        decisions = [each.decision for each in self.runner.executed]
        return [item.note for item in decisions if isinstance(item, RecordEvent) and item.reason == reason]


def _key(item: Object) -> Key:
    return Key(item["metadata"].get("namespace") or "", item["metadata"]["name"])


# -- objects


def node(name: str, *, cpu: str = "32", spec: Object | None = None, **labels: str) -> Object:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    status = {"allocatable": allocatable, "capacity": allocatable}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec or {}, "status": status}


def gpus(node_name: str, count: int, **attributes: Any) -> Object:
    """A slice of `count` GPUs named gpu-0 …; pool = node."""
    values = {
        name: {"int": value} if isinstance(value, int) else {"string": value} for name, value in attributes.items()
    }
    devices = [{"name": f"gpu-{index}", "attributes": {"index": {"int": index}, **values}} for index in range(count)]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": node_name, "pool": pool, "devices": devices}
    return _resource("ResourceSlice", {"name": f"{node_name}-gpus"}, spec)


def device_class(name: str = "gpu", expression: str = f'device.driver == "{GPU}"') -> Object:
    return _resource("DeviceClass", {"name": name}, {"selectors": [{"cel": {"expression": expression}}]})


def _resource(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def devices_spec(count: int = 1, *, of: str = "gpu", selector: str | None = None) -> Object:
    exactly: Object = {"deviceClassName": of, "count": count}
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim(
    name: str, count: int = 1, *, namespace: str = "default", of: str = "gpu", selector: str | None = None
) -> Object:
    return _resource(
        "ResourceClaim", {"name": name, "namespace": namespace}, devices_spec(count, of=of, selector=selector)
    )


def template(name: str = "gpu", count: int = 1, *, namespace: str = "default", of: str = "gpu") -> Object:
    return _resource(
        "ResourceClaimTemplate", {"name": name, "namespace": namespace}, {"spec": devices_spec(count, of=of)}
    )


def pod_spec(*claims: str, templates: Iterable[str] = (), cpu: str = "1", **spec: Any) -> Object:
    entries = [{"name": f"c{index}", "resourceClaimName": name} for index, name in enumerate(claims)]
    entries += [{"name": f"t{index}", "resourceClaimTemplateName": name} for index, name in enumerate(templates)]
    resources = {"requests": {"cpu": cpu}, "claims": [{"name": entry["name"]} for entry in entries]}
    container = {"name": "main", "image": "pause", "resources": resources}
    return {"containers": [container], "resourceClaims": entries, "terminationGracePeriodSeconds": 1, **spec}


def pod(name: str, *claims: str, namespace: str = "default", labels: Object | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(*claims, **spec)}


def workload(kind: str, name: str, replicas: int = 1, *, namespace: str = "default", **spec: Any) -> Object:
    """A Deployment, StatefulSet, DaemonSet or Job whose pods take one claim each from template `gpu`."""
    spec.setdefault("templates", ["gpu"])
    body: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(**spec)},
    }
    if kind == "Job":
        del body["selector"]
        body |= {"parallelism": replicas, "completions": replicas}
        body["template"]["spec"]["restartPolicy"] = "Never"
    elif kind != "DaemonSet":
        body["replicas"] = replicas
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": body}


def policy(name: str = "p", **spec: Any) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def priority_class(name: str, value: int, **fields: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
