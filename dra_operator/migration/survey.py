"""What a cluster has of device plugins and of DRA: resources, nodes, workloads. Counts and names; no judgement, that is `risks`.

Works on plain objects (as `snapshot` saves them), so that it tells the same of a running cluster and of manifests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.core import pod_requests
from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.fieldpath import FieldPath, path_text
from dra_operator.api.slices import ResourceSlice
from dra_operator.cel import CompileError, EvaluationError, bind_device, compile_selector
from dra_operator.convert.conversion import Conversion
from dra_operator.convert.deviceplugins import plugin
from dra_operator.convert.plan import Plan
from dra_operator.convert.podspecs import pod_specs
from dra_operator.convert.remarks import Untranslatable
from dra_operator.engine.names import PLUGIN_RESOURCE

Object = dict[str, Any]
#: What marks a node as one whose devices DRA hands out.
MODE_LABEL = "dra-operator.dev/devices"
TERMINAL = ("Succeeded", "Failed")
#: Shares of one device, which unrelated pods use.
SHARED = ".shared"


@dataclass(slots=True)
class PluginResource:
    """One resource of device plugins. `classes`: DeviceClasses that say they stand for it; `suggested`: the one a driver brings."""

    name: str
    suggested: str
    classes: list[str] = field(default_factory=list)
    served_by: list[str] = field(default_factory=list)
    on_nodes: int = 0
    in_use: int = 0
    asked: int = 0


@dataclass(slots=True)
class NodeUse:
    """`offered` and `used`: by plugin resource, from the node's allocatable and its pods' limits. `published`: devices in slices that
    stand for one of these resources, `allocated`: how many of them claims have. `pods`: who uses the plugin here."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    offered: dict[str, int] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    allocated: int = 0
    claims: list[str] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    pools: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """plugin, dra, both or none."""
        plugins, slices = any(self.offered.values()) or bool(self.pods), bool(self.published)
        return "both" if plugins and slices else "plugin" if plugins else "dra" if slices else "none"


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that asks a plugin. `devices`: by resource, of all its pods together. `obstacle`: why it cannot become claims."""

    kind: str
    namespace: str
    name: str
    pods: int
    devices: Mapping[str, int]
    obstacle: str = ""
    assumptions: tuple[str, ...] = ()
    controlled: bool = True
    node_labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(slots=True)
class Survey:
    resources: dict[str, PluginResource]
    nodes: dict[str, NodeUse]
    workloads: list[Workload]
    #: By namespace: claims for devices that stand for a plugin resource.
    claims: Counter[str]
    namespaces: dict[str, Mapping[str, str]]
    classes: dict[str, Object]

    def namespaces_asking(self) -> list[str]:
        return sorted({workload.namespace for workload in self.workloads})


def survey(objects: Iterable[Object]) -> Survey:
    """Look at everything once."""
    return _Surveyor(list(objects)).survey()


class _Surveyor:
    def __init__(self, objects: list[Object]) -> None:
        self._objects = objects
        self._plan = Plan()
        self._found = Survey({}, {}, [], Counter(), {}, {})
        # For what a workload would become; a second one would see its own results as taken names.
        self._conversion = Conversion(objects, completing=False)

    def of(self, kind: str) -> Iterator[Object]:
        return (item for item in self._objects if item.get("kind") == kind)

    def survey(self) -> Survey:
        found = self._found
        for item in self.of("Namespace"):
            found.namespaces[item["metadata"]["name"]] = item["metadata"].get("labels") or {}
        for item in self.of("DeviceClass"):
            found.classes[item["metadata"]["name"]] = item
            served = (item.get("spec") or {}).get("extendedResourceName")
            for resource, to in ((_annotated(item), "classes"), (served, "served_by")):
                if resource:
                    getattr(self._resource(resource), to).append(item["metadata"]["name"])
        self._nodes()
        self._workloads()
        self._slices()
        self._claims()
        return found

    def _resource(self, name: str) -> PluginResource:
        known = self._found.resources.get(name)
        if known is None:
            counterpart = None if name.endswith(SHARED) else plugin(name, self._plan)
            known = PluginResource(name, counterpart.device_class if counterpart is not None else "")
            self._found.resources[name] = known
        return known

    def _is_plugin(self, name: str) -> bool:
        return name in self._found.resources or plugin(name, self._plan) is not None or name.endswith(SHARED)

    def _nodes(self) -> None:
        for item in self.of("Node"):
            meta, status = item["metadata"], item.get("status") or {}
            node = self._found.nodes[meta["name"]] = NodeUse(meta["name"], meta.get("labels") or {})
            for name, amount in (status.get("allocatable") or status.get("capacity") or {}).items():
                if self._is_plugin(name) and _count(amount):
                    node.offered[name] = _count(amount)
                    self._resource(name).on_nodes += _count(amount)

    def _workloads(self) -> None:
        covered: set[str] = set()
        for index, item in enumerate(self._objects):
            meta = item.get("metadata") or {}
            if item.get("kind") == "Pod":
                self._pod(item)
            if any(owner.get("controller") for owner in meta.get("ownerReferences") or ()):
                continue
            found = self._workload(index, item)
            if found is not None and found.devices:
                covered.add(str(found))
                self._found.workloads.append(found)
                for name, count in found.devices.items():
                    self._resource(name).asked += count
        self._found.workloads.sort(key=str)

    def _pod(self, item: Object) -> None:
        spec, phase = item.get("spec") or {}, (item.get("status") or {}).get("phase")
        node = self._found.nodes.get(spec.get("nodeName") or "")
        if node is None or phase in TERMINAL:
            return
        # Where DRA serves the resource, the scheduler made a claim and says so; a pod without one has the plugin's devices, even if
        # the plugin has left the node since.
        by_claim = (item.get("status") or {}).get("extendedResourceClaimStatus")
        asked = {name: count for name, count in self._asked(spec).items() if node.offered.get(name) or not by_claim}
        if asked:
            node.used.update(asked)
            node.pods.append(f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}")
            for name, count in asked.items():
                self._resource(name).in_use += count

    def _asked(self, spec: Object) -> dict[str, int]:
        try:
            requests = pod_requests(spec)
        except (InvalidField, InvalidObject):
            return {}
        return {name: count for name, count in requests.items() if count and "/" in name and self._is_plugin(name)}

    def _workload(self, index: int, item: Object) -> Workload | None:
        kind, meta = item.get("kind"), item.get("metadata") or {}
        if kind in ("ResourceClaimTemplate", "ReplicaSet") and meta.get("ownerReferences"):
            return None
        if kind == "Pod" and (item.get("status") or {}).get("phase") in TERMINAL:
            return None
        devices: Counter[str] = Counter()
        pods = _replicas(item)
        labels: list[str] = []
        for _, spec in pod_specs(item):
            asked = self._asked(dict(spec))
            devices.update({name: count * pods for name, count in asked.items()})
            if asked:
                labels += sorted(name for name in spec.get("nodeSelector") or {} if name.startswith("nvidia.com/"))
        if not devices:
            return None
        obstacle, assumptions = self._convertible(index, item)
        namespace = meta.get("namespace") or "default"
        name = meta.get("name") or meta.get("generateName") or ""
        return Workload(
            str(kind), namespace, name, pods, dict(devices), obstacle, assumptions, kind != "Pod", tuple(labels)
        )

    def _convertible(self, index: int, item: Object) -> tuple[str, tuple[str, ...]]:
        try:
            converted = self._conversion.convert(index, item)
        except Untranslatable as reason:
            return _located(reason.path, reason.message), ()
        return "", tuple(_located(each.path, each.message) for each in converted.assumptions)

    def _slices(self) -> None:
        """Devices that stand for a plugin resource, by node. A class that does not compile has none."""
        compiled = {}
        for resource in self._found.resources.values():
            for name in {*resource.classes, *resource.served_by, resource.suggested}:
                if name in self._found.classes:
                    try:
                        texts = [entry["cel"]["expression"] for entry in self._found.classes[name]["spec"]["selectors"]]
                        compiled[resource.name] = [compile_selector(text) for text in texts]
                    except (CompileError, KeyError, TypeError):
                        continue
        for item in self.of("ResourceSlice"):
            try:
                published = ResourceSlice.from_dict(item)
            except InvalidObject:
                continue
            home = published.node_name
            if home is None:
                continue
            node = self._found.nodes.setdefault(home, NodeUse(home))
            for device in published.devices:
                bound = bind_device(published.driver, device.attributes, device.capacity, device.allow_multiple)
                for resource_name, selectors in compiled.items():
                    if _matches(selectors, bound):
                        node.published[resource_name] += 1
                        node.pools[published.driver, published.pool] = resource_name

    def _claims(self) -> None:
        pools = {pool: node for node in self._found.nodes.values() for pool in node.pools}
        for item in self.of("ResourceClaim"):
            meta = item["metadata"]
            allocation = ((item.get("status") or {}).get("allocation") or {}).get("devices") or {}
            for result in allocation.get("results") or ():
                node = pools.get((result.get("driver") or "", result.get("pool") or ""))
                if node is not None:
                    node.allocated += 1
                    name = f"{meta.get('namespace') or 'default'}/{meta['name']}"
                    if name not in node.claims:
                        node.claims.append(name)
                        self._found.claims[meta.get("namespace") or "default"] += 1


def _annotated(item: Object) -> str | None:
    return (item["metadata"].get("annotations") or {}).get(PLUGIN_RESOURCE)


def _count(amount: Any) -> int:
    try:
        return int(str(amount))
    except ValueError:
        return 0


def _replicas(item: Object) -> int:
    spec = item.get("spec") or {}
    match item.get("kind"):
        case "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController":
            return int(spec.get("replicas", 1) if spec.get("replicas") is not None else 1)
        case "Job":
            return int(spec.get("parallelism") or 1)
        case "DaemonSet":
            return int((item.get("status") or {}).get("desiredNumberScheduled") or 1)
        case _:
            return 1


def _matches(selectors: Sequence[Any], bound: Any) -> bool:
    try:
        return all(selector.matches(bound) for selector in selectors)
    except EvaluationError:
        return False


def _located(path: FieldPath, message: str) -> str:
    return f"{path_text(path)}: {message}" if path else message
