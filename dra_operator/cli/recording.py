"""A whole run as data for a page: which claim had which device when, who waited when, how fragmented it was.

Listens to the embedded cluster and to the timeline; decides and prints nothing. `Recorder.record` gives plain JSON values: times are
seconds since the start, claims and devices are named by their place in the lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_operator.cli.timeline import MET, Timeline
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.world import World
from dra_operator.cluster.rest import DEVICE_CLASS_REPORTS, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource

GONE = "Gone"
#: Attributes that say what a device is, the first that is published.
_MODELS = ("productName", "model", "type", "architecture")

DeviceName = tuple[str, str, str]
#: From, to (None: until the end), and a value.
Span = tuple[float, float | None, Any]


class Recorder:
    """To be made before anything is loaded."""

    def __init__(self, world: World, timeline: Timeline) -> None:
        self._world = world
        self._timeline = timeline
        self._devices: dict[DeviceName, dict[str, Any]] = {}
        #: By slice: the devices it publishes now.
        self._published: dict[str, set[DeviceName]] = {}
        self._users: dict[DeviceName, dict[str, float]] = {}
        self._uses: list[tuple[DeviceName, str, float, float | None]] = []
        self._gone: list[tuple[float, str]] = []
        self._fragmentation: dict[str, list[tuple[float, int]]] = {}
        self._nodes: dict[str, None] = {}
        world.server.store.subscribe(self._on_change)

    @property
    def _now(self) -> float:
        return round(self._world.now - self._timeline.start, 3)

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource is RESOURCE_CLAIMS:
            self._claim(change)
        elif resource is RESOURCE_SLICES:
            self._slice(change)
        elif resource is NODES:
            self._nodes[change.object["metadata"]["name"]] = None
        elif resource is DEVICE_CLASS_REPORTS and change.type != "DELETED":
            status = change.object.get("status") or {}
            if status.get("total"):
                points = self._fragmentation.setdefault(change.object["metadata"]["name"], [])
                points.append((self._now, int(status.get("fragmentation") or 0)))

    def _claim(self, change: Change) -> None:
        meta = change.object["metadata"]
        claim = f"{meta['namespace']}/{meta['name']}"
        before = set() if change.previous is None else set(_allocated(change.previous))
        after = set() if change.type == "DELETED" else set(_allocated(change.object))
        if change.type == "DELETED":
            before |= set(_allocated(change.object))
            self._gone.append((self._now, claim))
        for device in sorted(before - after):
            since = self._users.get(device, {}).pop(claim, None)
            if since is not None:
                self._uses.append((device, claim, since, self._now))
        for device in sorted(after - before):
            self._users.setdefault(device, {})[claim] = self._now

    def _slice(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        offered = {} if change.type == "DELETED" else dict(_published(change.object))
        for device in sorted(self._published.get(name, set()) - offered.keys()):
            self._devices[device]["to"] = self._now
        for device, described in offered.items():
            known = self._devices.setdefault(device, {**described, "from": self._now, "to": None})
            known["to"] = None
        self._published[name] = set(offered)

    def record(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The run up to now; `result` is what `simulate -o json` prints."""
        uses = list(self._uses)
        uses += [
            (device, claim, since, None) for device, users in self._users.items() for claim, since in users.items()
        ]
        uses.sort(key=lambda use: (use[2], use[0], use[1]))
        for device, *_ in uses:
            # Allocated, but published by no slice: it is shown all the same.
            missing = {"node": "", "model": "", "from": 0.0, "to": 0.0}
            self._devices.setdefault(device, missing)
        names = sorted(self._devices, key=lambda name: (self._devices[name]["node"], *name))
        numbers = {name: number for number, name in enumerate(names)}
        phases = self._phases()
        claims = sorted({*phases, *(claim for _, claim, _, _ in uses)})
        claim_numbers = {name: number for number, name in enumerate(claims)}
        devices = [{"driver": name[0], "pool": name[1], "name": name[2], **self._devices[name]} for name in names]
        homes = {device["node"] for device in devices}
        end = max(
            [
                *(event["at"] for event in result["events"]),
                *(time for use in uses for time in use[2:] if time is not None),
                *(points[-1][0] for points in self._fragmentation.values()),
                1.0,
            ]
        )
        queue = _counts([span for spans in phases.values() for span in spans if span[2] not in (*MET, GONE)])
        used = [(start, to, None) for start, to, _ in _merged(uses)]
        there = [(device["from"], device["to"], None) for device in devices if device["to"] != device["from"]]
        return {
            "end": end,
            "nodes": [*sorted(homes | self._nodes.keys() - {""}), *([""] if "" in homes else [])],
            "devices": devices,
            "claims": [
                {"name": name, "phases": [[start, phase] for start, _, phase in phases.get(name, [])]}
                for name in claims
            ],
            "uses": [[numbers[device], claim_numbers[claim], since, to] for device, claim, since, to in uses],
            "queue": queue,
            "used": _counts(used),
            "published": _counts(there),
            "fragmentation": {
                name: [list(point) for point in self._fragmentation[name]] for name in sorted(self._fragmentation)
            },
            "events": result["events"],
        }

    def _phases(self) -> dict[str, list[Span]]:
        """By claim, its phases one after the other."""
        changes: dict[str, list[tuple[float, str]]] = {}
        for change in self._timeline.changes:
            at = round(change.at - self._timeline.start, 3)
            changes.setdefault(f"{change.claim.namespace}/{change.claim.name}", []).append((at, change.phase))
        for at, claim in self._gone:
            if claim in changes:
                changes[claim].append((at, GONE))
        spans: dict[str, list[Span]] = {}
        for claim, listed in changes.items():
            listed.sort(key=lambda item: item[0])
            ends = [*(at for at, _ in listed[1:]), None]
            spans[claim] = [(at, end, phase) for (at, phase), end in zip(listed, ends, strict=True)]
        return spans


