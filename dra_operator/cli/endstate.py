"""The state in which a simulated run ended: every claim with its phase, devices and reason, every pod with its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra_operator.api.claims import ResourceClaim
from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import Key
from dra_operator.cli.output import Printer, print_table
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.rest import PODS, RESOURCE_CLAIMS
from dra_operator.engine.engine import Engine

MANAGED_LABEL = "dra-operator.dev/managed"
#: Devices named in one cell of a table.
SHOWN_DEVICES = 4

PHASE_STYLES: Mapping[str, str] = {
    "Reserved": "green",
    "Allocated": "cyan",
    "Running": "green",
    "Succeeded": "green",
    "Queued": "yellow",
    "Pending": "yellow",
    "QuotaExceeded": "yellow",
    "Starved": "magenta",
    "Preempting": "magenta",
    "Unsatisfiable": "red",
    "Drifted": "red",
    "Lost": "red",
    "Failed": "red",
    "Unmanaged": "dim",
    "Deleted": "dim",
}


def claims(store: Store, engine: Engine) -> list[dict[str, Any]]:
    """By namespace and name: {namespace, name, phase, node, devices: [{request, driver, pool, device}], reason}."""
    return [_claim(raw, store, engine) for raw in store.listed(RESOURCE_CLAIMS)]


def _claim(raw: dict[str, Any], store: Store, engine: Engine) -> dict[str, Any]:
    meta, status = raw["metadata"], raw.get("status") or {}
    key = Key(meta["namespace"], meta["name"])
    allocation = status.get("allocation")
    phase, reason = _phase(raw, key, engine)
    return {
        "namespace": key.namespace,
        "name": key.name,
        "phase": phase,
        "node": _node(raw, store) if allocation is not None else None,
        "devices": [
            {name: result.get(name) or "" for name in ("request", "driver", "pool", "device")}
            for result in ((allocation or {}).get("devices") or {}).get("results") or ()
        ],
        "reason": reason,
    }


def _phase(raw: dict[str, Any], key: Key, engine: Engine) -> tuple[str, str]:
    if (raw["metadata"].get("labels") or {}).get(MANAGED_LABEL) != "true":
        return "Unmanaged", f"not labelled {MANAGED_LABEL}=true: left to kube-scheduler"
    found = engine.phase_of(key)
    if found is None:
        return "Queued", "NotSeen: the operator has not seen it yet"
    return found.phase, ": ".join(filter(None, (found.reason, found.message)))


def _node(raw: dict[str, Any], store: Store) -> str | None:
    """The only node the devices are on, else that of a pod that uses them."""
    try:
        claim = ResourceClaim.from_dict(raw)
    except InvalidObject:
        return None
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    if selector is not None and (name := selector.only_node()) is not None:
        return name
    for consumer in claim.reserved_for:
        pod = store.get(PODS, Key(claim.meta.namespace, consumer.name)) if consumer.resource == "pods" else None
        node = ((pod or {}).get("spec") or {}).get("nodeName")
        if node:
            return str(node)
    return None


def pods(store: Store) -> list[dict[str, Any]]:
    """By namespace and name: {namespace, name, phase, node, gated}."""
    return [
        {
            "namespace": raw["metadata"]["namespace"],
            "name": raw["metadata"]["name"],
            "phase": (raw.get("status") or {}).get("phase") or "Pending",
            "node": raw["spec"].get("nodeName") or None,
            "gated": bool(raw["spec"].get("schedulingGates")),
        }
        for raw in store.listed(PODS)
    ]


def print_claims(printer: Printer, rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        printer,
        ("NAMESPACE", "NAME", "PHASE", "NODE", "DEVICES", "REASON"),
        [
            (row["namespace"], row["name"], row["phase"], row["node"] or "", _devices(row), row["reason"])
            for row in rows
        ],
        {"PHASE": style},
    )


def print_pods(printer: Printer, rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        printer,
        ("NAMESPACE", "NAME", "PHASE", "NODE", "GATED"),
        [
            (row["namespace"], row["name"], row["phase"], row["node"] or "", "yes" if row["gated"] else "no")
            for row in rows
        ],
        {"PHASE": style},
    )


def style(phase: str) -> str:
    return PHASE_STYLES.get(phase, "")


def _devices(row: dict[str, Any]) -> str:
    """Device names; with their pool where that is not the node's own."""
    names = [
        item["device"] if item["pool"] == row["node"] else f"{item['pool']}/{item['device']}" for item in row["devices"]
    ]
    more = len(names) - SHOWN_DEVICES
    return ",".join(names[:SHOWN_DEVICES]) + (f",+{more}" if more > 0 else "")
