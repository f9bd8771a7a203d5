"""A decision of the engine as one API request. Pure; both worlds send what stands here."""

from __future__ import annotations

import hashlib
from typing import assert_never

from dra_operator.api.meta import format_micro_time
from dra_operator.cluster.rest import (
    ALLOCATION_POLICIES,
    BY_KIND,
    CLAIM_GROUPS,
    DEVICE_CLASSES,
    EVENTS,
    MERGE_PATCH,
    NETWORK_DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIMS,
    STRATEGIC_PATCH,
    Request,
)
from dra_operator.engine.decisions import (
    Decision,
    DeleteReport,
    EvictPod,
    PatchClaim,
    PatchPod,
    RecordEvent,
    WriteClaimStatus,
    WriteDeviceClass,
    WriteGroupStatus,
    WriteNetworkStatus,
    WritePolicyStatus,
    WriteReport,
)

CONTROLLER = "dra-operator.dev/operator"


def request_for(decision: Decision, *, now: float, instance: str) -> Request:
    """The request that carries `decision` out. `now` (seconds since the epoch) and `instance` (this replica) only go into Events."""
    match decision:
        case WriteClaimStatus():
            return Request("PUT", RESOURCE_CLAIMS.path(*decision.claim, "status"), decision.body)
        case PatchClaim():
            return Request("PATCH", RESOURCE_CLAIMS.path(*decision.claim), decision.patch, MERGE_PATCH)
        case PatchPod():
            return Request("PATCH", PODS.path(*decision.pod), decision.patch, STRATEGIC_PATCH)
        case EvictPod():
            return Request("POST", PODS.path(*decision.pod, "eviction"), eviction(decision))
        case WriteReport():
            resource = BY_KIND[decision.kind]
            if decision.body["metadata"].get("resourceVersion"):
                return Request("PUT", resource.path(*decision.key), decision.body)
            return Request("POST", resource.path(decision.key.namespace), decision.body)
        case DeleteReport():
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": decision.uid}}
            return Request("DELETE", BY_KIND[decision.kind].path(*decision.key), options)
        case WritePolicyStatus():
            return Request("PUT", ALLOCATION_POLICIES.path("", decision.policy, "status"), decision.body)
        case WriteGroupStatus():
            return Request("PUT", CLAIM_GROUPS.path(*decision.group, "status"), decision.body)
        case WriteDeviceClass():
            if decision.body["metadata"].get("resourceVersion"):
                return Request("PUT", DEVICE_CLASSES.path("", decision.name), decision.body)
            return Request("POST", DEVICE_CLASSES.path(), decision.body)
        case WriteNetworkStatus():
            return Request("PUT", NETWORK_DEVICE_CLASSES.path("", decision.name, "status"), decision.body)
        case RecordEvent():
            return Request(
                "POST", EVENTS.path(decision.regarding.get("namespace") or "default"), event(decision, now, instance)
            )
        case _:
            assert_never(decision)


def nomination_for(decision: Decision) -> Request | None:
    """What is sent before `request_for` that lets a pod go: `nominatedNodeName`, where there is a node and no pin to it.

    kube-scheduler looks at that node first, and writes the same itself otherwise, right before it binds (KEP-5278). It is a
    wish: where it comes to nothing, kube-scheduler takes it back and looks at all nodes.
    """
    if not isinstance(decision, PatchPod) or decision.node is None or decision.pinned is not None:
        return None
    patch = {"metadata": {"uid": decision.uid}, "status": {"nominatedNodeName": decision.node}}
    return Request("PATCH", PODS.path(*decision.pod, "status"), patch, STRATEGIC_PATCH)


def eviction(decision: EvictPod) -> dict[str, object]:
    """A policy/v1 Eviction. A wrong uid would consume the disruption budget all the same, so it comes from the latest watch state."""
    options: dict[str, object] = {"preconditions": {"uid": decision.uid}}
    if decision.dry_run:
        options["dryRun"] = ["All"]
    if decision.grace_period is not None:
        options["gracePeriodSeconds"] = decision.grace_period
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": decision.pod.namespace, "name": decision.pod.name},
        "deleteOptions": options,
    }


def event(decision: RecordEvent, now: float, instance: str) -> dict[str, object]:
    """An events.k8s.io/v1 Event; the name is derived from its content, so that a repeated write is a conflict and not a double."""
    subject = decision.regarding
    identity = "|".join((subject.get("uid", ""), decision.reason, decision.note, format_micro_time(now)))
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "namespace": subject.get("namespace") or "default",
            "name": f"{subject['name'][:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
        },
        "eventTime": format_micro_time(now),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": decision.action,
        "reason": decision.reason,
        "regarding": subject,
        "note": decision.note[:1024],
        "type": decision.type,
    }
