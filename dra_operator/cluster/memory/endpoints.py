"""Which fields an update may touch: through the main endpoint, and through /status."""

from __future__ import annotations

from dra_operator.cluster.memory.kinds import Rules
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import NODES, PODS, Resource


def keep_fixed(resource: Resource, rules: Rules, item: Object, old: Object, subresource: str) -> None:
    """Put back in `item` what the endpoint does not change of `old`."""
    item["apiVersion"], item["kind"] = resource.api_version, resource.kind
    _keep_system_fields(item, old)
    if subresource == "status":
        _keep_for_status(resource, item, old)
        rules.prepare_status(item, old)
    elif rules.status:
        _keep(item, old, "status")


def _keep(item: Object, old: Object, field: str) -> None:
    if field in old:
        item[field] = old[field]
    else:
        item.pop(field, None)


def _keep_system_fields(item: Object, old: Object) -> None:
    meta, before = item["metadata"], old["metadata"]
    for field in (
        "name",
        "namespace",
        "generateName",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ):
        _keep(meta, before, field)


def _keep_for_status(resource: Resource, item: Object, old: Object) -> None:
    """/status takes the status, and of the metadata nothing; of pods and nodes it takes labels and annotations as well."""
    status = item.get("status")
    meta = item["metadata"]
    if resource in (PODS, NODES):
        _keep(meta, old["metadata"], "ownerReferences")
    else:
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            _keep(meta, old["metadata"], field)
    item.clear()
    item.update({field: value for field, value in old.items() if field not in ("metadata", "status")})
    item["metadata"] = meta
    if status is not None:
        item["status"] = status
    elif "status" in old:
        item["status"] = {}
