"""What a write says of the object it means: its uid, and the version it was made from."""

from __future__ import annotations

from dra_operator.cluster.memory import refusals
from dra_operator.cluster.memory.kinds import Rules
from dra_operator.cluster.memory.routes import Route
from dra_operator.cluster.memory.values import Object


def check_identity(found: Route, old: Object, item: Object, rules: Rules, *, patched: bool) -> None:
    """Raises Refused: 409 for another version and for a PUT with another uid, 422 for a patch of the uid and where a version is needed."""
    meta = item["metadata"]
    if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
        if patched:
            cause = refusals.invalid("metadata.uid", meta["uid"], "field is immutable")
            raise refusals.unprocessable(found.resource, found.name, [cause])
        raise refusals.conflict(
            found.resource,
            found.name,
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['metadata']['uid']}",
        )
    version = meta.get("resourceVersion")
    if not version:
        if not rules.unconditional:
            cause = refusals.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusals.unprocessable(found.resource, found.name, [cause])
    elif str(version) != old["metadata"]["resourceVersion"]:
        raise refusals.stale(found.resource, found.name)
