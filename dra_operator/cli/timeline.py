"""What happens in a simulated run, in the words of a reader: phases of claims, Events, pods that start, end or go.

Listens to the embedded cluster's store and to the engine's journal. Neither prints nor decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import CLAIM_REPORTS, EVENTS, PODS, RESOURCE_CLAIMS, Resource
from dra_operator.engine.engine import Engine
from dra_operator.engine.phases import URGENT, PhaseChange

#: Kinds whose names are shortened, as `kubectl-dra` takes them.
SHORT_KINDS: Mapping[str, str] = {"ResourceClaim": "claim", "DeviceClass": "class", "ResourceSlice": "slice"}
MET = ("Allocated", "Reserved")


@dataclass(frozen=True, slots=True)
class Happening:
    """`at` is seconds since the start; `object` is kind/namespace/name; `trouble` marks warnings."""

    at: float
    object: str
    reason: str
    message: str
    trouble: bool = False


def title(kind: str, namespace: str | None, name: str) -> str:
    """An object as a reader writes it: `claim/team/a`, `node/n1`."""
    short = SHORT_KINDS.get(kind, kind.lower())
    return f"{short}/{namespace}/{name}" if namespace else f"{short}/{name}"


class Timeline:
    """Collects happenings, and hands each to `listener` as it comes."""

    def __init__(self, world: World, engine: Engine, listener: Callable[[Happening], None]) -> None:
        self.happenings: list[Happening] = []
        #: Every change of a claim's phase, as the engine tells it.
        self.changes: list[PhaseChange] = []
        self._world = world
        self.start = world.now
        self._engine = engine
        self._listener = listener
        self._phases: dict[str, tuple[str, str]] = {}
        self._waiting: dict[str, float] = {}
        world.server.store.subscribe(self._on_change)
        world.after_step.append(self._drain)

    def know(self, claim: str, phase: str) -> None:
        """The claim (`claim/NAMESPACE/NAME`) was in this phase before the run: no news."""
        self._phases[claim] = (phase, "")

    def _tell(self, object: str, reason: str, message: str, *, trouble: bool = False) -> None:
        at = round(self._world.now - self.start, 3)
        happening = Happening(at, object, reason, message, trouble)
        self.happenings.append(happening)
        self._listener(happening)

    # -- claims: satisfied ones from the journal at once; waiting ones from their reports, which come once the wait is one

    def _drain(self) -> None:
        for change in self._engine.journal():
            self.changes.append(change)
            self._journaled(change)

    def _journaled(self, change: PhaseChange) -> None:
        name = title("ResourceClaim", *change.claim)
        if change.phase not in MET:
            self._waiting.setdefault(name, change.at)
            return
        held = self._world.server.store.get(RESOURCE_CLAIMS, change.claim)
        if held is None or _devices(held) is None:
            return  # The engine's watch is a little behind: it has been freed already.
        last = self._phases.get(name)
        if last == (change.phase, "") or (last == ("Reserved", "") and change.phase == "Allocated"):
            return  # The latter: its pod is gone, and it is freed in a moment.
        self._phases[name] = (change.phase, "")
        self._tell(name, change.phase, self._placement(name, change))

    def _placement(self, name: str, change: PhaseChange) -> str:
        if change.phase == "Reserved":
            self._waiting.pop(name, None)
            return f"its pod is bound to {change.node}" if change.node else "its pod is bound"
        devices = ", ".join(device.device for _, device in change.devices)
        where = f" on {change.node}" if change.node else ""
        waited = change.at - self._waiting.pop(name, change.at)
        return f"{devices}{where}" + (f" after {waited:.0f} s" if waited >= 1 else "")

    def _reported(self, report: Mapping[str, Any]) -> None:
        status, meta = report.get("status") or {}, report["metadata"]
        phase, reason = status.get("phase") or "", status.get("reason") or ""
        name = title("ResourceClaim", meta.get("namespace"), meta["name"])
        if phase not in URGENT or self._phases.get(name) == (phase, reason):
            return
        self._phases[name] = (phase, reason)
        summary = (status.get("explanation") or {}).get("summary") or ""
        self._tell(name, phase, ": ".join(filter(None, (reason, summary))), trouble=phase != "Queued")

    # -- everything else from the store

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource is EVENTS and change.previous is None:
            self._recorded(change.object)
        elif resource is CLAIM_REPORTS and change.type != "DELETED":
            self._reported(change.object)
        elif resource is RESOURCE_CLAIMS:
            self._claim_changed(change)
        elif resource is PODS:
            self._pod_changed(change)

    def _recorded(self, event: Mapping[str, Any]) -> None:
        subject = event.get("regarding") or {}
        reason = event.get("reason") or ""
        if subject.get("kind") == "ResourceClaim" and (reason in URGENT or reason in MET):
            return  # The phases say it already.
        name = title(subject.get("kind") or "", subject.get("namespace"), subject.get("name") or "")
        self._tell(name, reason, event.get("note") or "", trouble=event.get("type") == "Warning")

    def _claim_changed(self, change: Change) -> None:
        before = None if change.previous is None else _devices(change.previous)
        if before is None or (change.type != "DELETED" and _devices(change.object) is not None):
            return
        meta = change.object["metadata"]
        name = title("ResourceClaim", meta.get("namespace"), meta["name"])
        self._phases.pop(name, None)
        self._tell(name, "Freed", ", ".join(before))

    def _pod_changed(self, change: Change) -> None:
        meta = change.object["metadata"]
        name = title("Pod", meta.get("namespace"), meta["name"])
        if change.type == "DELETED":
            self._tell(name, "Deleted", "")
            return
        if meta.get("deletionTimestamp"):
            return  # Its last phase is of no interest any more.
        phase = _phase(change.object)
        if change.previous is not None and phase != _phase(change.previous) and phase != "Pending":
            node = (change.object.get("spec") or {}).get("nodeName")
            self._tell(name, phase, f"on {node}" if node else "", trouble=phase == "Failed")


def _devices(claim: Mapping[str, Any]) -> list[str] | None:
    """The names of the allocated devices with their pools, None where nothing is allocated."""
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation is None:
        return None
    results = (allocation.get("devices") or {}).get("results") or ()
    return [f"{result.get('pool') or ''}/{result.get('device') or ''}" for result in results]


def _phase(pod: Mapping[str, Any]) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def events(happenings: Sequence[Happening]) -> list[dict[str, Any]]:
    """The happenings as data, by time; within one instant as they came."""
    return [
        {
            "at": int(item.at) if item.at.is_integer() else item.at,
            "object": item.object,
            "reason": item.reason,
            "message": item.message,
        }
        for item in sorted(happenings, key=lambda item: item.at)
    ]
