"""What is used, by whom, and who waits: the rows of `top`, from the objects of a cluster at one instant.

The engine reads the objects as an observing operator does; nothing is decided that would be written. Rows are JSON values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dra_operator.api.claims import Allocation, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.meta import Key, parse_time
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.api.taints import BLOCKING_EFFECTS
from dra_operator.cluster.rest import (
    CLAIM_REPORTS,
    DEVICE_CLASS_REPORTS,
    ENGINE_KINDS,
    NODES,
    RESOURCE_CLAIMS,
    Resource,
)
from dra_operator.engine.decisions import WriteReport
from dra_operator.engine.engine import Engine
from dra_operator.engine.phases import Standpoint
from dra_operator.engine.settings import EngineSettings
from dra_operator.inventory import Inventory

Row = dict[str, Any]
MANAGED_LABEL = "dra-operator.dev/managed"
#: The word for devices that several nodes reach.
SHARED = "(several)"


class Usage:
    """One instant of a cluster. `now`: seconds since the epoch."""

    def __init__(self, objects: Iterable[tuple[Resource, list[dict[str, Any]]]], now: float) -> None:
        self.now = now
        self._objects = dict(objects)
        self._engine = Engine(EngineSettings(mode="observe"))
        for resource in ENGINE_KINDS:
            # Without the class reports it counts all classes anew, and says so.
            for item in self._listed(resource) if resource is not DEVICE_CLASS_REPORTS else ():
                self._engine.observe(resource.kind, "ADDED", item, now)
            self._engine.synced(resource.kind)
        self._decisions = self._engine.decide(now)
        self._inventory = Inventory()
        self._fill_inventory()
        self._claims = sorted(self._listed(RESOURCE_CLAIMS), key=lambda raw: _key(raw))
        self._reports = {_key(raw): raw.get("status") or {} for raw in self._listed(CLAIM_REPORTS)}
        self._allocations = {key: found for raw in self._claims if (found := _allocation(raw)) for key in [_key(raw)]}

    def _listed(self, resource: Resource) -> list[dict[str, Any]]:
        return self._objects.get(resource, [])

    def _fill_inventory(self) -> None:
        by_kind: Mapping[str, Any] = {
            "Node": (Node.from_dict, self._inventory.apply_node),
            "ResourceSlice": (ResourceSlice.from_dict, self._inventory.apply_slice),
            "DeviceTaintRule": (DeviceTaintRule.from_dict, self._inventory.apply_taint_rule),
            "ResourceClaim": (ResourceClaim.from_dict, self._use),
        }
        for resource, items in self._objects.items():
            if resource.kind not in by_kind:
                continue
            read, apply = by_kind[resource.kind]
            for item in items:
                try:
                    apply(read(item))
                except InvalidObject:
                    continue  # The engine has reported it.

    def _use(self, claim: ResourceClaim) -> None:
        if claim.allocation is not None:
            self._inventory.use(claim.meta.uid or str(claim.meta.key), claim.allocation)

    # -- what there is

    def classes(self) -> list[Row]:
        """As in DeviceClassReports, counted now."""
        rows = []
        for decision in self._decisions:
            if isinstance(decision, WriteReport) and decision.kind == "DeviceClassReport":
                status = decision.body["status"]
                counts = ("total", "allocated", "free", "held", "reserved", "unusable", "waitingClaims")
                rows.append(
                    {
                        "name": decision.key.name,
                        **{name: status.get(name, 0) for name in counts},
                        "oldestWaitSeconds": self._since(status.get("oldestWait")),
                        "largestFreeGroup": status.get("largestFreeGroup", 0),
                        "fragmentation": status.get("fragmentation", 0),
                        "message": status.get("message", ""),
                    }
                )
        return sorted(rows, key=lambda row: str(row["name"]))

    def nodes(self) -> list[Row]:
        """Devices of each node. devices = allocated + free + unusable (tainted, or of a pool that offers nothing)."""
        counts: dict[str, Counter[str]] = {raw["metadata"]["name"]: Counter() for raw in self._listed(NODES)}
        for offer in self._inventory.offers():
            count = counts.setdefault(offer.home or SHARED, Counter())
            if self._inventory.users(offer.id):
                count["allocated"] += 1
            elif any(taint.effect in BLOCKING_EFFECTS for taint in offer.taints):
                count["unusable"] += 1
            else:
                count["free"] += 1
        for pool in self._inventory.pools.values():
            if not pool.content.usable:
                for published in pool.content.slices:
                    counts.setdefault(_home(published), Counter())["unusable"] += len(published.devices)
        claims = Counter(self._node(key) for key in self._allocations)
        cordoned = {
            raw["metadata"]["name"] for raw in self._listed(NODES) if (raw.get("spec") or {}).get("unschedulable")
        }
        return [
            {
                "name": name,
                "devices": count.total(),
                **{state: count[state] for state in ("allocated", "free", "unusable")},
                "claims": claims[name],
                "schedulable": name not in cordoned,
            }
            for name, count in sorted(counts.items())
        ]

    # -- who has it, who waits

    def claims(self) -> list[Row]:
        return [self._claim(raw) for raw in self._claims]

    def _claim(self, raw: dict[str, Any]) -> Row:
        key = _key(raw)
        phase, reason, found = self._phase(raw)
        queue = self._reports.get(key, {}).get("queue") or {}
        unit = found.unit if found is not None else None
        allocation = self._allocations.get(key)
        return {
            "namespace": key.namespace,
            "name": key.name,
            "phase": phase,
            "node": self._node(key) if allocation is not None else None,
            "devices": [] if allocation is None else [f"{item.pool}/{item.device}" for item in allocation.results],
            "priority": unit.priority if unit is not None else queue.get("priority", 0),
            "ageSeconds": self._since(raw["metadata"].get("creationTimestamp")),
            "reason": reason,
        }

    def _phase(self, raw: dict[str, Any]) -> tuple[str, str, Standpoint | None]:
        if (raw["metadata"].get("labels") or {}).get(MANAGED_LABEL) != "true":
            return "Unmanaged", "", None
        found = self._engine.phase_of(_key(raw))
        return ("Queued", "NotSeen", None) if found is None else (found.phase, found.reason, found)

    def queue(self) -> list[Row]:
        """The units that wait, first in order first: a pod with its claims, or a claim by itself."""
        rows: dict[tuple[str, str], Row] = {}
        places: dict[tuple[str, str], int] = {}
        for raw in self._claims:
            key = _key(raw)
            _, reason, found = self._phase(raw)
            unit = found.unit if found is not None else None
            if found is None or unit is None or unit.waiting_since is None or key in self._allocations:
                continue
            name = unit.key.kind, str(unit.key.subject)
            if name in rows:
                continue
            reported = self._reports.get(key, {}).get("queue") or {}
            places[name] = unit.position or len(rows) + 1
            rows[name] = {
                "position": 0,
                "kind": unit.key.kind,
                "namespace": unit.key.subject.namespace,
                "name": unit.key.subject.name,
                "phase": found.phase,
                "claims": len(unit.claims),
                "priority": unit.priority,
                "effectivePriority": unit.effective,
                "waitSeconds": max(0, int(self.now - unit.waiting_since)),
                "attempts": max(unit.attempts, int(reported.get("attempts") or 0)),
                "reason": reason,
                "message": found.message,
            }
        ordered = sorted(rows, key=lambda name: (places[name], name))
        return [{**rows[name], "position": place} for place, name in enumerate(ordered, 1)]

    def namespaces(self) -> list[Row]:
        """Those that have claims."""
        rows: dict[str, Row] = {}
        for raw in self._claims:
            key = _key(raw)
            empty: Row = {
                "name": key.namespace,
                "claims": 0,
                "allocated": 0,
                "waiting": 0,
                "unmanaged": 0,
                "devices": 0,
            }
            row = rows.setdefault(key.namespace, {**empty, "oldestWaitSeconds": None})
            row["claims"] += 1
            allocation = self._allocations.get(key)
            _, _, found = self._phase(raw)
            row["unmanaged"] += found is None
            if allocation is not None:
                row["allocated"] += 1
                row["devices"] += len(allocation.results)
                continue
            row["waiting"] += 1
            since = found.unit.waiting_since if found is not None and found.unit is not None else None
            if since is not None:
                row["oldestWaitSeconds"] = max(row["oldestWaitSeconds"] or 0, int(self.now - since))
        return [rows[name] for name in sorted(rows)]

    # -- look-ups

    def _node(self, key: Key) -> str | None:
        selector = self._allocations[key].node_selector
        return None if selector is None else selector.only_node()

    def _since(self, time: Any) -> int | None:
        try:
            then = parse_time(time)
        except InvalidField:
            return None
        return None if then is None else max(0, int(self.now - then))


def _key(raw: Mapping[str, Any]) -> Key:
    return Key(raw["metadata"].get("namespace") or "", raw["metadata"]["name"])


def _allocation(raw: dict[str, Any]) -> Allocation | None:
    try:
        return ResourceClaim.from_dict(raw).allocation
    except InvalidObject:
        return None


def _home(published: ResourceSlice) -> str:
    return published.node_name or SHARED
