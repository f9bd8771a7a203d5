"""Pods that kube-scheduler bound without their devices, to a node that has none for them: where that helps they are evicted.

Giving an allocation up (another allocator gave the device away as well, or somebody cleared it) can cross with the binding. Such a pod is
placed again like any other that waits, on its node alone; it cannot start before, and it cannot go elsewhere. If its controller makes
another one, and that would get devices now, it goes through the Eviction API. Nothing is lost with it: it has not started.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.api.core import Pod
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision, EvictPod
from dra_operator.engine.evicting import evict
from dra_operator.engine.placing import Placed, Placer
from dra_operator.engine.pods import MAKERS, ends_at, has_not_started, unpinned
from dra_operator.engine.state import State, pod_reference
from dra_operator.queue.units import Unit, order

#: Seconds that a pod waits for devices on its node first, and between two tries to evict it.
_PATIENCE = 10.0
#: Seconds from one eviction to the next: the successor is placed meanwhile, and the next pod does not go for the same devices.
_PACE = 2.0


class Stranded:
    """`recheck`: when time alone changes something."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._tried: dict[str, float] = {}
        self._next = float("-inf")
        self.recheck: float | None = None

    def act(self, waiting: Iterable[Unit], now: float) -> list[Decision]:
        """After the pass: evict the first of these units whose successor would get devices elsewhere."""
        self.recheck = None
        self._tried = {uid: at for uid, at in self._tried.items() if now < at + _PATIENCE}
        for unit in waiting:
            pod = self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
            if pod is None or unit.key not in self._state.waiting or not self._may_go(unit, pod):
                continue
            since = unit.waiting_since if unit.waiting_since is not None else now
            at = max(self._tried.get(pod.meta.uid, since) + _PATIENCE, self._next)
            if now < at:
                self.recheck = at if self.recheck is None else min(at, self.recheck)
                continue
            node = self._elsewhere(unit, pod, now)
            if node is not None:
                self._next = self.recheck = now + _PACE
                return [self._evict(unit, pod, node, now)]
        return []

    def _may_go(self, unit: Unit, pod: Pod) -> bool:
        """A ClaimGroup's member stays: the others would have to go with it."""
        state, controller = self._state, pod.meta.controller
        if not has_not_started(pod) or not unit.reason:
            return False
        if controller is None or controller.kind not in MAKERS or state.group_of(unit) is not None:
            return False
        _, terms = state.terms(unit)
        if terms.preemption.mode == "Never" or not terms.preemptible:
            return False
        uids = [pod.meta.uid, *(state.view.claims[key].uid for key in unit.claims)]
        return all(state.writes.get(uid) is None for uid in uids)

    def _elsewhere(self, unit: Unit, pod: Pod, now: float) -> str | None:
        """Where its successor would be placed now; what nobody else has of its claims is free then."""
        state = self._state
        seen = [state.view.claims[key] for key in unit.claims]
        free = frozenset(
            each.uid
            for each in seen
            if each.managed and each.allocated and all(user.uid == pod.meta.uid for user in each.claim.reserved_for)
        )
        forbidden = state.holds.against(unit.key, order(unit), unit.priority, ends_at(pod, now))
        placed = self._placer.place(unit, unpinned(pod), now, moving=free, forbidden=forbidden)
        if not isinstance(placed, Placed) or placed.node in (None, pod.node_name):
            return None
        if self._budgeting.permits(unit, list(placed.allocations), now, without=free) is not None:
            return None
        return placed.node

    def _evict(self, unit: Unit, pod: Pod, node: str, now: float) -> EvictPod:
        state = self._state
        why = (
            f"bound to node {pod.node_name}, which has no devices for it, and not started; another one fits node {node}"
        )
        state.event(pod_reference(pod), "Warning", "BoundWithoutDevices", "Evict", f"evicted: {why}")
        self._tried[pod.meta.uid] = now
        return evict(state, pod, why, None, now)
