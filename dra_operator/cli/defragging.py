"""Finding and proving rearrangements for `defrag`: the engine's search says what to move, the embedded cluster whether that holds.

Objects come from manifests that are played first, or from a cluster's lists. Nothing is evicted here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from dra_operator.api.meta import Key
from dra_operator.cli.explaining import observing
from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.live import SNAPSHOT_KINDS, read_cluster
from dra_operator.cli.progress import Progress
from dra_operator.cluster.memory.rehearsal import Departure, Rehearsed, rehearse
from dra_operator.defrag.pieces import Rearrangement
from dra_operator.engine.engine import Engine
from dra_operator.engine.rearranging import Prospects
from dra_operator.queue.units import UnitKey

#: Rearrangements of one size that are rehearsed.
WANTED = 8
#: Waiting units that are looked at where none is named.
UNITS = 5

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster at one instant: its objects, and an engine that has seen them."""

    engine: Engine
    objects: Sequence[Object]
    now: float
    fine: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One move. `uid`: of the pod, or of the claim where there is no pod."""

    kind: Literal["pod", "claim"]
    key: Key
    uid: str
    node: str | None
    devices: tuple[str, ...]
    to_node: str | None
    to_devices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            self.kind: str(self.key),
            "node": self.node,
            "devices": list(self.devices),
            "toNode": self.to_node,
            "toDevices": list(self.to_devices),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found for one unit. `proven` only where the whole of it was played through. `reason`: why there is none."""

    unit: UnitKey
    proven: bool
    steps: tuple[Step, ...] = ()
    node: str | None = None
    devices: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "unit": f"{self.unit.kind}/{self.unit.subject}",
            "proven": self.proven,
            "moves": [step.to_dict() for step in self.steps],
            "node": self.node,
            "devices": list(self.devices),
            "reason": self.reason,
            "notes": list(self.notes),
        }


def scene_of_files(paths: Sequence[str]) -> Scene:
    """Manifests, played until nothing changes (or as their Scenario says)."""
    from dra_operator.cli.simulation import play_files

    run = play_files(paths)
    objects = [item for resource in SNAPSHOT_KINDS for item in run.store.listed(resource)]
    engine, now = observing(_listed(objects), run.world.now)
    return Scene(engine, objects, now, not run.bad)


def scene_of_cluster(kubeconfig: Path | None, context: str | None) -> Scene:
    """Raises CommandFailed."""
    listed = read_cluster(kubeconfig, context, SNAPSHOT_KINDS)
    objects = [item for _, items in listed for item in items]
    engine, now = observing(_listed(objects), time.time())
    return Scene(engine, objects, now)


def _listed(objects: Sequence[Object]) -> Any:
    from dra_operator.cluster.rest import ENGINE_KINDS

    return [(kind, [item for item in objects if item["kind"] == kind.kind]) for kind in ENGINE_KINDS]


def target(scene: Scene, kind: str, key: Key) -> UnitKey:
    """Raises CommandFailed for what does not wait for devices."""
    found = scene.engine.rearranging.unit_of(cast(Literal["claim", "pod"], kind), key)
    if found is None:
        raise CommandFailed(f"{kind} {key} does not wait for devices; `kubectl-dra top queue` shows what does")
    return found


def look(scene: Scene, units: Sequence[UnitKey], most: int, *, claims_too: bool) -> list[Plan]:
    """A plan for each unit, in order, up to the first that is proven: its moves change what the others need."""
    found: list[Plan] = []
    with Progress() as progress:
        for unit in units:
            found.append(_plan(scene, unit, most, claims_too, progress))
            if found[-1].proven:
                break
    return found


def _plan(scene: Scene, unit: UnitKey, most: int, claims_too: bool, progress: Progress) -> Plan:
    prospects = scene.engine.rearranging.prospects(unit, scene.now, claims_too=claims_too)
    if prospects.refused:
        return Plan(unit, False, reason=prospects.refused)
    claims = scene.engine.rearranging.claims_of(unit)
    failures: list[str] = []
    for moves in range(most + 1):
        for arrangement in prospects.plans(moves, wanted=WANTED):
            progress.show(f"{unit.subject}: trying {moves} moves, {len(failures)} rehearsals so far")
            departures = [_departure(move.holder.claims, move.holder.pods) for move in arrangement.moves]
            played = rehearse(scene.objects, scene.now, claims, departures)
            if not played.failure:
                return _proven(scene, unit, arrangement, played, prospects)
            failures.append(played.failure)
    return Plan(unit, False, reason=_why_none(prospects, failures, most), notes=_notes(prospects))


def _departure(claims: tuple[str, ...], pods: tuple[Any, ...]) -> Departure:
    return Departure(claims, Key(pods[0].namespace, pods[0].name) if pods else None)


def _proven(scene: Scene, unit: UnitKey, arrangement: Rearrangement, played: Rehearsed, prospects: Prospects) -> Plan:
    by_uid = {item["metadata"]["uid"]: item for item in scene.objects if item["kind"] in ("Pod", "ResourceClaim")}
    steps: list[Step] = []
    for move, arrival in zip(arrangement.moves, played.arrivals, strict=True):
        held = [by_uid[uid] for uid in move.holder.claims]
        devices = tuple(device for claim in held for device in _devices(claim))
        if move.holder.pods:
            pod = move.holder.pods[0]
            node = by_uid[pod.uid]["spec"].get("nodeName")
            key, uid, kind = Key(pod.namespace, pod.name), pod.uid, "pod"
        else:
            meta = held[0]["metadata"]
            key, uid, kind, node = Key(meta["namespace"], meta["name"]), meta["uid"], "claim", None
        steps.append(Step(cast(Literal["pod", "claim"], kind), key, uid, node, devices, arrival.node, arrival.devices))
    assert played.unit is not None
    return Plan(unit, True, tuple(steps), played.unit.node, played.unit.devices, notes=_notes(prospects))


def _devices(claim: Object) -> list[str]:
    results = claim["status"]["allocation"]["devices"].get("results") or ()
    return [f"{result['pool']}/{result['device']}" for result in results]


def _why_none(prospects: Prospects, failures: Sequence[str], most: int) -> str:
    if failures:
        tried = f"{len(failures)} rearrangement{'s were' if len(failures) > 1 else ' was'} rehearsed, and none held"
        return f"{tried}: {failures[0]}"
    if not prospects.movable:
        return "nothing that holds devices can be moved"
    return f"no rearrangement with at most {most} moves makes it fit"


def _notes(prospects: Prospects) -> tuple[str, ...]:
    notes = [f"left where they are: {item.holders} {item.why}" for item in prospects.fixed]
    if prospects.search is not None and prospects.search.exhausted:
        notes.append("the search ended before everything was tried: fewer moves may do")
    return tuple(notes)
