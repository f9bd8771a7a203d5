"""Evictions: each notes itself as under way, and the disruption it takes as used until the budget's status shows it.

The budget's status follows an eviction only after the API server has carried it out; without a count of our own two preemptors that go
at the same time would both rely on the same disruption, and the victims of one of them would go in vain.
"""

from __future__ import annotations

from dra_operator.api.core import Pod
from dra_operator.engine.decisions import EvictPod
from dra_operator.engine.state import State
from dra_operator.preemption.holders import PodRef
from dra_operator.queue.units import UnitKey


def evict(
    state: State,
    pod: Pod,
    why: str,
    unit: UnitKey | None,
    now: float,
    *,
    dry_run: bool = False,
    grace_period: int | None = None,
) -> EvictPod:
    """Ask the Eviction API for it, on behalf of `unit`. `grace_period` in seconds, None leaves it to the pod."""
    decision = EvictPod(state.writes.next_id(), pod.key, pod.meta.uid, why, dry_run=dry_run, grace_period=grace_period)
    state.writes.begin(decision, unit, version=0, now=now)
    if not dry_run:
        state.budgets.spend([as_victim(pod)])
    return decision


def not_evicted(state: State, decision: EvictPod) -> None:
    """The API server refused it for good: others may have the disruption."""
    pod = state.view.pod_by_uid(decision.uid)
    if pod is not None and not decision.dry_run:
        state.budgets.refund([as_victim(pod)])
        state.budget_changes += 1


def as_victim(pod: Pod) -> PodRef:
    """The pod as disruption budgets see it."""
    namespace, name = pod.key
    return PodRef(namespace, name, pod.meta.uid, pod.meta.labels, pod.priority, pod.phase != "Pending", pod.ready)
