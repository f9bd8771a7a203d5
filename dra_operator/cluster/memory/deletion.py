"""Deleting: preconditions, the grace period of pods, finalizers (apimachinery `rest.BeforeDelete`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.core import TERMINAL_PHASES
from dra_operator.api.meta import format_time, parse_time
from dra_operator.cluster.memory.refusals import conflict
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import NAMESPACES, PODS, Resource


@dataclass(frozen=True, slots=True)
class Options:
    """metav1.DeleteOptions. `grace` in seconds, None = the object's own."""

    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    @classmethod
    def read(cls, body: Any, query: Mapping[str, str] | None = None) -> Options:
        """From the request's body, or from its query where there is no body."""
        given = body if isinstance(body, dict) else {}
        query = query or {}
        preconditions = given.get("preconditions") or {}
        grace = given.get("gracePeriodSeconds")
        if grace is None and "gracePeriodSeconds" in query:
            grace = int(query["gracePeriodSeconds"])
        return cls(
            grace=grace,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=given.get("dryRun") == ["All"] or query.get("dryRun") == "All",
        )


def check_preconditions(resource: Resource, old: Object, options: Options) -> None:
    """Raises Refused (409)."""
    meta = old["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        raise conflict(
            resource,
            meta["name"],
            f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {meta['uid']}",
        )
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        raise conflict(
            resource,
            meta["name"],
            f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            f"ResourceVersion in object meta: {meta['resourceVersion']}",
        )


def marked(resource: Resource, old: Object, options: Options, now: float) -> Object | None:
    """The object as it stays after a DELETE: unchanged, marked with a deletionTimestamp, or None = gone at once."""
    grace = _grace(old, options) if resource is PODS else 0
    meta = old["metadata"]
    waits = (
        bool(meta.get("finalizers")) or grace > 0 or (resource is NAMESPACES and bool(dig(old, "spec", "finalizers")))
    )
    if not waits:
        return None
    item: Object = clone(old)
    before = meta.get("deletionTimestamp")
    if before is not None:
        # A second DELETE can only shorten the grace period.
        if resource is not PODS or grace >= int(meta.get("deletionGracePeriodSeconds") or 0):
            return item
        requested = (parse_time(before) or now) - int(meta.get("deletionGracePeriodSeconds") or 0)
        item["metadata"]["deletionTimestamp"] = format_time(max(requested, 0) + grace)
    else:
        item["metadata"]["deletionTimestamp"] = format_time(now + grace)
        if resource is NAMESPACES:
            item["status"] = {**(item.get("status") or {}), "phase": "Terminating"}
    item["metadata"]["deletionGracePeriodSeconds"] = grace
    if "generation" in item["metadata"] and before is None:
        item["metadata"]["generation"] += 1
    return item


def _grace(pod: Object, options: Options) -> int:
    """A pod that no kubelet runs, or that has ended, needs no grace."""
    if not dig(pod, "spec", "nodeName") or dig(pod, "status", "phase") in TERMINAL_PHASES:
        return 0
    if options.grace is not None:
        return max(options.grace, 0)
    return int(dig(pod, "spec", "terminationGracePeriodSeconds") or 0)


def finished(item: Object) -> bool:
    """Whether an update has taken away the last thing that kept a deleted object."""
    meta = item["metadata"]
    return bool(
        meta.get("deletionTimestamp")
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and item.get("kind") != "Namespace"
    )
