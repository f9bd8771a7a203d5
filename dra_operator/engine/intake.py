"""Taking in what the watches deliver: parse, store, keep inventory and node ledger in step, note what became worth another look.

Every object is read by itself: one that cannot be read is reported (an Event on it) and forgotten, the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_operator.api.claims import DeviceClass
from dra_operator.api.core import Namespace, Node, Pod, PriorityClass
from dra_operator.api.errors import InvalidObject
from dra_operator.api.group import ClaimGroup
from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicy
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.engine.classreports import ClassReporter
from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.engine.groupstatus import GroupReporter
from dra_operator.engine.membership import is_ours
from dra_operator.engine.names import PLUGIN_RESOURCE, PRIORITY_CLASS
from dra_operator.engine.networkclasses import NetworkClasses
from dra_operator.engine.policystatus import PolicyReporter
from dra_operator.engine.reporting import Reporter
from dra_operator.engine.state import Lost, State, reference
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writes import Write
from dra_operator.inventory import DeviceId

Raw = dict[str, Any]


class Intake:
    """One method a kind to apply, one to remove."""

    def __init__(
        self,
        state: State,
        reporter: Reporter,
        class_reporter: ClassReporter,
        policy_reporter: PolicyReporter,
        group_reporter: GroupReporter,
        networks: NetworkClasses,
    ) -> None:
        self._state, self._reporter = state, reporter
        self._class_reporter, self._policy_reporter = class_reporter, policy_reporter
        self._group_reporter, self._networks = group_reporter, networks
        self._apply: Mapping[str, Callable[[Raw], None]] = {
            "ResourceClaim": self._apply_claim,
            "Pod": self._apply_pod,
            "Node": self._apply_node,
            "ResourceSlice": self._apply_slice,
            "DeviceClass": self._apply_class,
            "DeviceTaintRule": self._apply_rule,
            "Namespace": self._apply_namespace,
            "PriorityClass": self._apply_priority_class,
            "PodDisruptionBudget": self._apply_budget,
            "AllocationPolicy": self._apply_policy,
            "ClaimGroup": self._apply_group,
            "ClaimReport": reporter.apply_report,
            "DeviceClassReport": class_reporter.apply_report,
            "NetworkDeviceClass": networks.apply,
        }
        self._remove: Mapping[str, Callable[[Key], None]] = {
            "ResourceClaim": self._remove_claim,
            "Pod": self._remove_pod,
            "Node": self._remove_node,
            "ResourceSlice": self._remove_slice,
            "DeviceClass": self._remove_class,
            "DeviceTaintRule": self._remove_rule,
            "Namespace": self._remove_namespace,
            "PriorityClass": self._remove_priority_class,
            "PodDisruptionBudget": self._remove_budget,
            "AllocationPolicy": self._remove_policy,
            "ClaimGroup": self._remove_group,
            "ClaimReport": reporter.remove_report,
            "DeviceClassReport": class_reporter.remove_report,
            "NetworkDeviceClass": networks.remove,
        }
        self._known: dict[str, set[Key]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}

    def observe(self, kind: str, type: str, raw: Raw) -> None:
        """One watch event. Never raises: an object that cannot be read is reported and dropped."""
        metadata = raw.get("metadata") or {}
        key = Key(metadata.get("namespace") or "", metadata.get("name") or "")
        if type == "DELETED":
            self.remove(kind, key)
            return
        self._known.setdefault(kind, set()).add(key)
        apply = self._apply.get(kind)
        if apply is None:
            return
        try:
            apply(raw)
        except InvalidObject as invalid:
            self._unreadable(kind, key, raw, str(invalid))
        else:
            self._state.unreadable.pop((kind, key), None)

    def remove(self, kind: str, key: Key) -> None:
        self._known.get(kind, set()).discard(key)
        self._state.unreadable.pop((kind, key), None)
        remove = self._remove.get(kind)
        if remove is not None:
            remove(key)

    def replaced(self, kind: str, keys: set[Key]) -> None:
        """After a re-list: whatever is not in it is gone, also what only an answer has told of."""
        known = self._known.get(kind, set()) | (self._reporter.held() if kind == "ClaimReport" else set())
        for key in sorted(known - keys):
            self.remove(kind, key)

    def _unreadable(self, kind: str, key: Key, raw: Raw, message: str) -> None:
        remove = self._remove.get(kind)
        if remove is not None:
            remove(key)
        if self._state.unreadable.get((kind, key)) == message:
            return
        self._state.unreadable[kind, key] = message
        uid = (raw.get("metadata") or {}).get("uid") or ""
        subject = reference(kind, raw.get("apiVersion") or "v1", key, uid)
        self._state.event(subject, "Warning", "Unreadable", "Read", f"ignored: {message}")

    # -- claims

    def _apply_claim(self, raw: Raw) -> None:
        state = self._state
        metadata = raw.get("metadata") or {}
        before = state.view.claims.get(Key(metadata.get("namespace") or "", metadata.get("name") or ""))
        seen = state.view.apply_claim(raw)
        if seen is None:
            return
        if before is not None and before.uid != seen.uid:
            self._forget(before)
            before = None
        ended = state.writes.seen(seen.uid, seen.version)
        state.enlist("claim", seen.key, seen.claim.meta.labels)
        if before is not None and before.allocated and not seen.allocated and not _is_deallocation(ended):
            self._cleared(before, seen)
        state.settle_usage(seen)
        state.dirty_claims[seen.key] = None
        state.stale_reports[seen.key] = None
        state.touch(state.view.pods_of_claim(seen.key))

    def _cleared(self, before: SeenClaim, seen: SeenClaim) -> None:
        """Remember whose placement it was that is gone: kube-scheduler clears what it cannot bind."""
        allocation = before.claim.allocation
        node = None if allocation is None else self._state.only_node(allocation)
        for consumer in before.claim.reserved_for:
            pod = self._state.view.pod_by_uid(consumer.uid)
            if pod is None or node is None or pod.node_name or pod.terminal or pod.meta.deleted is not None:
                continue
            if is_ours(pod) and not pod.gates and seen.managed:
                self._state.lost.append(Lost(pod, seen.key, node))

    def _remove_claim(self, key: Key) -> None:
        seen = self._state.view.remove_claim(key)
        self._state.strike("claim", key)
        if seen is not None:
            self._forget(seen)
            self._state.touch(self._state.view.pods_of_claim(key))

    def _forget(self, seen: SeenClaim) -> None:
        self._state.writes.gone(seen.uid)
        self._state.usage.give_back(seen.uid)
        self._state.preempted.pop(seen.uid, None)
        self._state.dirty_claims[seen.key] = None
        self._reporter.claim_gone(seen)

    # -- pods and nodes

    def _apply_pod(self, raw: Raw) -> None:
        state = self._state
        pod = Pod.from_dict(raw)
        old = state.view.apply_pod(pod)
        state.enlist("pod", pod.key, pod.meta.labels)
        if old is not None and old.meta.uid != pod.meta.uid:
            self._pod_gone(old)
        if pod.terminal:
            if state.ledger.vacate(pod.meta.uid):
                state.made_room()
            state.writes.gone(pod.meta.uid)
            state.plugins.ends(pod.meta.uid)
        elif pod.node_name is not None:
            state.ledger.occupy(pod, pod.node_name)
            state.plugins.runs(pod, pod.node_name)
        if pod.meta.deleted is not None:
            state.writes.gone(pod.meta.uid)
        self._touch_around(pod)
        if old is not None:
            self._touch_around(old)

    def _remove_pod(self, key: Key) -> None:
        old = self._state.view.remove_pod(key)
        self._state.strike("pod", key)
        if old is not None:
            self._pod_gone(old)

    def _pod_gone(self, pod: Pod) -> None:
        if self._state.ledger.vacate(pod.meta.uid):
            self._state.made_room()
        self._state.writes.gone(pod.meta.uid)
        self._state.plugins.ends(pod.meta.uid)
        self._touch_around(pod)

    def _touch_around(self, pod: Pod) -> None:
        """The pod, its claims, and the pods that share them."""
        state = self._state
        state.dirty_pods[pod.key] = None
        for key in state.view.claim_keys(pod):
            state.dirty_claims[key] = None
            state.stale_reports[key] = None

    def _apply_node(self, raw: Raw) -> None:
        node = Node.from_dict(raw)
        if self._state.ledger.apply_node(node):
            self._state.inventory.apply_node(node)
            self._state.relaid()

    def _remove_node(self, key: Key) -> None:
        self._state.ledger.remove_node(key.name)
        self._state.inventory.remove_node(key.name)
        self._state.relaid()

    # -- what devices there are

    def _apply_slice(self, raw: Raw) -> None:
        found = ResourceSlice.from_dict(raw)
        self._users_stale(found.name)
        changed = self._state.republishing.apply(found)
        self._users_stale(found.name)
        if changed:
            self._state.relaid()

    def _remove_slice(self, key: Key) -> None:
        self._users_stale(key.name)
        if self._state.republishing.remove(key.name):
            self._state.relaid()

    def _users_stale(self, slice_name: str) -> None:
        """Claims that use devices of the slice's pool may be Lost now, or found again, or count differently to quotas."""
        for device in self._state.inventory.pool_devices(slice_name):
            self._device_users_stale(device)

    def _device_users_stale(self, device: DeviceId) -> None:
        for uid in self._state.usage.concerned(device):
            self._state.usage.touch(uid)
            seen = self._state.view.claim_by_uid(uid)
            if seen is not None:
                self._state.dirty_claims[seen.key] = None
                self._state.stale_reports[seen.key] = None

    def _apply_rule(self, raw: Raw) -> None:
        rule = DeviceTaintRule.from_dict(raw)
        self._selected_stale(self._rules.get(rule.meta.name), rule)
        self._rules[rule.meta.name] = rule
        self._state.inventory.apply_taint_rule(rule)
        self._state.relaid()

    def _remove_rule(self, key: Key) -> None:
        self._selected_stale(self._rules.pop(key.name, None))
        self._state.inventory.remove_taint_rule(key.name)
        self._state.relaid()

    def _selected_stale(self, *rules: DeviceTaintRule | None) -> None:
        """Claims that use devices the rules select, or selected before, may be Lost now, or found again."""
        for device in self._state.usage.devices():
            if any(rule is not None and rule.covers(*device) for rule in rules):
                self._device_users_stale(device)

    def _apply_class(self, raw: Raw) -> None:
        self._networks.apply_class(raw)
        device_class = DeviceClass.from_dict(raw)
        self._state.inventory.apply_class(device_class)
        if device_class.extended_resource_name:
            self._state.served_resources[device_class.name] = device_class.extended_resource_name
        else:
            self._state.served_resources.pop(device_class.name, None)
        plugin = device_class.meta.annotations.get(PLUGIN_RESOURCE)
        if plugin:
            self._state.plugin_resources[device_class.name] = plugin
        else:
            self._state.plugin_resources.pop(device_class.name, None)
        self._state.relaid()
        self._class_reporter.apply_class(device_class)

    def _remove_class(self, key: Key) -> None:
        self._state.inventory.remove_class(key.name)
        self._state.served_resources.pop(key.name, None)
        self._state.plugin_resources.pop(key.name, None)
        self._state.relaid()
        self._class_reporter.remove_class(key.name)
        self._networks.remove_class(key.name)

    # -- what rules there are

    def _apply_namespace(self, raw: Raw) -> None:
        namespace = Namespace.from_dict(raw)
        old = self._state.view.namespaces.get(namespace.meta.name)
        self._state.view.namespaces[namespace.meta.name] = namespace
        if old is None or old.meta.labels != namespace.meta.labels:
            self._state.term_changes += 1
            self._state.relaid()

    def _remove_namespace(self, key: Key) -> None:
        self._state.view.namespaces.pop(key.name, None)
        self._state.term_changes += 1

    def _remove_priority_class(self, key: Key) -> None:
        self._state.view.priority_classes.pop(key.name, None)
        self._priority_changed(key.name)

    def _apply_priority_class(self, raw: Raw) -> None:
        found = PriorityClass.from_dict(raw)
        old = self._state.view.priority_classes.get(found.meta.name)
        self._state.view.priority_classes[found.meta.name] = found
        if old is None or old.value != found.value:
            self._priority_changed(found.meta.name)

    def _priority_changed(self, name: str) -> None:
        """A PriorityClass that came, went or was made anew: pods keep the value that they were given, claims have that of now."""
        self._state.term_changes += 1
        waiting = self._unallocated()
        concerned = [(key, seen) for key, seen in waiting if seen.claim.meta.annotations.get(PRIORITY_CLASS) == name]
        if concerned:
            self._state.relaid()
            self._judge_anew(concerned)

    def _apply_budget(self, raw: Raw) -> None:
        if self._state.budgets.apply(raw):
            self._state.budget_changes += 1

    def _remove_budget(self, key: Key) -> None:
        if self._state.budgets.remove(key):
            self._state.budget_changes += 1

    def _apply_policy(self, raw: Raw) -> None:
        self._policy_reporter.apply(raw)
        policy = AllocationPolicy.from_dict(raw)
        if not self._state.policies.apply(policy):
            return
        self._policies_changed()

    def _remove_policy(self, key: Key) -> None:
        if self._state.policies.remove(key.name):
            self._policies_changed()

    def _apply_group(self, raw: Raw) -> None:
        group = ClaimGroup.from_dict(raw)
        self._group_reporter.apply(raw)
        if self._state.groups.apply(group):
            self._group_changed(group.meta.key)

    def _remove_group(self, key: Key) -> None:
        self._state.groups.remove(key)
        self._group_changed(key)

    def _group_changed(self, key: Key) -> None:
        """What it says concerns its members alone."""
        self._state.dirty_groups[key] = None

    def _policies_changed(self) -> None:
        self._state.term_changes += 1
        self._state.relaid()
        self._judge_anew(self._unallocated())

    def _unallocated(self) -> list[tuple[Key, SeenClaim]]:
        return [(key, seen) for key, seen in self._state.view.claims.items() if seen.managed and not seen.allocated]

    def _judge_anew(self, claims: list[tuple[Key, SeenClaim]]) -> None:
        for key, _ in claims:
            self._state.dirty_claims[key] = None
            self._state.stale_reports[key] = None
            self._state.touch(self._state.view.pods_of_claim(key))


def _is_deallocation(write: Write | None) -> bool:
    """Did we take the allocation away ourselves?"""
    return write is not None and isinstance(write.decision, WriteClaimStatus) and write.decision.action == "deallocate"
