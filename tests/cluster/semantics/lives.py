"""What becomes of a pod by the hands of others: its generated claim, its devices, that it runs."""

from __future__ import annotations

from typing import Any

from tests.cluster.semantics.things import allocate, consumer, create, from_template, pod, template
from tests.cluster.semantics.worlds import GATE, Place

UNGATE = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}}


def generated(place: Place, pod_name: str, entry: str = "gpu") -> str | None:
    """The claim made for the pod."""
    for found in place.get("Pod", pod_name)["status"].get("resourceClaimStatuses") or ():
        if found["name"] == entry:
            name: str = found["resourceClaimName"]
            return name
    return None


def pod_allocated(place: Place, node: str, name: str = "p") -> tuple[dict[str, Any], str]:
    """A gated pod with a claim of its own, allocated and reserved as the operator does it. Gives the pod and the claim's name."""
    create(CLASS)(place)
    place.create(template())
    made = place.create(pod(name, claims=[from_template("t")]))
    claim_name: str = place.eventually(lambda: generated(place, name)) or ""
    reserved = [consumer(name, made["metadata"]["uid"])]
    response = allocate(claim_name, node=node, reserved=reserved)(place)
    assert response.ok, response.message
    # The scheduler's cache must have the claim before it sees the pod.
    place.world.pass_time(0.3)
    return made, claim_name


def running(place: Place, name: str) -> bool:
    return bool(place.get("Pod", name)["status"]["phase"] == "Running")
