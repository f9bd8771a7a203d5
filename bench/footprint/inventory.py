"""The objects of a large cluster as an API server would list them: nodes, slices, claims, their pods and reports.

Shaped like the real ones, with the parts that nobody here reads (images of nodes, volumes and statuses of pods, managedFields),
because those are what reading lean is about.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from dra_operator.api.claims import DeviceClass
from dra_operator.api.meta import format_time
from dra_operator.cluster.rest import (
    CLAIM_REPORTS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_operator.engine.drift import ClassMark, mark_of

Raw = dict[str, Any]
DRIVER = "gpu.example.com"
CLASS = "gpu"
#: Claims and their pods are spread over this many namespaces, the daemons are in one of their own.
NAMESPACE_COUNT = 50
DAEMONS = "daemons"
LABEL, GATE, FINALIZER = (
    "dra-operator.dev/managed",
    "dra-operator.dev/allocation",
    "resource.kubernetes.io/delete-protection",
)
BORN = format_time(1_700_000_000)


class Inventory:
    """Makes objects; every one has a resourceVersion of its own, in the order in which they were made."""

    def __init__(self, nodes: int, devices: int, claims: int, waiting: int) -> None:
        """`claims` in all, of which `waiting` are not allocated; every claim has a pod. Two more pods on every node."""
        self._nodes, self._devices, self._claims, self._waiting = nodes, devices, claims, waiting
        self._revisions = itertools.count(1000)

    def objects(self) -> Iterator[tuple[Resource, Raw]]:
        for name in [*(f"team-{number:02}" for number in range(NAMESPACE_COUNT)), DAEMONS]:
            yield NAMESPACES, self.stored({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})
        device_class = self.stored({"metadata": {"name": CLASS}, "spec": {"selectors": [selector()]}})
        yield DEVICE_CLASSES, device_class
        mark = mark_of(DeviceClass.from_dict(device_class))
        for number in range(NAMESPACE_COUNT):
            metadata = {"name": CLASS, "namespace": f"team-{number:02}"}
            yield RESOURCE_CLAIM_TEMPLATES, self.stored({"metadata": metadata, "spec": {"spec": claim_spec()}})
        for number in range(self._nodes):
            yield NODES, self.stored(node(number))
            yield RESOURCE_SLICES, self.stored(resource_slice(number, self._devices))
            for name in ("network", "monitor"):
                yield PODS, self.stored(daemon(name, number))
        taken = self._claims - self._waiting
        for number in range(self._claims):
            place = (number // self._devices % self._nodes, number % self._devices) if number < taken else None
            pod, claim = self.arrival(f"job-{number:05}", number % NAMESPACE_COUNT, place)
            yield PODS, pod
            yield RESOURCE_CLAIMS, claim
            if place is not None:
                yield CLAIM_REPORTS, self.stored(report(claim, pod, place, mark))

    def arrival(self, name: str, namespace: int, place: tuple[int, int] | None) -> tuple[Raw, Raw]:
        """A pod with a claim from a template; gated, or bound where it has a place (node, device)."""
        team = f"team-{namespace:02}"
        made = self.stored(pod(name, team, None if place is None else node_name(place[0])))
        return made, self.stored(claim(made, place))

    def stored(self, item: Raw) -> Raw:
        """With what the API server adds."""
        metadata = item["metadata"]
        revision = next(self._revisions)
        metadata.setdefault("uid", f"00000000-0000-4000-8000-{revision:012}")
        metadata.setdefault("creationTimestamp", BORN)
        metadata["resourceVersion"] = str(revision)
        metadata["managedFields"] = managed_fields()
        return item


def node_name(number: int) -> str:
    return f"node-{number:05}.example.com"


def selector() -> Raw:
    return {"cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'}}


def claim_spec() -> Raw:
    expression = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    exactly = {
        "deviceClassName": CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def managed_fields() -> list[Raw]:
    def names(*fields: str) -> Raw:
        return {"f:metadata": {f"f:{field}": {} for field in fields}, "f:spec": {f"f:{field}": {} for field in fields}}

    fields = (
        "annotations",
        "labels",
        "ownerReferences",
        "finalizers",
        "containers",
        "tolerations",
        "volumes",
        "nodeName",
    )
    return [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": BORN, "fieldsV1": names(*fields)}
        for manager in ("kube-controller-manager", "kubelet")
    ]


def node(number: int) -> Raw:
    name = node_name(number)
    room = {
        "cpu": "96",
        "memory": "1056370432Ki",
        "pods": "110",
        "ephemeral-storage": "1843269236Ki",
        "hugepages-2Mi": "0",
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    images = [
        {"names": [f"registry.example.com/team/image-{index}@sha256:{index:064x}", f"registry.example.com/team/image-{index}:v1"],
         "sizeBytes": 123456789}
        for index in range(20)
    ]  # fmt: skip
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "lastHeartbeatTime": BORN,
         "lastTransitionTime": BORN, "reason": f"Kubelet{kind}", "message": f"kubelet says {kind}"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    status = {"capacity": room, "allocatable": room, "images": images, "conditions": conditions,
              "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Linux", "architecture": "amd64"}}  # fmt: skip
    return {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": f"cloud:///{name}"}, "status": status}


def resource_slice(number: int, devices: int) -> Raw:
    name = node_name(number)
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [device(number, index) for index in range(devices)],
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": f"11111111-0000-4000-8000-{number:012}"}
    metadata = {"name": f"{name}-{DRIVER}-x7k2p", "generateName": f"{name}-{DRIVER}-", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec}


def device(number: int, index: int) -> Raw:
    attributes = {
        "uuid": {"string": f"GPU-{number:08x}-0000-4000-8000-{index:012x}"},
        "type": {"string": "gpu"},
        "productName": {"string": "Example Accelerator 80GB"},
        "brand": {"string": "Example"},
        "architecture": {"string": "Fourth"},
        "index": {"int": index},
        "computeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "570.86.15"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02x}"},
        "numaNode": {"int": index // 4},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def daemon(name: str, number: int) -> Raw:
    made = pod(f"{name}-{number:05}", DAEMONS, node_name(number))
    del made["spec"]["resourceClaims"], made["status"]["resourceClaimStatuses"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": f"{name}-uid", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def pod(name: str, namespace: str, node: str | None) -> Raw:
    token = {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}}  # fmt: skip
    container = {
        "name": "main",
        "image": "registry.example.com/team/image-1:v1",
        "command": ["/bin/work", "--forever"],
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(10)],
        "resources": {
            "requests": {"cpu": "2", "memory": "8Gi"},
            "limits": {"memory": "8Gi"},
            "claims": [{"name": "gpu"}],
        },
        "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    spec: Raw = {
        "containers": [container],
        "volumes": [token],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": CLASS}],
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{trouble}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for trouble in ("not-ready", "unreachable")
        ],
    }
    status: Raw = {
        "phase": "Pending",
        "qosClass": "Burstable",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim_name(name)}],
    }
    if node is None:
        spec["schedulingGates"] = [{"name": GATE}]
    else:
        spec["nodeName"] = node
        status |= running()
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "job", "team": namespace}}
    return {"metadata": metadata, "spec": spec, "status": status}


def running() -> Raw:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": BORN}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    box = {"name": "main", "ready": True, "restartCount": 0, "image": "registry.example.com/team/image-1:v1",
           "imageID": f"registry.example.com/team/image-1@sha256:{1:064x}", "containerID": f"containerd://{1:064x}",
           "state": {"running": {"startedAt": BORN}}, "started": True}  # fmt: skip
    return {"phase": "Running", "conditions": conditions, "containerStatuses": [box], "startTime": BORN,
            "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}  # fmt: skip


def claim_name(pod_name: str) -> str:
    return f"{pod_name}-gpu-k8x2m"


def claim(pod: Raw, place: tuple[int, int] | None) -> Raw:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}  # fmt: skip
    metadata = {
        "name": claim_name(pod["metadata"]["name"]),
        "generateName": f"{pod['metadata']['name']}-gpu-",
        "namespace": pod["metadata"]["namespace"],
        "labels": {LABEL: "true"},
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "finalizers": [FINALIZER],
        "ownerReferences": [owner],
    }
    made: Raw = {"metadata": metadata, "spec": claim_spec()}
    if place is not None:
        results = [{"request": "gpu", "driver": DRIVER, "pool": node_name(place[0]), "device": f"gpu-{place[1]}"}]
        made["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": on_node(place[0]),
                "allocationTimestamp": BORN,
            },
            "reservedFor": [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}],
        }
    return made


def on_node(number: int) -> Raw:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name(number)]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def report(claim: Raw, pod: Raw, place: tuple[int, int], mark: ClassMark) -> Raw:
    """As the operator itself wrote it before: it finds nothing to write anew."""
    metadata = claim["metadata"]
    owner = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    status = {
        "phase": "Reserved",
        "reason": "PodBound",
        "policy": "",
        "node": node_name(place[0]),
        "devices": [{"request": "gpu", "driver": DRIVER, "pool": node_name(place[0]), "device": f"gpu-{place[1]}"}],
        "classes": [{"name": mark.name, "hash": mark.hash, "generation": mark.generation}],
        "deviceNames": f"gpu-{place[1]}",
        "queue": {"priority": 0, "effectivePriority": 0},
        "usedBy": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "conditions": [
            {"type": "Allocated", "status": "True", "reason": "PodBound", "message": "", "lastTransitionTime": BORN}
        ],
    }
    names = {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]}
    return {"metadata": names, "status": status}
