"""Extended resources backed by devices (KEP-5004): the claim that kube-scheduler makes by itself for a pod that asks for one.

Every class can be asked for as `deviceclass.resource.kubernetes.io/<class>`, and as its `extendedResourceName` where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.claims import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from dra_operator.cluster.memory.actors.actor import Actor
from dra_operator.cluster.memory.actors.objects import key, uid
from dra_operator.cluster.memory.actors.scheduling_errors import ClaimError
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS

IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Ask:
    """One container's request for one extended resource."""

    container: str
    resource: str
    device_class: str
    count: int
    request: str


def asks(pod: Object, store: Store) -> list[Ask]:
    """What the pod asks for that classes can stand for; empty for nearly every pod."""
    found: list[Ask] = []
    containers = [*(dig(pod, "spec", "initContainers") or ()), *(dig(pod, "spec", "containers") or ())]
    for number, container in enumerate(containers):
        amounts = {**(dig(container, "resources", "limits") or {}), **(dig(container, "resources", "requests") or {})}
        names = sorted(name for name in amounts if "/" in name)
        for index, name in enumerate(names):
            device_class = _class_of(name, store)
            if device_class is not None and int(amounts[name]) > 0:
                request = f"container-{number}-request-{index}"
                found.append(Ask(container["name"], name, device_class, int(amounts[name]), request))
    return found


def _class_of(resource: str, store: Store) -> str | None:
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT)
    named = [
        item["metadata"]["name"]
        for item in store.listed(DEVICE_CLASSES)
        if dig(item, "spec", "extendedResourceName") == resource
    ]
    return named[0] if named else None


def claim_for(pod: Object, wanted: list[Ask]) -> Object:
    """The special claim, not stored yet."""
    requests = [
        {
            "name": ask.request,
            "exactly": {"deviceClassName": ask.device_class, "allocationMode": "ExactCount", "count": ask.count},
        }
        for ask in wanted
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid(pod), "controller": True}
    return {
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": f"{pod['metadata']['name']}-extended-resources",
            "generateName": f"{pod['metadata']['name']}-extended-resources-",
            "namespace": pod["metadata"]["namespace"],
            "uid": f"extended-{uid(pod)}",
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def write(actor: Actor, pod: Object, wanted: list[Ask], allocation: Object, timestamp: str) -> None:
    """PreBind: create the claim, allocate and reserve it, and tell of it in the pod's status. Raises ClaimError."""
    body = clone(claim_for(pod, wanted))
    for field in ("name", "uid"):
        del body["metadata"][field]
    body["metadata"]["finalizers"] = [DELETE_PROTECTION]
    response = actor.create(RESOURCE_CLAIMS, pod["metadata"]["namespace"], body)
    if not response.ok:
        raise ClaimError(f"create claim for extended resources: {response.message}")
    claim = response.body
    consumer = {"resource": PODS.plural, "name": pod["metadata"]["name"], "uid": uid(pod)}
    claim["status"] = {"allocation": {**allocation, "allocationTimestamp": timestamp}, "reservedFor": [consumer]}
    response = actor.put(RESOURCE_CLAIMS, claim, "status")
    if not response.ok:
        actor.delete(RESOURCE_CLAIMS, claim)
        raise ClaimError(f"allocate claim for extended resources: {response.message}")
    mappings = [
        {"containerName": ask.container, "resourceName": ask.resource, "requestName": ask.request} for ask in wanted
    ]
    told = {"resourceClaimName": claim["metadata"]["name"], "requestMappings": mappings}
    actor.patch(
        PODS, key(pod), {"metadata": {"uid": uid(pod)}, "status": {"extendedResourceClaimStatus": told}}, "status"
    )
