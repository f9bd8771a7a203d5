"""Pod, Node, Namespace and PriorityClass of core/v1 and scheduling/v1, read lean: only what allocation needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.claims import quantity
from dra_operator.api.errors import InvalidField, each, inside
from dra_operator.api.meta import Key, ObjectMeta, parse_time, read_object
from dra_operator.api.quantity import Quantity
from dra_operator.api.selectors import NodeSelector
from dra_operator.api.sharing import EMPTY, Sharing, shared, shared_text, shared_texts
from dra_operator.api.taints import Taint, Toleration

#: Phases in which a pod has given back what it used.
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})

#: What a container without a request still counts with is nothing; these two are compared in integers:
#: cpu in thousandths, everything else in whole units (bytes, devices).
Resources = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of `spec.resourceClaims`."""

    name: str
    claim_name: str | None
    template_name: str | None


@dataclass(frozen=True, slots=True)
class HostPort:
    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        anywhere = ("", "0.0.0.0", "::")
        return self.ip == other.ip or self.ip in anywhere or other.ip in anywhere


#: The most `Pod.conditions` with which a pod is placed. The API server takes tens of thousands, each of which would be held against each
#: node, again and again, by a scheduler that serves everybody.
MOST_CONDITIONS = 256


@dataclass(frozen=True, slots=True)
class Pod:
    """`requests` is the scheduler's view of the whole pod: cpu in thousandths, the rest in whole units, `pods` = 1.

    `generated_claims` maps the pod's claim names to the ResourceClaims made for them; a name mapped to None needs no claim.
    `claimed_resources`: extended resources that the pod has by `extended_resource_claim`, not from a device plugin (KEP-5004).
    `conditions`: how many entries its node selector, required node affinity and tolerations have, see `MOST_CONDITIONS`.
    """

    meta: ObjectMeta
    node_name: str | None
    scheduler_name: str
    priority: int
    priority_class_name: str
    preemption_policy: str
    gates: tuple[str, ...]
    claims: tuple[PodClaim, ...]
    node_selector: Mapping[str, str]
    node_affinity: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    requests: Resources
    host_ports: tuple[HostPort, ...]
    scheduling_group: str | None
    active_deadline: int | None
    phase: str
    generated_claims: Mapping[str, str | None]
    extended_resource_claim: str | None
    claimed_resources: frozenset[str]
    unschedulable: str | None
    nominated_node: str | None
    ready: bool
    started: float | None
    conditions: int

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Pod:
        """Raises InvalidObject."""
        return read_object("Pod", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> Pod:
        spec = data.get("spec") or {}
        status = data.get("status") or {}
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        selector = None if affinity is None else inside("spec.affinity.nodeAffinity", affinity, NodeSelector.from_dict)
        tolerations = shared(each("spec.tolerations", spec.get("tolerations"), Toleration.from_dict))
        group = spec.get("schedulingGroup")
        return cls(
            meta=meta,
            node_name=shared_text(spec.get("nodeName") or None),
            scheduler_name=shared_text(spec.get("schedulerName") or "default-scheduler"),
            priority=spec.get("priority") or 0,
            priority_class_name=shared_text(spec.get("priorityClassName") or ""),
            preemption_policy=shared_text(spec.get("preemptionPolicy") or "PreemptLowerPriority"),
            gates=shared(tuple(gate["name"] for gate in spec.get("schedulingGates") or ())),
            claims=shared(each("spec.resourceClaims", spec.get("resourceClaims"), _pod_claim)),
            node_selector=shared_texts(spec.get("nodeSelector")),
            node_affinity=selector,
            tolerations=tolerations,
            requests=inside("spec", spec, pod_requests),
            host_ports=_host_ports(spec),
            scheduling_group=None if group is None else str(group.get("podGroupName") or group),
            active_deadline=spec.get("activeDeadlineSeconds"),
            phase=shared_text(status.get("phase") or "Pending"),
            generated_claims={
                shared_text(entry["name"]): entry.get("resourceClaimName")
                for entry in status.get("resourceClaimStatuses") or ()
            }
            or EMPTY,
            extended_resource_claim=(status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"),
            claimed_resources=frozenset(
                mapping.get("resourceName", "")
                for mapping in (status.get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
            ),
            unschedulable=_unschedulable(status),
            nominated_node=shared_text(status.get("nominatedNodeName") or None),
            ready=any(
                item.get("type") == "Ready" and item.get("status") == "True" for item in status.get("conditions") or ()
            ),
            started=parse_time(status.get("startTime")),
            conditions=len(spec.get("nodeSelector") or ()) + len(tolerations) + (selector.size if selector else 0),
        )

    @property
    def key(self) -> Key:
        return self.meta.key

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL_PHASES

    @property
    def pinned_to(self) -> str | None:
        """The one node that every term of the required affinity names, or None."""
        if self.node_affinity is None or not self.node_affinity.terms:
            return None
        names = {field.values for term in self.node_affinity.terms for field in term.fields if field.operator == "In"}
        everywhere = all(term.fields for term in self.node_affinity.terms)
        found = next(iter(names)) if len(names) == 1 and everywhere else ()
        return found[0] if len(found) == 1 else None

    def fits_affinity(self, node: Node) -> bool:
        """nodeSelector and required node affinity."""
        if any(node.labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.node_affinity is None or self.node_affinity.matches(node.name, node.labels)


def _pod_claim(data: dict[str, Any]) -> PodClaim:
    fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
    return PodClaim(*(shared_text(data[field] if field == "name" else data.get(field)) for field in fields))


def _host_ports(spec: dict[str, Any]) -> tuple[HostPort, ...]:
    containers = list(spec.get("containers") or ())
    containers += [item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"]
    return tuple(
        HostPort(port.get("hostIP") or "", port.get("protocol") or "TCP", port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _unschedulable(status: dict[str, Any]) -> str | None:
    """The scheduler's message for a pod it could not place."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") in ("Unschedulable", "SchedulerError"):
                return str(condition.get("message") or condition["reason"])
    return None


def pod_requests(spec: dict[str, Any]) -> Resources:
    """A pod's requests as kube-scheduler adds them up: containers and sidecars together, or the largest init container
    (with the sidecars started before it) if that is more; pod-level resources replace the sum; overhead on top (KEP-753, KEP-2837)."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        amounts = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            _raise(
                peak, {name: amounts.get(name, 0) + sidecars.get(name, 0) for name in amounts.keys() | sidecars.keys()}
            )
    _add(total, sidecars)
    _raise(total, peak)
    total.update(_requests(spec))
    _add(total, _amounts(spec.get("overhead")))
    total["pods"] = 1
    return _AMOUNTS.get(tuple(total.items()), lambda: total)


_AMOUNTS = Sharing()
_MOST = 2**63 - 1


def _requests(holder: dict[str, Any]) -> dict[str, int]:
    resources = holder.get("resources") or {}
    # The API server defaults requests to limits; manifests offline have not been through it.
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(data: dict[str, Any] | None) -> dict[str, int]:
    return {name: amount(name, quantity(text)) for name, text in (data or {}).items()}


def _room(data: dict[str, Any] | None) -> Resources:
    amounts = _amounts(data)
    return _AMOUNTS.get(tuple(amounts.items()), lambda: amounts)


def amount(resource: str, value: Quantity) -> int:
    """cpu in thousandths, everything else in whole units, both rounded up, and no more than kube-scheduler can count (int64).

    Raises InvalidField for what is less than nothing, which the API server takes neither from pods nor from nodes.
    """
    if value.nano < 0:
        raise InvalidField(f"{resource} is {value}: an amount cannot be negative")
    unit = 10**6 if resource == "cpu" else 10**9
    return min(-(-value.nano // unit), _MOST)


def _add(total: dict[str, int], amounts: Resources) -> None:
    for name, value in amounts.items():
        total[name] = total.get(name, 0) + value


def _raise(total: dict[str, int], amounts: Resources) -> None:
    for name, value in amounts.items():
        if value > total.get(name, 0):
            total[name] = value


@dataclass(frozen=True, slots=True)
class Node:
    """`allocatable` in the units of `Pod.requests`."""

    meta: ObjectMeta
    unschedulable: bool
    taints: tuple[Taint, ...]
    allocatable: Resources
    declared_features: frozenset[str]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Node:
        """Raises InvalidObject."""
        return read_object("Node", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> Node:
        spec = data.get("spec") or {}
        status = data.get("status") or {}
        return cls(
            meta=meta,
            unschedulable=bool(spec.get("unschedulable")),
            taints=each("spec.taints", spec.get("taints"), Taint.from_dict),
            allocatable=inside("status.allocatable", status.get("allocatable") or status.get("capacity"), _room),
            declared_features=frozenset(status.get("declaredFeatures") or ()),
        )

    @property
    def name(self) -> str:
        return self.meta.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.meta.labels


@dataclass(frozen=True, slots=True)
class Namespace:
    meta: ObjectMeta

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Namespace:
        """Raises InvalidObject."""
        return read_object("Namespace", data, lambda _, meta: cls(meta))


@dataclass(frozen=True, slots=True)
class PriorityClass:
    meta: ObjectMeta
    value: int
    preemption_policy: str

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PriorityClass:
        """Raises InvalidObject."""
        return read_object(
            "PriorityClass",
            data,
            lambda item, meta: cls(
                meta,
                item.get("value") or 0,
                item.get("preemptionPolicy") or "PreemptLowerPriority",
            ),
        )


def pin_terms(affinity: NodeSelector | None, node: str) -> list[dict[str, Any]]:
    """Required node-affinity terms that keep a pod on `node`: the name is added to every existing term, since terms are ORed."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    if affinity is None or not affinity.terms:
        return [{"matchFields": [here]}]
    return [
        {**term, "matchFields": [*(term.get("matchFields") or ()), here]}
        for term in affinity.source["nodeSelectorTerms"]
    ]
