"""One namespace on the real control plane: put objects there, and look at what became of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from devcluster import ControlPlane, eventually
from tests.real.workloads import OURS, RESOURCE, devices, listed

Object = dict[str, Any]

GATE = "dra-operator.dev/allocation"
MANAGED = "dra-operator.dev/managed"
PATIENCE = 90.0


def claim(name: str, device_class: str, count: int = 1, selector: str | None = None) -> Object:
    exactly: Object = {"deviceClassName": device_class, "count": count}
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }  # fmt: skip


def pod_spec(*claims: str, template: str = "", **spec: Any) -> Object:
    """A pod spec that uses named claims, and one of a template where `template` names it."""
    used: list[Object] = [{"name": name, "resourceClaimName": name} for name in claims]
    if template:
        used.append({"name": "generated", "resourceClaimTemplateName": template})
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": each["name"]} for each in used]}}
    base = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {**base, **({"resourceClaims": used} if used else {}), **spec}


def pod(name: str, *claims: str, template: str = "", **spec: Any) -> Object:
    metadata = {"name": name, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod_spec(*claims, template=template, **spec),
    }


def workload(kind: str, name: str, template: str, replicas: int = 1, **spec: Any) -> Object:
    """A Deployment, StatefulSet or DaemonSet; `spec` is of its pods."""
    labels = {"app": name}
    body: Object = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(template=template, **spec)},
    }
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


@dataclass(frozen=True, slots=True)
class Scene:
    """`apply` objects, `wait` for what they lead to."""

    plane: ControlPlane
    namespace: str

    def apply(self, *objects: Object) -> None:
        text = "\n---\n".join(map(json.dumps, objects))
        self.plane.kubectl("apply", "--namespace", self.namespace, "-f", "-", input=text)

    def wait(self, holds: Callable[[], object], what: str) -> None:
        eventually(holds, PATIENCE, every=0.2, what=what)

    def pods(self, app: str = "") -> dict[str, Object]:
        """Pods by name that are not on their way out; `app`: of this workload or name."""
        found = {item["metadata"]["name"]: item for item in listed(self.plane, self.namespace, "pods")}
        return {
            name: item
            for name, item in found.items()
            if not item["metadata"].get("deletionTimestamp")
            and (not app or item["metadata"].get("labels", {}).get("app") == app)
        }

    def pod(self, name: str) -> Object:
        found: Object = self.plane.client.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return found

    def node(self, name: str) -> str | None:
        """The node a pod is bound to."""
        found: str | None = self.pod(name)["spec"].get("nodeName")
        return found

    def gates(self, name: str) -> list[str]:
        return [gate["name"] for gate in self.pod(name)["spec"].get("schedulingGates") or ()]

    def bound(self, app: str = "") -> dict[str, str]:
        pods = self.pods(app).items()
        return {name: item["spec"]["nodeName"] for name, item in pods if item["spec"].get("nodeName")}

    def claim(self, name: str) -> Object:
        found: Object = self.plane.client.get(f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/{name}")
        return found

    def claim_of(self, pod_name: str) -> Object:
        """The claim generated for a pod."""
        statuses = self.pod(pod_name)["status"]["resourceClaimStatuses"]
        return self.claim(statuses[0]["resourceClaimName"])

    def report(self, name: str) -> Object:
        """The status of a claim's report."""
        found: Object = self.plane.client.get(f"{OURS}/namespaces/{self.namespace}/claimreports/{name}")["status"]
        return found

    def summary(self, name: str) -> str:
        """Phase, reason and explanation of a claim's report in one text."""
        status = self.report(name)
        return " ".join((status["phase"], status.get("reason", ""), status.get("explanation", {}).get("summary", "")))

    def taken(self) -> list[tuple[str, str, str]]:
        return [device for item in listed(self.plane, self.namespace, "resourceclaims") for device in devices(item)]

    def events(self, reason: str, regarding: str = "") -> list[str]:
        """The notes of the Events with this reason, of this object."""
        items = self.plane.client.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return [
            item.get("note", "")
            for item in items
            if item["reason"] == reason and (not regarding or item["regarding"]["name"] == regarding)
        ]

    @contextlib.contextmanager
    def scheduler_stopped(self) -> Iterator[None]:
        """Nothing is bound inside the block, so that what happens between ungating and binding can be staged."""
        self.plane.stop_scheduler()
        try:
            yield
        finally:
            self.plane.start_scheduler()
