"""The two worlds behind one small interface: the embedded cluster and a real control plane, both with the policies installed."""

from __future__ import annotations

import http.client
import itertools
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

import orjson

from devcluster import ControlPlane, eventually
from devcluster.client import read_kubeconfig
from devcluster.connection import Connection
from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.identity import ADMIN, CLAIM_CONTROLLER, OPERATOR, SCHEDULER, User
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import BY_KIND, NAMESPACES, NODES, RESOURCE_CLAIMS, Request, Resource, Response

ROOT = Path(__file__).parents[3]
USERS: Mapping[str, User] = {
    "admin": ADMIN,
    "alice": User("alice"),
    "operator": OPERATOR,
    "scheduler": SCHEDULER,
    "kcm": CLAIM_CONTROLLER,
}
MANAGED = "dra-operator.dev/managed"
GATE = "dra-operator.dev/allocation"
FINALIZER = "resource.kubernetes.io/delete-protection"

Value = TypeVar("Value")
Event = tuple[str, dict[str, Any]]


class ClusterWorld(Protocol):
    """What a behaviour is tested through."""

    name: str

    def send(self, request: Request, as_user: str = "admin") -> Response: ...

    def watch(
        self, resource: Resource, namespace: str, since: str, until: Callable[[list[Event]], bool]
    ) -> list[Event]:
        """The changes after a resourceVersion, in order, until there are enough of them."""

    def eventually(self, check: Callable[[], Value], timeout: float = 30.0) -> Value:
        """Let time pass until `check` gives something true."""

    def pass_time(self, seconds: float) -> None: ...

    def add_nodes(self, count: int) -> list[str]:
        """Names of new nodes, Ready, with a kubelet."""


class MemoryWorld:
    name = "memory"

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes = itertools.count()

    def send(self, request: Request, as_user: str = "admin") -> Response:
        return self._world.server.handle(request, USERS[as_user])

    def watch(
        self, resource: Resource, namespace: str, since: str, until: Callable[[list[Event]], bool]
    ) -> list[Event]:
        def seen() -> list[Event]:
            try:
                found = self._world.server.watch_since(resource.kind, since)
            except Refused as refusal:
                return [("ERROR", refusal.response().body)]
            return [event for event in found if event[1]["metadata"].get("namespace", "") == namespace]

        self.eventually(lambda: until(seen()))
        return seen()

    def eventually(self, check: Callable[[], Value], timeout: float = 30.0) -> Value:
        end = self._world.now + timeout
        while not (value := _attempt(check)):
            assert self._world.now < end, f"not within {timeout} virtual seconds"
            self._world.run_until(self._world.now + 0.05)
        return value

    def pass_time(self, seconds: float) -> None:
        self._world.run_until(self._world.now + seconds)

    def add_nodes(self, count: int) -> list[str]:
        names = [f"node-{next(self._nodes)}" for _ in range(count)]
        for name in names:
            status = {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}
            self.send(Request("POST", NODES.path(), {"metadata": {"name": name}, "status": status}))
        return names


class RealWorld:
    name = "real"

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._server, self._token, self._authority = read_kubeconfig(plane.kubeconfig)
        self._connection = Connection(self._server, self._authority)

    def send(self, request: Request, as_user: str = "admin") -> Response:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": request.content_type}
        if as_user != "admin":
            # All rights, so that only admission can refuse.
            headers |= {"Impersonate-User": USERS[as_user].name, "Impersonate-Group": "system:masters"}
        path = request.path + (f"?{urlencode(request.query)}" if request.query else "")
        body = None if request.body is None else orjson.dumps(request.body)
        answer = self._connection.exchange(request.method, path, headers, body)
        is_json = answer.content_type == "application/json"
        return Response(answer.status, orjson.loads(answer.body) if is_json else {"message": answer.body.decode()})

    def watch(
        self, resource: Resource, namespace: str, since: str, until: Callable[[list[Event]], bool]
    ) -> list[Event]:
        query = urlencode({"watch": "1", "resourceVersion": since, "timeoutSeconds": "10"})
        address, tls = urlsplit(self._server), ssl.create_default_context(cadata=self._authority.decode())
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=30, context=tls)
        connection.request(
            "GET", f"{resource.path(namespace)}?{query}", headers={"Authorization": f"Bearer {self._token}"}
        )
        answer = connection.getresponse()
        events: list[Event] = []
        try:
            while not until(events) and (line := answer.readline()):
                event = orjson.loads(line)
                if "type" not in event:
                    return [("ERROR", event)]
                events.append((event["type"], event["object"]))
        finally:
            connection.close()
        return events

    def eventually(self, check: Callable[[], Value], timeout: float = 30.0) -> Value:
        # Virtual seconds are what callers think of; a loaded machine has a pace of its own.
        return eventually(check, 3 * timeout)

    def pass_time(self, seconds: float) -> None:
        # Nothing is waited for here that could be seen: it is about what must *not* happen.
        eventually(_once_after(seconds), seconds + 5)

    def add_nodes(self, count: int) -> list[str]:
        return self.plane.add_nodes("l4", count=count, prefix="semantics")


