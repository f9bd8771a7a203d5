"""The subresources that are no view of their object: `pods/binding`, `pods/eviction` and `namespaces/finalize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dra_operator.api.core import TERMINAL_PHASES
from dra_operator.api.meta import format_time
from dra_operator.api.selectors import LabelSelector
from dra_operator.cluster import rest
from dra_operator.cluster.memory import refusals
from dra_operator.cluster.memory.deletion import Options
from dra_operator.cluster.memory.routes import Route
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import DISRUPTION_BUDGETS, PODS, Request, Response

if TYPE_CHECKING:
    from dra_operator.cluster.memory.server import MemoryServer

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def serve(server: MemoryServer, found: Route, request: Request) -> Response:
    """Raises Refused: 404 where there is no such subresource or object, and what each of them refuses."""
    match found.resource, found.subresource, request.method:
        case rest.NAMESPACES, "finalize", "PUT":
            return _finalize(server.store, server.existing(found), request, server.clock())
        case rest.PODS, "binding", "POST":
            return bind(server.store, server.existing(found), request, server.clock())
        case rest.PODS, "eviction", "POST":
            return evict(server, server.existing(found), request)
        case _:
            raise refusals.no_such_path()


def _finalize(store: Store, namespace: Object, request: Request, now: float) -> Response:
    """A namespace that is being deleted goes with its last finalizer."""
    item = clone(namespace)
    item["spec"] = {"finalizers": list((request.body.get("spec") or {}).get("finalizers") or ())}
    meta = item["metadata"]
    if meta.get("deletionTimestamp") and not item["spec"]["finalizers"] and not meta.get("finalizers"):
        store.remove(rest.NAMESPACES, item, now)
    else:
        store.put(rest.NAMESPACES, item, now)
    return Response(200, clone(item))


def bind(store: Store, pod: Object, request: Request, now: float) -> Response:
    """Raises Refused (409) for a pod that is bound, gated or being deleted."""
    name = pod["metadata"]["name"]
    node = dig(request.body, "target", "name")
    if not node:
        raise refusals.bad_request("target.name: Required value")
    why = None
    if dig(pod, "spec", "nodeName"):
        why = f"pod {name} is already assigned to node {pod['spec']['nodeName']!r}"
    elif pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif dig(pod, "spec", "schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why is not None:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
        raise refusals.Refused(409, "Conflict", message, {"name": name, "kind": "pods/binding"})
    item = clone(pod)
    item["spec"]["nodeName"] = node
    item["metadata"]["generation"] = int(item["metadata"].get("generation") or 1) + 1
    set_condition(item, {"type": "PodScheduled", "status": "True"}, now)
    store.put(PODS, item, now)
    return Response(201, dict(_SUCCESS))


def set_condition(item: Object, condition: Object, now: float) -> None:
    """Put a condition into `status.conditions`, with the time of its last transition."""
    conditions = item.setdefault("status", {}).setdefault("conditions", [])
    stamped = {**condition, "lastTransitionTime": format_time(now)}
    for index, entry in enumerate(conditions):
        if entry["type"] == condition["type"]:
            if entry.get("status") == condition["status"] and "lastTransitionTime" in entry:
                stamped["lastTransitionTime"] = entry["lastTransitionTime"]
            conditions[index] = stamped
            return
    conditions.append(stamped)


def evict(server: MemoryServer, pod: Object, request: Request) -> Response:
    """policy/v1 Eviction. Raises Refused: 429 with cause DisruptionBudget, 409 for a failed precondition.

    The budget is taken before the preconditions are looked at, so a wrong uid uses it up all the same, as on the real server.
    """
    body = request.body if isinstance(request.body, dict) else {}
    name = dig(body, "metadata", "name") or pod["metadata"]["name"]
    if name != pod["metadata"]["name"]:
        raise refusals.bad_request("name in URL does not match name in Eviction object")
    options = Options.read(body.get("deleteOptions"), request.query)
    if not _needs_no_budget(pod):
        _take_budget(server, pod, dry_run=options.dry_run)
    server.delete_object(PODS, pod, options)
    return Response(201, dict(_SUCCESS))


def _needs_no_budget(pod: Object) -> bool:
    return dig(pod, "status", "phase") in (*TERMINAL_PHASES, "Pending") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def _take_budget(server: MemoryServer, pod: Object, *, dry_run: bool) -> None:
    meta = pod["metadata"]
    budgets = [
        budget
        for budget in server.store.listed(DISRUPTION_BUDGETS, meta.get("namespace") or "")
        if covers(budget, meta.get("labels") or {})
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise refusals.internal_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = clone(budgets[0])
    status = budget.setdefault("status", {})
    if not _ready(pod) and _spares_unready(budget, status):
        return
    if int(status.get("observedGeneration") or 0) < int(budget["metadata"].get("generation") or 0):
        raise refusals.Refused(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            {
                "causes": [
                    {
                        "reason": "DisruptionBudget",
                        "message": f"The disruption budget {budget['metadata']['name']} is still being processed by the server.",
                    }
                ],
                "retryAfterSeconds": 10,
            },
        )
    if int(status.get("disruptionsAllowed") or 0) <= 0:
        raise refusals.over_budget(
            budget["metadata"]["name"], int(status.get("desiredHealthy") or 0), int(status.get("currentHealthy") or 0)
        )
    if dry_run:
        return
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[meta["name"]] = format_time(server.clock())
    server.store.put(DISRUPTION_BUDGETS, budget, server.clock())


def covers(budget: Object, labels: dict[str, str]) -> bool:
    """Whether a budget selects a pod with these labels; an absent selector selects none, an empty one all (policy/v1)."""
    selector = dig(budget, "spec", "selector")
    return selector is not None and LabelSelector.from_dict(selector).matches(labels)


def _ready(pod: Object) -> bool:
    return any(
        entry.get("type") == "Ready" and entry.get("status") == "True"
        for entry in dig(pod, "status", "conditions") or ()
    )


def _spares_unready(budget: Object, status: Object) -> bool:
    """`unhealthyPodEvictionPolicy`: pods that are not ready go freely always, or while enough others are healthy."""
    if dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    return desired > 0 and healthy >= desired
