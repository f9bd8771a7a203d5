"""What objects of a running cluster tell of the time before a run: how late it is, and what is no news at its start.

Objects with a uid come from a cluster; those without are the reader's own and begin their life in the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dra_operator.api.errors import InvalidField
from dra_operator.api.meta import Key, parse_time
from dra_operator.cli.timeline import title
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.rest import PODS, RESOURCE_CLAIMS


def latest_time(objects: Iterable[Mapping[str, Any]]) -> float | None:
    """The latest time at which objects of a cluster say something happened to them, seconds since the epoch; None without any."""
    found: list[float] = []
    for item in objects:
        meta, status = item["metadata"], item.get("status")
        if not meta.get("uid"):
            continue
        status = status if isinstance(status, dict) else {}
        times = [meta.get("creationTimestamp"), status.get("startTime")]
        times.append((status.get("allocation") or {}).get("allocationTimestamp"))
        times += [
            entry.get("lastTransitionTime") for entry in status.get("conditions") or () if isinstance(entry, dict)
        ]
        for time in times:
            try:
                parsed = parse_time(time) if time else None
            except (InvalidField, ValueError, TypeError):
                continue
            if parsed is not None:
                found.append(parsed)
    return max(found, default=None)


def standing_phases(store: Store, uids: set[str | None]) -> Iterator[tuple[str, str]]:
    """(`claim/NAMESPACE/NAME`, phase) of the claims with one of these uids that had their devices already."""
    for raw in store.listed(RESOURCE_CLAIMS):
        meta, status = raw["metadata"], raw.get("status") or {}
        if meta.get("uid") not in uids or status.get("allocation") is None:
            continue
        pods = [
            store.get(PODS, Key(meta["namespace"], consumer.get("name") or ""))
            for consumer in status.get("reservedFor") or ()
            if consumer.get("resource") == "pods"
        ]
        bound = any(pod is not None and pod["spec"].get("nodeName") for pod in pods)
        yield title("ResourceClaim", meta["namespace"], meta["name"]), "Reserved" if bound else "Allocated"
