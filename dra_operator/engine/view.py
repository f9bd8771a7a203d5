"""What the watches have shown: typed objects and the indexes between pods and claims. Nothing assumed, nothing decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from dra_operator.api.claims import Allocation, ClaimSpec, Consumer, DeviceResult, ResourceClaim
from dra_operator.api.core import Namespace, Pod, PriorityClass
from dra_operator.api.errors import SHAPE_ERRORS, InvalidField, InvalidObject
from dra_operator.api.meta import Key, ObjectMeta, parse_time, read_object
from dra_operator.api.sharing import Sharing, packed
from dra_operator.engine.names import GATE, MANAGED_LABEL, UNGATED_AT

T = TypeVar("T")


@dataclass(slots=True)
class SeenClaim:
    """A claim as last delivered. `text` is its JSON: a fifth of the memory of `raw`, and few claims are written again.
    `spec_key` is equal for equal specs. `since` is settled by `ages`."""

    claim: ResourceClaim
    text: bytes
    spec_key: bytes
    version: int
    error: str | None = None
    since: float | None = None

    @property
    def raw(self) -> dict[str, Any]:
        """What an update must send back."""
        found: dict[str, Any] = orjson.loads(self.text)
        return found

    @property
    def key(self) -> Key:
        return self.claim.meta.key

    @property
    def uid(self) -> str:
        return self.claim.meta.uid

    @property
    def managed(self) -> bool:
        return self.claim.meta.labels.get(MANAGED_LABEL) == "true"

    @property
    def allocated(self) -> bool:
        return self.claim.allocation is not None


@dataclass(frozen=True, slots=True)
class PodClaimState:
    """One claim of a pod: its name in the pod, the claim's key once known; `needless` where none is generated.
    `template`: what it is to be generated from."""

    name: str
    key: Key | None
    needless: bool = False
    template: str | None = None


class View:
    """Typed objects by key. Claims and pods are indexed both ways. `used`: UIDs of claims that were seen reserved once. `claim_changes`
    counts claims that came, went, got devices or lost them."""

    def __init__(self) -> None:
        self.claim_changes = 0
        self.pods: dict[Key, Pod] = {}
        self.claims: dict[Key, SeenClaim] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.used: set[str] = set()
        #: Pods that end by their deadline.
        self.ending: dict[Key, None] = {}
        self._leaving: dict[Key, None] = {}
        self._unheard: dict[Key, float] = {}
        self._pods_of_claim: dict[Key, dict[Key, None]] = {}
        self._pods_of_controller: dict[str, dict[Key, None]] = {}
        self._claims_by_uid: dict[str, Key] = {}
        self._pods_by_uid: dict[str, Key] = {}
        self._specs = Sharing()

    # -- claims

    def apply_claim(self, raw: dict[str, Any]) -> SeenClaim | None:
        """Store the claim; None if what is stored is newer already (lists and watches of one kind can cross)."""
        version = resource_version(raw)
        error = None
        try:
            claim = ResourceClaim.from_dict(raw)
        except InvalidObject as invalid:
            error = str(invalid)
            claim = _unreadable_claim(raw)
        key = claim.meta.key
        old = self.claims.get(key)
        if old is not None and old.uid == claim.meta.uid and old.version > version:
            return None
        if old is not None and old.uid != claim.meta.uid:
            self._forget_claim(old.uid)
            old = None
        if claim.reserved_for:
            self.used.add(claim.meta.uid)
        spec_key = orjson.dumps(raw.get("spec"), option=orjson.OPT_SORT_KEYS)
        since = None if old is None else old.since
        seen = SeenClaim(claim, packed(raw), self._specs.get(spec_key, lambda: spec_key), version, error, since)
        self.claims[key] = seen
        if old is None or old.allocated != seen.allocated:
            self.claim_changes += 1
        self._claims_by_uid[claim.meta.uid] = key
        return seen

    def remove_claim(self, key: Key) -> SeenClaim | None:
        seen = self.claims.pop(key, None)
        if seen is not None:
            self.claim_changes += 1
            self._forget_claim(seen.uid)
        return seen

    def _forget_claim(self, uid: str) -> None:
        self._claims_by_uid.pop(uid, None)
        self.used.discard(uid)

    def claim_by_uid(self, uid: str) -> SeenClaim | None:
        key = self._claims_by_uid.get(uid)
        return None if key is None else self.claims.get(key)

    # -- pods

    def apply_pod(self, pod: Pod) -> Pod | None:
        """Store the pod and return what was known of it before."""
        key = pod.key
        old = self.pods.get(key)
        if old is not None:
            self._unlink(key, old)
        self.pods[key] = pod
        if pod.active_deadline is not None:
            self.ending[key] = None
        if pod.meta.deleted is not None and pod.claims:
            self._leaving[key] = None
        else:
            self._leaving.pop(key, None)
        ungated = _unheard_since(pod)
        if ungated is None:
            self._unheard.pop(key, None)
        else:
            self._unheard[key] = ungated
        self._pods_by_uid[pod.meta.uid] = key
        if pod.meta.controller is not None:
            self._pods_of_controller.setdefault(pod.meta.controller.uid, {})[key] = None
        for claim in self.claim_keys(pod):
            self._pods_of_claim.setdefault(claim, {})[key] = None
        return old

    def remove_pod(self, key: Key) -> Pod | None:
        old = self.pods.pop(key, None)
        self._leaving.pop(key, None)
        self._unheard.pop(key, None)
        if old is not None:
            self._unlink(key, old)
        return old

    def _unlink(self, key: Key, pod: Pod) -> None:
        self._pods_by_uid.pop(pod.meta.uid, None)
        self.ending.pop(key, None)
        if pod.meta.controller is not None:
            pods = self._pods_of_controller.get(pod.meta.controller.uid, {})
            pods.pop(key, None)
            if not pods:
                self._pods_of_controller.pop(pod.meta.controller.uid, None)
        for claim in self.claim_keys(pod):
            users = self._pods_of_claim.get(claim)
            if users is not None:
                users.pop(key, None)
                if not users:
                    del self._pods_of_claim[claim]

    def leaving_pods(self) -> Iterator[Pod]:
        """Pods with claims that are being deleted."""
        return (self.pods[key] for key in tuple(self._leaving))

    def unheard_since(self) -> Iterable[float]:
        """When the pods lost their gate of which kube-scheduler has said nothing yet: neither bound nor unschedulable."""
        return self._unheard.values()

    def pod_by_uid(self, uid: str) -> Pod | None:
        key = self._pods_by_uid.get(uid)
        return None if key is None else self.pods.get(key)

    def pods_of_claim(self, key: Key) -> Iterator[Pod]:
        """Pods that refer to the claim, in the order they were seen."""
        return (self.pods[pod] for pod in tuple(self._pods_of_claim.get(key, ())))

    def pods_of_controller(self, uid: str) -> Iterator[Pod]:
        """Pods that a controller manages."""
        return (self.pods[pod] for pod in tuple(self._pods_of_controller.get(uid, ())))

    @staticmethod
    def pod_claims(pod: Pod) -> Iterator[PodClaimState]:
        """The pod's claims in the order of its spec."""
        for entry in pod.claims:
            if entry.claim_name is not None:
                yield PodClaimState(entry.name, Key(pod.meta.namespace, entry.claim_name))
            elif entry.name in pod.generated_claims:
                generated = pod.generated_claims[entry.name]
                yield PodClaimState(
                    entry.name, (generated and Key(pod.meta.namespace, generated)) or None, not generated
                )
            else:
                yield PodClaimState(entry.name, None, template=entry.template_name)

    @staticmethod
    def claim_keys(pod: Pod) -> Iterator[Key]:
        """Those of the pod's claims that have a name by now."""
        for entry in pod.claims:
            name = entry.claim_name if entry.claim_name is not None else pod.generated_claims.get(entry.name)
            if name:
                yield Key(pod.meta.namespace, name)


