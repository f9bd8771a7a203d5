"""Reading raw objects: the questions several actors ask of pods, claims and owners."""

from __future__ import annotations

from typing import Any

from dra_operator.api.core import TERMINAL_PHASES
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import Resource


def terminal(pod: Object) -> bool:
    return dig(pod, "status", "phase") in TERMINAL_PHASES


def deleting(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def active(pod: Object) -> bool:
    """Counts towards its controller's replicas."""
    return not terminal(pod) and not deleting(pod)


def condition(item: Object, type_: str) -> Object | None:
    return next((entry for entry in dig(item, "status", "conditions") or () if entry.get("type") == type_), None)


def ready(pod: Object) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def node_of(pod: Object) -> str | None:
    return dig(pod, "spec", "nodeName") or None


def key(item: Object) -> Key:
    meta = item["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


def uid(item: Object) -> str:
    return str(item["metadata"]["uid"])


def controller(item: Object) -> dict[str, Any] | None:
    """The reference to the managing owner."""
    return next((owner for owner in item["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


def owner_reference(resource: Resource, owner: Object) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim_names(pod: Object) -> dict[str, str | None]:
    """Each claim entry of the pod with the name of its ResourceClaim: None where none is generated yet.

    An entry whose status says that no claim is needed is left out.
    """
    statuses = {
        entry["name"]: entry.get("resourceClaimName") for entry in dig(pod, "status", "resourceClaimStatuses") or ()
    }
    names: dict[str, str | None] = {}
    for entry in dig(pod, "spec", "resourceClaims") or ():
        if entry.get("resourceClaimName"):
            names[entry["name"]] = entry["resourceClaimName"]
        elif entry["name"] not in statuses:
            names[entry["name"]] = None
        elif statuses[entry["name"]]:
            names[entry["name"]] = statuses[entry["name"]]
    return names


def reserved_for(claim: Object, consumer_uid: str) -> bool:
    return any(entry.get("uid") == consumer_uid for entry in dig(claim, "status", "reservedFor") or ())
