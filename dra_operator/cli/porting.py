"""One application on several clusters: it is played on a snapshot of each, and what became of it is told workload by workload.

Where a claim is left without devices, what would help comes from the engine's explanation, which has tried it; a class that is missing is
tried as one of the other clusters has it. Nothing outside the embedded clusters is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cli import endstate
from dra_operator.cli.manifests import SCENARIO, Manifest, Manifests, read_manifests
from dra_operator.cli.simulation import play
from dra_operator.cli.telling import tell
from dra_operator.cluster.memory.store import Store
from dra_operator.cluster.rest import BY_KIND, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

Object = dict[str, Any]
#: Seconds of virtual time that the application has on each cluster.
PATIENCE = 600.0
#: What would help, so many of a kind.
_FIXES = 3
#: Attributes that say what a device is, the first that it has.
_NAMES = ("productName", "model", "accelerator", "pciDevice", "type")


@dataclass(slots=True)
class Fate:
    """What became of one workload on one cluster. `devices`: what its claims got, "2 × NVIDIA L4 (24Gi)" and how often in all."""

    pods: int = 0
    running: int = 0
    claims: int = 0
    allocated: int = 0
    devices: Counter[str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)
    reasons: dict[str, None] = field(default_factory=dict)
    changes: dict[str, None] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        return self.allocated == self.claims and self.running == self.pods

    def to_dict(self) -> Object:
        return {
            "fits": self.fits,
            "pods": self.pods,
            "running": self.running,
            "claims": self.claims,
            "allocated": self.allocated,
            "devices": [{"device": name, "count": count} for name, count in sorted(self.devices.items())],
            "nodes": sorted(self.nodes),
            "reasons": list(self.reasons),
            "changes": list(self.changes),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one cluster: the fates by workload, "Deployment ml/chat"."""

    cluster: str
    fates: Mapping[str, Fate]

    @property
    def fits(self) -> bool:
        return all(fate.fits for fate in self.fates.values())


def judge(app: Sequence[str], clusters: Sequence[str]) -> tuple[list[Verdict], bool]:
    """A verdict for each cluster, in order; False beside them if something in the input could not be used.

    Raises CommandFailed where nothing of the application, or of a cluster, could.
    """
    application = read_manifests(app)
    read = {path: read_manifests([path]) for path in clusters}
    told = [tell(found) for found in (application, *read.values())]
    return [_on(path, application, read) for path in clusters], all(told)


def _on(path: str, application: Manifests, clusters: Mapping[str, Manifests]) -> Verdict:
    fates = _play(application, clusters[path], ())
    for name, others in _missing(application, clusters[path], clusters).items():
        for fate in fates.values():
            if any(f"class {name} " in f"{reason} " or f"class {name}:" in reason for reason in fate.reasons):
                _tell_of_class(fate, name, others, application, clusters[path], fates)
    return Verdict(path, fates)


def _tell_of_class(
    fate: Fate,
    name: str,
    others: Mapping[str, Manifest],
    application: Manifests,
    cluster: Manifests,
    fates: Mapping[str, Fate],
) -> None:
    """Tries the class as other clusters have it."""
    fate.changes.clear()
    title = next(title for title, found in fates.items() if found is fate)
    for path, manifest in others.items():
        if _play(application, cluster, (manifest,))[title].fits:
            fate.changes[f"make DeviceClass {name}, as {path} has it: with it, it fits"] = None
            return
    there = f"; as {', '.join(others)} has it, it takes too little here" if others else ""
    fate.changes[f"make DeviceClass {name} for the devices here ({_offer(cluster)}){there}"] = None


def _missing(
    application: Manifests, cluster: Manifests, clusters: Mapping[str, Manifests]
) -> dict[str, dict[str, Manifest]]:
    """Classes that the application asks for and the cluster lacks, with the clusters that have them."""
    here = {item.name for item in (*application.of_kind("DeviceClass"), *cluster.of_kind("DeviceClass"))}
    found: dict[str, dict[str, Manifest]] = {}
    for name in dict.fromkeys(_classes(application)):
        if name not in here:
            found[name] = {
                path: item
                for path, other in clusters.items()
                for item in other.of_kind("DeviceClass")
                if item.name == name
            }
    return found


def _classes(manifests: Manifests) -> Iterator[str]:
    for manifest in manifests.objects:
        spec = manifest.object.get("spec") or {}
        if manifest.resource.kind == "ResourceClaimTemplate":
            spec = spec.get("spec") or {}
        elif manifest.resource.kind != "ResourceClaim":
            continue
        for request in (spec.get("devices") or {}).get("requests") or ():
            for detail in (request.get("exactly"), *(request.get("firstAvailable") or ())):
                if detail and detail.get("deviceClassName"):
                    yield detail["deviceClassName"]


