"""Everything the engine knows, in one place that its parts share: what was seen, what is assumed, what waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dra_operator.api.claims import Allocation
from dra_operator.api.core import Node, Pod
from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.avoid import AvoidedNodes
from dra_operator.engine.decisions import RecordEvent
from dra_operator.engine.drift import ClassMark, Finding
from dra_operator.engine.expecting import Expecting
from dra_operator.engine.membership import owner_key
from dra_operator.engine.names import EXTENDED_RESOURCE_PREFIX, GROUP_LABEL
from dra_operator.engine.republishing import Republishing
from dra_operator.engine.settings import EngineSettings
from dra_operator.engine.usage import Usage
from dra_operator.engine.view import SeenClaim, View
from dra_operator.engine.writes import Write, Writes
from dra_operator.explain.classes import ClassCounts
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.holds import Holds
from dra_operator.queue.groups import GroupBook, Kind
from dra_operator.queue.nodefit import NodeLedger
from dra_operator.queue.pluginuse import PluginUse
from dra_operator.queue.policies import PolicyBook
from dra_operator.queue.units import Unit, UnitKey


@dataclass(slots=True)
class Lost:
    """An allocation of ours that somebody else cleared while its pod was waiting to be bound."""

    pod: Pod
    claim: Key
    node: str


@dataclass(frozen=True, slots=True)
class HeldBefore:
    """A hold as a report from before a restart tells it; `by_name`: victims were chosen for it. `others`: further nodes of a gang's."""

    node: str
    since: float
    devices: frozenset[DeviceId]
    by_name: bool
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class State:
    """`waited_before` and `held_before`: since when claims waited, and on which node theirs were held since when, according to
    reports from before a restart. `preempted`: by UID, claims whose devices were taken for the unit named.
    `timed_out`: when a ClaimGroup last gave up. `coming_classes`: names of DeviceClasses that are about to be made;
    `unmade_classes`: those that a NetworkDeviceClass of the name should have made, and what its condition says instead.
    By UID of allocated claims: `class_marks` are their classes as they were at the allocation, `drifts` what is wrong with it, as last
    `drifts_told` in an Event, and `drift_notes` why the claim stays where it is all the same.

    `requeued`: units whose place in the queue is to be worked out anew; `untried`: those to be tried whatever changed.

    `changes` counts what can make any waiting unit fit, `layout` those of them that change what there is at all, `rooms` what makes
    room on nodes, `term_changes` what policies and priorities say. Devices that come free are followed by `usage` and wake those only
    that could use them.
    """

    settings: EngineSettings
    view: View = field(default_factory=View)
    inventory: Inventory = field(default_factory=Inventory)
    policies: PolicyBook = field(default_factory=PolicyBook)
    units: dict[UnitKey, Unit] = field(default_factory=dict)
    waiting: dict[UnitKey, Unit] = field(default_factory=dict)
    queue_changes: int = 0
    requeued: dict[UnitKey, None] = field(default_factory=dict)
    untried: dict[UnitKey, None] = field(default_factory=dict)
    waited_before: dict[Key, float] = field(default_factory=dict)
    dirty_pods: dict[Key, None] = field(default_factory=dict)
    dirty_claims: dict[Key, None] = field(default_factory=dict)
    dirty_groups: dict[Key, None] = field(default_factory=dict)
    stale_groups: dict[Key, None] = field(default_factory=dict)
    timed_out: dict[Key, float] = field(default_factory=dict)
    groups: GroupBook = field(default_factory=lambda: GroupBook(GROUP_LABEL))
    stale_reports: dict[Key, None] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    events: list[RecordEvent] = field(default_factory=list)
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    served_resources: dict[str, str] = field(default_factory=dict)
    plugin_resources: dict[str, str] = field(default_factory=dict)
    changes: int = 0
    layout: int = 0
    rooms: int = 0
    holds: Holds = field(default_factory=Holds)
    held_before: dict[Key, HeldBefore] = field(default_factory=dict)
    budgets: Budgets = field(default_factory=Budgets)
    budget_changes: int = 0
    term_changes: int = 0
    preempted: dict[str, str] = field(default_factory=dict)
    class_totals: dict[str, int] = field(default_factory=dict)
    coming_classes: set[str] = field(default_factory=set)
    unmade_classes: dict[str, str] = field(default_factory=dict)
    class_marks: dict[str, dict[str, ClassMark]] = field(default_factory=dict)
    drifts: dict[str, Finding] = field(default_factory=dict)
    drift_version: int = 0
    drifts_told: dict[str, str] = field(default_factory=dict)
    drift_notes: dict[str, str] = field(default_factory=dict)
    plugins: PluginUse = field(default_factory=PluginUse)
    class_counts: ClassCounts = field(init=False)
    usage: Usage = field(init=False)
    ledger: NodeLedger = field(init=False)
    republishing: Republishing = field(init=False)
    expecting: Expecting = field(init=False)
    writes: Writes = field(init=False)
    avoided: AvoidedNodes = field(init=False)

    def __post_init__(self) -> None:
        self.class_counts = ClassCounts(self.inventory)
        self.usage = Usage(self.inventory)
        self.republishing = Republishing(self.inventory)
        self.ledger = NodeLedger(self._is_served)
        self.expecting = Expecting(self.view)
        settings = self.settings
        self.writes = Writes(retry_after=settings.retry_unknown, forget_after=settings.forget_assumption)
        self.avoided = AvoidedNodes(settings.avoid_initial, settings.avoid_max)

    def _is_served(self, resource: str) -> bool:
        """Extended resources that a DeviceClass serves are not counted by nodes (KEP-5004)."""
        return resource in self.served_resources.values() or resource.startswith(EXTENDED_RESOURCE_PREFIX)

    # -- what changed

    def freed(self) -> None:
        """Something other than devices or room came free: any unit that waits may fit now."""
        self.changes += 1

    def made_room(self) -> None:
        """A pod left a node: units that did not fit some node may fit now."""
        self.rooms += 1

    @property
    def moment(self) -> tuple[int, int, int, int]:
        """While it stays the same, whoever did not fit does not fit."""
        return self.changes, self.rooms, self.usage.freed_total, self.holds.version

    def relaid(self) -> None:
        """Inventory, classes, nodes or policies changed: what was impossible may be possible now."""
        self.changes += 1
        self.layout += 1

    def mark_reports(self, unit: Unit) -> None:
        """What they say of the unit may be out of date."""
        for key in unit.claims:
            self.stale_reports[key] = None
        if unit.key.kind == "group":
            self.stale_groups[unit.key.subject] = None

    def touch(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.dirty_pods[pod.key] = None

    def group_of(self, unit: Unit) -> Key | None:
        """The ClaimGroup that the unit is, or is a member of."""
        return unit.key.subject if unit.key.kind == "group" else self.groups.of(unit.key.kind, unit.key.subject)

    def enlist(self, kind: Kind, key: Key, labels: Mapping[str, str]) -> None:
        """Follow which ClaimGroup a pod or claim belongs to."""
        for group in self.groups.enlist(kind, key, labels):
            self.dirty_groups[group] = None

    def strike(self, kind: Kind, key: Key) -> None:
        """The pod or claim is gone."""
        group = self.groups.strike(kind, key)
        if group is not None:
            self.dirty_groups[group] = None

    def event(
        self, regarding: dict[str, str], type: Literal["Normal", "Warning"], reason: str, action: str, note: str
    ) -> None:
        self.events.append(RecordEvent(self.writes.next_id(), regarding, type, reason, action, note))

    # -- the queue

    def wait(self, unit: Unit, now: float) -> None:
        """The unit needs devices; it is tried again in this pass."""
        if unit.waiting_since is None:
            known = [self.waited_before.get(key, now) for key in unit.claims]
            unit.waiting_since = min([now, *known])
        self.waiting[unit.key] = unit
        self.holds.rest(unit.key, resting=False)
        self._requeue(unit)
        self.retry(unit)

    def retry(self, unit: Unit) -> None:
        """It is tried again although nothing may have changed for it."""
        self.untried[unit.key] = None

    def pause(self, unit: Unit) -> None:
        """Its writes are under way; should they fail, it has waited since the beginning."""
        self.waiting.pop(unit.key, None)
        self._requeue(unit)

    def _requeue(self, unit: Unit) -> None:
        self.requeued[unit.key] = None
        self.queue_changes += 1

    def stop_waiting(self, unit: Unit) -> None:
        if self.waiting.pop(unit.key, None) is not None:
            self._requeue(unit)
        for key in unit.claims:
            self.waited_before.pop(key, None)
        unit.waiting_since, unit.position, unit.starved_since = None, None, None
        self.drop_hold(unit.key)

    def drop_hold(self, key: UnitKey) -> None:
        """What was set aside is anybody's again."""
        hold = self.holds.get(key)
        if self.holds.drop(key) and hold is not None and not hold.resting:
            self.freed()

    def rest_hold(self, key: UnitKey, taken: Collection[DeviceId]) -> None:
        """The unit is allocated these devices: what was set aside for it besides is anybody's, until the write should fail."""
        hold = self.holds.get(key)
        left = () if hold is None else hold.kept
        self.holds.rest(key, resting=True)
        if any(device not in taken or self._shared(device) for device in left):
            self.freed()

    def _shared(self, device: DeviceId) -> bool:
        offer = self.inventory.offer(device)
        return offer is None or offer.device.allow_multiple

    def drop_unit(self, key: UnitKey) -> None:
        unit = self.units.pop(key, None)
        if unit is not None:
            self.stop_waiting(unit)

    def new_unit(self, unit: Unit) -> Unit:
        """Replaces what was known of a pod or claim of the same name."""
        self.drop_unit(unit.key)
        self.units[unit.key] = unit
        return unit

    # -- usage

    def take(self, seen: SeenClaim, allocation: Allocation) -> None:
        """The claim's devices are taken."""
        self.usage.take(seen.uid, seen.key, seen.claim.spec, allocation)

    def settle_usage(self, seen: SeenClaim) -> None:
        """Make usage follow what the watch shows of the claim.

        While an allocation of ours is under way its devices stay taken: the same version can be delivered twice.
        """
        if seen.claim.allocation is not None:
            self.take(seen, seen.claim.allocation)
            return
        write = self.writes.get(seen.uid)
        if write is None or write.assumed is None:
            self.usage.give_back(seen.uid)

    def drop_assumption(self, write: Write) -> None:
        """A write did not happen: its devices are free again, unless the watch says otherwise, and what is held for its unit is so."""
        uid = write.decision.uid
        if write.unit is not None:
            self.holds.rest(write.unit, resting=False)
        seen = self.view.claim_by_uid(uid)
        if seen is None:
            self.usage.give_back(uid)
        else:
            self.settle_usage(seen)

    # -- look-ups

    def totals(self, classes: Iterable[str]) -> dict[str, int]:
        """How many devices there are of each class, as last counted for the class reports; a new class is counted at once."""
        for name in classes:
            if name not in self.class_totals and name in self.inventory.classes:
                self.class_totals[name] = self.class_counts.of(name).total
        return self.class_totals

    def waiting_by_class(self) -> dict[str, list[float]]:
        """Since when the claims of each class wait that are in the queue."""
        found: dict[str, list[float]] = {}
        for unit in self.waiting.values():
            for key in unit.claims:
                seen = self.view.claims.get(key)
                if seen is None or seen.allocated:
                    continue
                details = (detail for request in seen.claim.spec.requests for detail in request.details)
                for name in {detail.device_class_name for detail in details}:
                    found.setdefault(name, []).append(unit.waiting_since or 0.0)
        return found

    def allocation_of(self, seen: SeenClaim) -> Allocation | None:
        """The claim's allocation as seen, or as being written."""
        if seen.claim.allocation is not None:
            return seen.claim.allocation
        write = self.writes.get(seen.uid)
        return None if write is None else write.assumed

    def terms(self, unit: Unit) -> tuple[str, AllocationPolicySpec]:
        """The policy of the unit: of its first managed claim. Looked up once per version of the claim and of the policies."""
        first = self.view.claims.get(unit.claims[0]) if unit.claims else None
        known = unit.terms_of
        if known is not None and known[0] is first and known[1] == self.term_changes:
            return known[2]
        for key in unit.claims:
            seen = self.view.claims.get(key)
            if seen is not None and seen.managed:
                terms = self.terms_of(seen)
                if seen is first:
                    unit.terms_of = first, self.term_changes, terms
                return terms
        return "", AllocationPolicySpec()

    def terms_of(self, seen: SeenClaim) -> tuple[str, AllocationPolicySpec]:
        namespace = self.view.namespaces.get(seen.key.namespace)
        return self.policies.for_claim(seen.claim, {} if namespace is None else namespace.meta.labels)

    def avoided_nodes(self, pod: Pod, now: float) -> dict[str, str]:
        """Node name to reason."""
        return {node: entry.why for node, entry in self.avoided.active(owner_key(pod), now).items()}

    def only_node(self, allocation: Allocation) -> str | None:
        return None if allocation.node_selector is None else allocation.node_selector.only_node()

    def reaches(self, allocation: Allocation, node: Node) -> bool:
        """Whether a pod on `node` can use the allocated devices."""
        return allocation.node_selector is None or allocation.node_selector.matches(node.name, node.labels)


def pods_of(state: State, unit: Unit) -> list[Pod]:
    """The unit's own pod, or those of its group that wait; none of a bare claim."""
    pods = state.view.pods
    if unit.key.kind == "pod":
        return [pod] if (pod := pods.get(unit.key.subject)) is not None else []
    if unit.key.kind == "claim":
        return []
    mine = set(unit.claims)
    members = (pods.get(key) for key in state.groups.members(unit.key.subject, "pod"))
    return [pod for pod in members if pod is not None and mine.intersection(state.view.claim_keys(pod))]


def reference(kind: str, api_version: str, key: Key, uid: str) -> dict[str, str]:
    """An object reference for an Event."""
    named = {"apiVersion": api_version, "kind": kind, "name": key.name, "uid": uid}
    return {**named, "namespace": key.namespace} if key.namespace else named


def claim_reference(seen: SeenClaim) -> dict[str, str]:
    return reference("ResourceClaim", "resource.k8s.io/v1", seen.key, seen.uid)


def pod_reference(pod: Pod) -> dict[str, str]:
    return reference("Pod", "v1", pod.key, pod.meta.uid)
