"""The API server as any user, and the objects that the tests of the manifests send it.

Users are impersonated, by default with all rights, so that only admission can refuse.
"""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from devcluster import ControlPlane
from devcluster.client import MERGE_PATCH, read_kubeconfig

MANAGED = "dra-operator.dev/managed"
GATE = "dra-operator.dev/allocation"
FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"

OPERATOR = "system:serviceaccount:dra-operator:dra-operator"
SCHEDULER = "system:kube-scheduler"
KCM = "system:serviceaccount:kube-system:resource-claim-controller"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
DRIVER = "system:serviceaccount:gpu-driver:plugin"
USER = "alice"

numbers = itertools.count(1)


class Cluster:
    """The API as any user; answers are (HTTP status, body)."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        server, self._token, authority = read_kubeconfig(plane.kubeconfig)
        self._address = urlsplit(server)
        self._tls = ssl.create_default_context(cadata=authority.decode())

    def call(
        self,
        user: str,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        groups: tuple[str, ...] = ("system:masters",),
    ) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=30, context=self._tls
        )
        connection.putrequest(method, path)
        connection.putheader("Authorization", f"Bearer {self._token}")
        connection.putheader("Content-Type", content_type)
        connection.putheader("Impersonate-User", user)
        for group in groups:
            connection.putheader("Impersonate-Group", group)
        data = b"" if body is None else json.dumps(body).encode()
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        decoded = json.loads(answer.read())
        connection.close()
        return answer.status, decoded

    def must(self, user: str, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        status, answer = self.call(user, method, path, body, content_type)
        assert status < 300, answer
        return answer

    def claim(self, kind: str, namespace: str = "default") -> dict[str, Any]:
        """A claim that is `managed` or `unmanaged`, then `free` or `allocated`, made as they come about."""
        owner, state = kind.split()
        name = f"c{next(numbers)}"
        body = claim(name)
        if owner == "unmanaged":
            namespace = "exempt"
        path = claims(namespace)
        stored: dict[str, Any] = self.must(USER, "POST", path, body)
        if state == "allocated":
            if owner == "unmanaged":
                finalizer = {"metadata": {"finalizers": [FINALIZER]}}
                stored = self.must(SCHEDULER, "PATCH", f"{path}/{name}", finalizer, MERGE_PATCH)
            writer = OPERATOR if owner == "managed" else SCHEDULER
            stored = self.must(writer, "PUT", f"{path}/{name}/status", allocated(stored))
        return stored


def claims(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def templates(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def reports(namespace: str) -> str:
    return f"/apis/dra-operator.dev/v1alpha1/namespaces/{namespace}/claimreports"


def claim(name: str, **metadata: Any) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": [request]}}}


def allocated(stored: dict[str, Any]) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    return {**stored, "status": {"allocation": allocation}}


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", **spec.pop("container", {})}
    body = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}], **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": body}


def report(name: str, phase: str = "Queued") -> dict[str, Any]:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimReport",
        "metadata": {"name": name},
        "status": {"phase": phase},
    }