def _play(application: Manifests, cluster: Manifests, more: Sequence[Manifest]) -> dict[str, Fate]:
    """The application on the cluster's objects; what both have is taken as the application has it."""
    ours = {(item.resource, item.object["metadata"].get("namespace"), item.name) for item in application.objects}
    base = [
        item
        for item in cluster.objects
        if item.resource is not SCENARIO
        and (item.resource, item.object["metadata"].get("namespace"), item.name) not in ours
    ]
    together = [
        Manifest(item.source, item.resource, deepcopy(item.object)) for item in (*base, *more, *application.objects)
    ]
    run = play(Manifests(together), PATIENCE)
    return _Fates(application, run.store, run.engine, run.world.now).found


class _Fates:
    """What belongs to the application in the end, found by who owns what."""

    def __init__(self, application: Manifests, store: Store, engine: Any, now: float) -> None:
        self._store, self._engine, self._now = store, engine, now
        self._ours = {
            (item.resource.kind, item.object["metadata"].get("namespace") or "", item.name)
            for item in application.objects
            if item.resource.namespaced
        }
        self._described = dict(_descriptions(store))
        self.found: dict[str, Fate] = {}
        self._users: dict[Key, str] = {}
        for pod in store.listed(PODS):
            self._pod(pod)
        for row in endstate.claims(store, engine):
            self._claim(row)

    def _pod(self, pod: Object) -> None:
        title = self._root(pod)
        if title is None:
            return
        fate = self.found.setdefault(title, Fate())
        phase = (pod.get("status") or {}).get("phase")
        fate.pods += 1
        fate.running += phase in ("Running", "Succeeded")
        namespace = pod["metadata"]["namespace"]
        generated = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        claims = pod["spec"].get("resourceClaims") or ()
        for entry in claims:
            name = entry.get("resourceClaimName") or generated.get(entry["name"])
            if name:
                self._users.setdefault(Key(namespace, name), title)
        if phase == "Pending" and not claims:
            fate.reasons[_unscheduled(pod)] = None

    def _root(self, item: Object) -> str | None:
        """The object of the application at the end of the chain of owners."""
        kind, meta = item.get("kind"), item["metadata"]
        for _ in range(4):
            name = (kind, meta.get("namespace") or "", meta["name"])
            if name in self._ours:
                return f"{kind} {name[1]}/{name[2]}"
            owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
            if owner is None:
                return None
            kind = owner["kind"]
            meta = self._owner(owner, meta)
        return None

    def _owner(self, owner: Object, meta: Object) -> Object:
        resource = BY_KIND.get(owner["kind"])
        found = self._store.get(resource, Key(meta.get("namespace") or "", owner["name"])) if resource else None
        return found["metadata"] if found is not None else {"namespace": meta.get("namespace"), "name": owner["name"]}

    def _claim(self, row: Object) -> None:
        key = Key(row["namespace"], row["name"])
        title = self._users.get(key)
        if title is None and ("ResourceClaim", key.namespace, key.name) in self._ours:
            title = f"ResourceClaim {key}"
        if title is None:
            return
        fate = self.found.setdefault(title, Fate())
        fate.claims += 1
        if row["devices"]:
            fate.allocated += 1
            fate.nodes.update([row["node"]] if row["node"] else [])
            for device in row["devices"]:
                fate.devices[self._described.get((device["driver"], device["pool"], device["device"]), "?")] += 1
            return
        claim = self._store.get(RESOURCE_CLAIMS, key)
        if claim is not None and (claim.get("status") or {}).get("allocation") is not None:
            fate.allocated += 1
            return
        if fate.reasons:
            return  # replicas wait for the same
        account = self._engine.explain("claim", key, self._now)
        fate.reasons[row["reason"] if account is None else account.summary] = None
        if account is not None and account.explanation is not None:
            for fix in account.explanation.fixes[:_FIXES]:
                fate.changes[fix.text] = None


def _unscheduled(pod: Object) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))
    return f"pod {pod['metadata']['name']} is not scheduled"


def _descriptions(store: Store) -> Iterator[tuple[tuple[str, str, str], str]]:
    for item in store.listed(RESOURCE_SLICES):
        spec = item["spec"]
        for device in spec.get("devices") or ():
            yield (spec["driver"], spec["pool"]["name"], device["name"]), describe(spec["driver"], device)


def describe(driver: str, device: Object) -> str:
    """What a device is, in a few words: its product and memory as far as they are published."""
    attributes = {name.rpartition("/")[2]: value for name, value in (device.get("attributes") or {}).items()}
    named = next((attributes[name] for name in _NAMES if name in attributes), None)
    text = str(next(iter(named.values()))) if named else driver
    capacity = {name.rpartition("/")[2]: value for name, value in (device.get("capacity") or {}).items()}
    memory = (capacity.get("memory") or {}).get("value")
    return f"{text} ({memory})" if memory else text


def _offer(cluster: Manifests) -> str:
    found: Counter[str] = Counter()
    for manifest in cluster.objects:
        if manifest.resource is RESOURCE_SLICES:
            spec = manifest.object["spec"]
            found.update(describe(spec["driver"], device) for device in spec.get("devices") or ())
    return ", ".join(f"{count} × {name}" for name, count in found.most_common(3)) or "none are published"


__all__ = ["Fate", "Verdict", "describe", "judge"]
