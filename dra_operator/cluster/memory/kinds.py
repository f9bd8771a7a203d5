"""The rules of each kind: defaults, what creation and updates may touch, what is validated. The server applies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_operator.cluster import rest
from dra_operator.cluster.memory import defaults
from dra_operator.cluster.memory.refusals import Cause, invalid
from dra_operator.cluster.memory.validation import claims, pods
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import Resource

Check = Callable[[Object], list[Cause]]
CheckChange = Callable[[Object, Object], list[Cause]]


def _nothing(_: Object) -> None:
    return


def _nothing_more(_: Object, __: Object) -> None:
    return


def _fine(_: Object) -> list[Cause]:
    return []


def _fine_change(_: Object, __: Object) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Rules:
    """`custom`: served from a CRD. `generation`: counts changes of the spec. `unconditional`: a PUT may leave out resourceVersion.

    `status_on_create`: a new object may bring its status.
    `returns_deleted`: DELETE answers with the object and not with a Status. `initial_status`: what `status` is after creation.
    """

    status: bool = False
    status_on_create: bool = False
    custom: bool = False
    generation: bool = False
    unconditional: bool = True
    returns_deleted: bool = False
    initial_status: Callable[[Object], Object | None] = lambda _: None
    default: Callable[[Object], None] = _nothing
    check_created: Check = _fine
    check_updated: CheckChange = _fine_change
    check_status: CheckChange = _fine_change
    prepare_status: Callable[[Object, Object], None] = _nothing_more


def _pod_status(item: Object) -> Object:
    status: Object = {"phase": "Pending", "qosClass": _quality(item)}
    if dig(item, "spec", "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return status


def _quality(item: Object) -> str:
    containers = dig(item, "spec", "containers") or ()
    resources = [container.get("resources") or {} for container in containers]
    if not any(entry.get("requests") or entry.get("limits") for entry in resources):
        return "BestEffort"
    sure = all(
        {"cpu", "memory"} <= set(entry.get("limits") or ()) and entry.get("limits") == entry.get("requests")
        for entry in resources
    )
    return "Guaranteed" if sure else "Burstable"


def _budget_status(_: Object) -> Object:
    return {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def _class_updated(new: Object, _: Object) -> list[Cause]:
    return claims.class_valid(new)


def _slice_updated(new: Object, old: Object) -> list[Cause]:
    """Driver, pool name and node of a slice are immutable; the generation only grows in practice, which nobody checks."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    fixed: tuple[tuple[str, ...], ...] = (("driver",), ("pool", "name"), ("nodeName",))
    return [
        invalid(f"spec.{'.'.join(path)}", dig(spec, *path), "field is immutable")
        for path in fixed
        if dig(spec, *path) != dig(before, *path)
    ]


def _priority_updated(new: Object, old: Object) -> list[Cause]:
    return [
        invalid(field, new.get(field), "may not be changed in an update.")
        for field in ("value", "preemptionPolicy")
        if new.get(field) != old.get(field)
    ]


def _empty_status(_: Object) -> Object:
    return {}


RULES: Mapping[Resource, Rules] = {
    rest.PODS: Rules(
        status=True,
        generation=True,
        returns_deleted=True,
        initial_status=_pod_status,
        default=defaults.pod,
        check_created=pods.created,
        check_updated=pods.updated,
        check_status=pods.status_updated,
    ),
    rest.NODES: Rules(status=True, status_on_create=True),
    rest.NAMESPACES: Rules(
        status=True, returns_deleted=True, initial_status=lambda _: {"phase": "Active"}, default=defaults.namespace
    ),
    rest.RESOURCE_CLAIMS: Rules(
        status=True,
        returns_deleted=True,
        initial_status=_empty_status,
        default=defaults.claim,
        check_created=claims.claim_created,
        check_updated=claims.spec_unchanged,
        check_status=claims.claim_status_updated,
        prepare_status=claims.forget_devices,
    ),
    rest.RESOURCE_CLAIM_TEMPLATES: Rules(
        returns_deleted=True,
        default=defaults.claim_template,
        check_created=claims.template_created,
        check_updated=claims.spec_unchanged,
    ),
    rest.DEVICE_CLASSES: Rules(
        generation=True, returns_deleted=True, check_created=claims.class_valid, check_updated=_class_updated
    ),
    rest.RESOURCE_SLICES: Rules(generation=True, returns_deleted=True, check_updated=_slice_updated),
    rest.DEVICE_TAINT_RULES: Rules(status=True, generation=True, returns_deleted=True),
    rest.PRIORITY_CLASSES: Rules(generation=True, default=defaults.priority_class, check_updated=_priority_updated),
    rest.DISRUPTION_BUDGETS: Rules(status=True, generation=True, unconditional=False, initial_status=_budget_status),
    rest.DEPLOYMENTS: Rules(status=True, generation=True, initial_status=_empty_status, default=defaults.deployment),
    rest.REPLICA_SETS: Rules(
        status=True, generation=True, initial_status=lambda _: {"replicas": 0}, default=defaults.replica_set
    ),
    rest.STATEFUL_SETS: Rules(
        status=True, generation=True, initial_status=lambda _: {"replicas": 0}, default=defaults.stateful_set
    ),
    rest.DAEMON_SETS: Rules(status=True, generation=True, initial_status=_empty_status, default=defaults.daemon_set),
    rest.JOBS: Rules(status=True, generation=True, initial_status=_empty_status, default=defaults.job),
    rest.CRON_JOBS: Rules(status=True, generation=True, initial_status=_empty_status),
    rest.EVENTS: Rules(),
    rest.LEASES: Rules(unconditional=False),
    rest.ALLOCATION_POLICIES: Rules(status=True, custom=True, generation=True, unconditional=False),
    rest.CLAIM_REPORTS: Rules(custom=True, generation=True, unconditional=False),
    rest.CLAIM_GROUPS: Rules(status=True, custom=True, generation=True, unconditional=False),
    rest.DEVICE_CLASS_REPORTS: Rules(custom=True, generation=True, unconditional=False),
    rest.NETWORK_DEVICE_CLASSES: Rules(status=True, custom=True, generation=True, unconditional=False),
}


def content(item: Object, rules: Rules) -> Object:
    """What a kind's generation counts changes of: all but metadata, and status where that is a subresource."""
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if rules.status else set())
    return {field: value for field, value in item.items() if field not in ignored}
