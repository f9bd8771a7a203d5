"""One burst of pods with a claim each on a real control plane, measured from outside: when each was seen, and when it was bound.

Knows nothing of who allocates: kube-scheduler alone and with the operator are measured alike.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import orjson

from devcluster import ControlPlane, eventually
from devcluster.client import in_parallel, read_kubeconfig

Kind = Literal["bare", "replicaset"]
RESOURCE = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
DEVICES = 8
#: The name of the DeviceClass, the claim template and the pods' label.
NAME = "burst"
PATIENCE = 240.0
#: Seconds after which a watch that tells nothing is opened anew.
_SILENCE = 30.0


class Incorrect(Exception):
    """The burst ended in a state that must not be."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in seconds. `total`: from the first request to the last binding; latencies: from a pod's creation to its binding."""

    pods: int
    total: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.total


def make_nodes(plane: ControlPlane, count: int) -> list[str]:
    """Nodes with one slice of `DEVICES` devices each; returns their names once they are Ready."""
    names = [f"{NAME}-{number:04}" for number in range(count)]
    in_parallel(lambda name: _make_node(plane, name), names)

    def ready() -> bool:
        listed = plane.client.get("/api/v1/nodes?resourceVersion=0")["items"]
        return set(names) <= {node["metadata"]["name"] for node in listed if not node["spec"].get("taints")}

    eventually(ready, PATIENCE, every=0.5, what="the nodes are Ready")
    return names


def _make_node(plane: ControlPlane, name: str) -> None:
    room = {"cpu": "96", "memory": "1Ti", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    node = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}}
    uid = plane.client.post("/api/v1/nodes", node)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": "a"}, "index": {"int": index}},
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for index in range(DEVICES)
    ]
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    body = {"metadata": {"name": f"{name}-gpu", "ownerReferences": [owner]}, "spec": spec}
    plane.client.post(f"{RESOURCE}/resourceslices", body)


def make_class(plane: ControlPlane) -> None:
    """The DeviceClass that the burst's claims name."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    plane.client.post(f"{RESOURCE}/deviceclasses", {"metadata": {"name": NAME}, "spec": {"selectors": selectors}})


class Burst:
    """Pods of one kind in one namespace. The class and the nodes must be there."""

    def __init__(self, plane: ControlPlane, namespace: str, pods: int, kind: Kind) -> None:
        self._plane, self._namespace, self._pods, self._kind = plane, namespace, pods, kind
        request = {"name": "gpu", "exactly": {"deviceClassName": NAME}}
        template = {"metadata": {"name": NAME}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        plane.client.post(f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", template)

    def run(self) -> Measured:
        """Make the pods and wait until all are bound. Raises NeverHappened."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        created = Arrivals(self._plane, f"{path}?watch=1&fieldSelector=spec.nodeName%3D")
        bound = Arrivals(self._plane, f"{path}?watch=1&fieldSelector=spec.nodeName%21%3D")
        try:
            began = time.monotonic()
            self._create()
            eventually(lambda: len(bound.at) >= self._pods, PATIENCE, every=0.1, what=f"{self._pods} pods are bound")
        finally:
            created.stop()
            bound.stop()
        waits = [at - created.at.get(name, began) for name, at in bound.at.items()]
        cuts = statistics.quantiles(waits, n=100, method="inclusive")
        return Measured(len(bound.at), max(bound.at.values()) - began, cuts[49], cuts[98])

    def _create(self) -> None:
        spec = {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": NAME}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
        }
        labels = {"app": NAME}
        if self._kind == "replicaset":
            template = {"metadata": {"labels": labels}, "spec": spec}
            body = {"replicas": self._pods, "selector": {"matchLabels": labels}, "template": template}
            path = f"/apis/apps/v1/namespaces/{self._namespace}/replicasets"
            self._plane.client.post(path, {"metadata": {"name": NAME}, "spec": body})
            return
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        bodies = [{"metadata": {"name": f"{NAME}-{n:04}", "labels": labels}, "spec": spec} for n in range(self._pods)]
        in_parallel(lambda body: self._plane.client.post(path, body), bodies)

    def check(self) -> None:
        """Every pod is bound to the node of its own device. Raises Incorrect."""
        pods = self._plane.client.get(f"/api/v1/namespaces/{self._namespace}/pods")["items"]
        where = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods}
        if len(where) != self._pods or not all(where.values()):
            raise Incorrect(f"{sum(map(bool, where.values()))} of {len(where)} pods are bound, {self._pods} were made")
        claims = self._plane.client.get(f"{RESOURCE}/namespaces/{self._namespace}/resourceclaims")["items"]
        taken: dict[tuple[str, str], str] = {}
        for claim in claims:
            allocation = claim.get("status", {}).get("allocation")
            results = allocation["devices"]["results"] if allocation else []
            users = [user["uid"] for user in claim.get("status", {}).get("reservedFor", [])]
            name = claim["metadata"]["name"]
            if len(results) != 1 or len(users) != 1:
                raise Incorrect(f"claim {name} has {len(results)} devices and {len(users)} users, not one of each")
            device = results[0]["pool"], results[0]["device"]
            if device in taken:
                raise Incorrect(f"{device[0]}/{device[1]} is allocated twice: to {taken[device]} and {name}")
            taken[device] = name
            if where.get(users[0]) != device[0]:
                raise Incorrect(f"claim {name} is on {device[0]}, its pod on {where.get(users[0])}")
        if len(taken) != self._pods:
            raise Incorrect(f"{len(taken)} devices are allocated to {self._pods} pods")


class Arrivals:
    """When each object first appeared in a watch, by name; metadata only, in a thread of its own, so as to cost little."""

    def __init__(self, plane: ControlPlane, path: str) -> None:
        server, self._token, authority = read_kubeconfig(plane.kubeconfig)
        self._address, self._path = urlsplit(server), path
        self._tls = ssl.create_default_context(cadata=authority.decode())
        self.at: dict[str, float] = {}
        self._stopped = threading.Event()
        self._answer = self._open()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _open(self) -> http.client.HTTPResponse:
        self._connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=_SILENCE, context=self._tls
        )
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        self._connection.request(
            "GET", self._path, headers={"Authorization": f"Bearer {self._token}", "Accept": accept}
        )
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise Incorrect(f"GET {self._path}: {answer.status} {answer.read().decode()}")
        return answer

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                while line := self._answer.readline():
                    event = orjson.loads(line)
                    if event["type"] == "ADDED":
                        self.at.setdefault(event["object"]["metadata"]["name"], time.monotonic())
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                pass  # lost, silent, or closed by `stop`
            # A fresh API server may end its first watches at once; the next one tells all anew.
            while not self._stopped.is_set():
                self._connection.close()
                try:
                    self._answer = self._open()
                    break
                except (OSError, http.client.HTTPException, Incorrect):
                    self._stopped.wait(0.5)

    def stop(self) -> None:
        """End the watch. A thread that does not notice ends with the process: closing under it would wait for it."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._connection.close()


def make_namespace(plane: ControlPlane) -> str:
    """A fresh namespace in which pods can be made."""
    name: str = plane.client.post("/api/v1/namespaces", {"metadata": {"generateName": f"{NAME}-"}})["metadata"]["name"]
    eventually(lambda: plane.client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    return name