def _allocated(claim: Mapping[str, Any]) -> Iterator[DeviceName]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield result.get("driver") or "", result.get("pool") or "", result.get("device") or ""


def _published(item: Mapping[str, Any]) -> Iterator[tuple[DeviceName, dict[str, Any]]]:
    spec = item["spec"]
    for device in spec.get("devices") or ():
        name = spec.get("driver") or "", (spec.get("pool") or {}).get("name") or "", device["name"]
        node = spec.get("nodeName") or device.get("nodeName") or ""
        yield name, {"node": node, "model": _model(device.get("attributes") or {})}


def _model(attributes: Mapping[str, Any]) -> str:
    for wanted in _MODELS:
        for name, value in attributes.items():
            if name.rpartition("/")[2] == wanted and isinstance(value, dict):
                return str(next(iter(value.values()), ""))
    return ""


def _merged(uses: Sequence[tuple[DeviceName, str, float, float | None]]) -> Iterator[Span]:
    """When devices were in use: one that several claims share is in use once."""
    by_device: dict[DeviceName, list[tuple[float, float]]] = {}
    for device, _, since, to in uses:
        by_device.setdefault(device, []).append((since, float("inf") if to is None else to))
    for spans in by_device.values():
        start, end = None, 0.0
        for since, to in sorted(spans):
            if start is None or since > end:
                if start is not None:
                    yield start, end, None
                start, end = since, to
            else:
                end = max(end, to)
        if start is not None:
            yield start, None if end == float("inf") else end, None


def _counts(spans: Sequence[Span]) -> list[list[float]]:
    """[time, how many spans cover it], where that changes."""
    steps: dict[float, int] = {0.0: 0}
    for start, end, _ in spans:
        steps[start] = steps.get(start, 0) + 1
        if end is not None:
            steps[end] = steps.get(end, 0) - 1
    counts: list[list[float]] = []
    total = 0
    for time in sorted(steps):
        total += steps[time]
        if not counts or counts[-1][1] != total:
            counts.append([time, total])
    return counts