def _attempt(check: Callable[[], Value]) -> Value | None:
    try:
        return check()
    except Exception:
        return None


def _once_after(seconds: float) -> Callable[[], bool]:
    looks = itertools.count()
    return lambda: next(looks) * 0.05 >= seconds


def memory_world() -> MemoryWorld:
    return MemoryWorld(embedded_cluster(seed=1))


def install(plane: ControlPlane) -> RealWorld:
    """The CRDs and the policies of the manifests on a fresh control plane; ready when the policies act."""
    for folder in ("crds", "manifests/base"):
        for file in sorted((ROOT / folder).glob("*.yaml")):
            if (folder == "crds" and file.name != "kustomization.yaml") or file.name.startswith("admission"):
                plane.kubectl("apply", "--server-side", "-f", str(file))
    world = RealWorld(plane)
    world.eventually(lambda: _policies_act(world), 60.0)
    return world


def _policies_act(world: RealWorld) -> bool:
    """New policies come into force a moment after they are stored: try one of each kind."""
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "probe"}, "spec": {"devices": {"requests": [request]}}}
    container = {"name": "c", "image": "i"}
    pod = {
        "metadata": {"name": "probe"},
        "spec": {"containers": [container], "resourceClaims": [{"name": "x", "resourceClaimName": "y"}]},
    }
    dry = {"dryRun": "All"}
    claims, pods = RESOURCE_CLAIMS.path("default"), BY_KIND["Pod"].path("default")
    marked = world.send(Request("POST", claims, claim, query=dry)).body["metadata"].get("labels")
    gated = world.send(Request("POST", pods, pod, query=dry)).body["spec"].get("schedulingGates")
    claim["metadata"] = {"name": "probe", "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    annotated = world.send(Request("POST", claims, claim, query=dry)).status
    report = {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimReport",
        "metadata": {"name": "probe"},
        "status": {"phase": "Queued"},
    }
    reported = world.send(Request("POST", BY_KIND["ClaimReport"].path("default"), report, query=dry)).status
    device_class = {"metadata": {"name": "probe"}, "spec": {}}
    classes = BY_KIND["DeviceClass"].path()
    of_nobody = world.send(Request("POST", classes, device_class, query=dry), "operator").status
    return bool(marked and gated) and annotated == 403 and reported == 403 and of_nobody == 403


class Place:
    """A fresh namespace of a world, with shorthands. `exempt`: one that is labelled to be left to kube-scheduler."""

    _numbers = itertools.count()

    def __init__(self, world: ClusterWorld, *, exempt: bool = False) -> None:
        self.world = world
        self.namespace = f"semantics-{next(Place._numbers)}"
        labels = {MANAGED: "false"} if exempt else {}
        response = world.send(
            Request("POST", NAMESPACES.path(), {"metadata": {"name": self.namespace, "labels": labels}})
        )
        assert response.ok, response.message
        if world.name == "real":
            account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
            world.eventually(lambda: world.send(Request("GET", account)).ok)

    def path(self, kind: str, name: str = "", sub: str = "") -> str:
        resource = BY_KIND[kind]
        return resource.path(self.namespace if resource.namespaced else "", name, sub)

    def send(
        self,
        method: str,
        kind: str,
        name: str = "",
        body: Any = None,
        *,
        sub: str = "",
        by: str = "admin",
        type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Response:
        return self.world.send(Request(method, self.path(kind, name, sub), body, type, query or {}), by)

    def must(self, method: str, kind: str, name: str = "", body: Any = None, **more: Any) -> dict[str, Any]:
        response = self.send(method, kind, name, body, **more)
        assert response.ok, f"{method} {kind} {name}: {response.status} {response.message}"
        return response.body

    def create(self, item: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self.must("POST", item["kind"], body=item, **more)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.must("GET", kind, name)

    def gone(self, kind: str, name: str) -> bool:
        return self.send("GET", kind, name).status == 404

    def eventually(self, check: Callable[[], Value], timeout: float = 30.0) -> Value:
        return self.world.eventually(check, timeout)