def ungated_at(pod: Pod) -> float | None:
    """When our gate was taken off, by the pod's annotation; None also where somebody wrote something there that is no time."""
    try:
        return parse_time(pod.meta.annotations.get(UNGATED_AT))
    except InvalidField:
        return None


def _unheard_since(pod: Pod) -> float | None:
    told = pod.node_name is not None or pod.unschedulable is not None or pod.meta.deleted is not None or pod.terminal
    return None if told or GATE in pod.gates else ungated_at(pod)


def resource_version(raw: dict[str, Any]) -> int:
    """The object's version as a number (KEP-5504 makes the comparison official); 0 where it is none."""
    text = (raw.get("metadata") or {}).get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


def _unreadable_claim(raw: dict[str, Any]) -> ResourceClaim:
    """A stand-in for a claim that cannot be read, so that it has a place to report the error. The devices that it has are taken all
    the same, whoever gave them to it."""
    status = raw.get("status")
    status = status if isinstance(status, dict) else {}
    allocation = _devices_of(status.get("allocation"))
    consumers = tuple(_parsed(Consumer.from_dict, _items(status.get("reservedFor"))))

    def parse(_: dict[str, Any], meta: ObjectMeta) -> ResourceClaim:
        return ResourceClaim(meta, ClaimSpec(), allocation, consumers)

    try:
        return read_object("ResourceClaim", {"metadata": raw["metadata"]}, parse)
    except InvalidObject:
        metadata = raw.get("metadata") or {}
        bare = {field: metadata.get(field) for field in ("name", "namespace", "uid", "resourceVersion", "labels")}
        return read_object("ResourceClaim", {"metadata": bare}, parse)


def _devices_of(allocation: Any) -> Allocation | None:
    """What can be read of an allocation: its devices."""
    if not isinstance(allocation, dict):
        return None
    devices = allocation.get("devices")
    return Allocation(tuple(_parsed(_device_of, _items(devices.get("results") if isinstance(devices, dict) else None))))


def _device_of(result: dict[str, Any]) -> DeviceResult:
    """As wholly taken where it cannot be read how much of the device it is."""
    try:
        return DeviceResult.from_dict(result)
    except SHAPE_ERRORS:
        request, driver, pool, device = (str(result[name]) for name in ("request", "driver", "pool", "device"))
        return DeviceResult(request, driver, pool, device, admin_access=bool(result.get("adminAccess")))


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parsed(parse: Callable[[dict[str, Any]], T], items: list[dict[str, Any]]) -> Iterator[T]:
    """Those that can be read."""
    for item in items:
        with suppress(*SHAPE_ERRORS):
            yield parse(item)
