"""Explanations of claims and pods as the engine sees them: the situation of a unit, made from the state, and what is told of it.

What the words and counts are is `explain`'s; here is who has the devices, who holds them, and where the pod can run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.line import Line
from dra_operator.engine.membership import Standing, membership
from dra_operator.engine.phases import Standpoint, device_entries, node_of, standpoint
from dra_operator.engine.placing import Placer
from dra_operator.engine.pods import priority_of_claim, priority_of_pod
from dra_operator.engine.situations import Situations
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.account import Account, ClaimAccount
from dra_operator.explain.bench import Effort
from dra_operator.explain.explaining import explain
from dra_operator.explain.explanation import Explanation, listed
from dra_operator.explain.situation import Kept
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.queue.units import Unit, UnitKey

_WAITING = frozenset({"Queued", "Starved", "Unsatisfiable", "Preempting", "QuotaExceeded"})
#: What comes free is not for units that wait for this.
_NOT_SERVED = frozenset({"QuotaExceeded", "WriteRefused"})


@dataclass(frozen=True, slots=True)
class _Forbidden:
    """Devices kept for others, and for whom."""

    devices: frozenset[DeviceId]
    kept: Callable[[DeviceId], Kept | None]


class Explainer:
    """Reads the state, changes nothing."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting, line: Line) -> None:
        self._state, self._line = state, line
        self.situations = Situations(state, placer, budgeting)

    # -- what is asked for by name

    def claim(self, key: Key, now: float, effort: Effort | None) -> Account | None:
        """None where there is no such claim."""
        seen = self._state.view.claims.get(key)
        if seen is None:
            return None
        found = standpoint(seen, self._state)
        told = self._told(seen, found)
        object_name = f"claim/{key}"
        if told.phase not in _WAITING or seen.error is not None:
            return Account(object_name, told.phase, _has(told), (told,))
        pod = next((pod for pod in self._state.view.pods_of_claim(key) if not pod.terminal), None)
        unit = found.unit or self._unit_for(seen, pod)
        explanation = self.explanation(unit, now, effort, Blocker(found.reason, found.message), key)
        return Account(object_name, told.phase, explanation.summary, (told,), self._queue(unit), explanation)

    def pod(self, key: Key, now: float, effort: Effort | None) -> Account | None:
        """None where there is no such pod."""
        state = self._state
        pod = state.view.pods.get(key)
        if pod is None:
            return None
        seen = [claim for item in state.view.claim_keys(pod) if (claim := state.view.claims.get(item)) is not None]
        told = tuple(self._told(claim, standpoint(claim, state)) for claim in seen)
        object_name = f"pod/{key}"
        blocked = self._not_ours(pod)
        waiting = [claim for claim in seen if not claim.allocated and claim.error is None]
        if not waiting:
            broken = next((claim for claim in told if claim.phase == "Unsatisfiable"), None)
            if broken is not None:
                return Account(object_name, broken.phase, broken.message, told)
            return Account(object_name, self._phase_of(pod, told), blocked or self._pod_has(pod, told), told)
        group = state.groups.of("pod", key)
        unit = None if group is None else state.units.get(UnitKey("group", group))
        unit = unit or state.units.get(UnitKey("pod", key))
        if unit is None:
            unit = Unit(UnitKey("pod", key), pod.meta.uid, tuple(claim.key for claim in seen), pod.meta.created or now)
            unit.priority = priority_of_pod(pod, seen, state)
        first = next(item for item in told if item.name == str(waiting[0].key))
        blocker = Blocker("NotPlaced", blocked) if blocked else Blocker(first.reason, first.message)
        explanation = self.explanation(unit, now, effort, blocker, key)
        phase = first.phase if first.managed else "Unmanaged"
        return Account(object_name, phase, explanation.summary, told, self._queue(unit), explanation)

    # -- a unit

    def explanation(self, unit: Unit, now: float, effort: Effort | None, blocker: Blocker, focus: Key) -> Explanation:
        """Why the unit's unallocated claims are not placed."""
        return explain(self.situations.of(unit, now, blocker, focus), effort)

    def _unit_for(self, seen: SeenClaim, pod: Pod | None) -> Unit:
        """A claim that is no unit's, as if it were one: with the pod that refers to it, where there is one."""
        if pod is not None:
            unit = Unit(UnitKey("pod", pod.key), pod.meta.uid, (seen.key,), pod.meta.created or 0.0)
            unit.priority = priority_of_pod(pod, [seen], self._state)
        else:
            unit = Unit(UnitKey("claim", seen.key), seen.uid, (seen.key,), seen.claim.meta.created or 0.0)
            unit.priority = priority_of_claim(seen, self._state)
        return unit

    # -- what is told beside

    def _told(self, seen: SeenClaim, found: Standpoint) -> ClaimAccount:
        state = self._state
        policy, _ = state.terms_of(seen)
        allocation = seen.claim.allocation
        users = []
        for consumer in seen.claim.reserved_for:
            pod = state.view.pod_by_uid(consumer.uid)
            where = f" on {pod.node_name}" if pod is not None and pod.node_name else ""
            what = "pod" if consumer.resource == "pods" else consumer.resource
            gone = " (gone)" if pod is None and what == "pod" else ""
            users.append(f"{what} {seen.key.namespace}/{consumer.name}{where}{gone}")
        phase, reason, message = found.phase, found.reason, found.message
        if not seen.managed and allocation is None:
            phase, reason = "Unmanaged", "NotManaged"
            message = "not labelled dra-operator.dev/managed=true: kube-scheduler allocates it"
        return ClaimAccount(
            name=str(seen.key),
            phase=phase,
            reason=reason,
            message=message,
            policy=policy,
            managed=seen.managed,
            node=node_of(seen, state),
            devices=device_entries(allocation) if allocation is not None else (),
            used_by=tuple(users),
            since=format_time(allocation.timestamp) if allocation is not None and allocation.timestamp else None,
        )

    def _queue(self, unit: Unit) -> dict[str, object]:
        if unit.waiting_since is None:
            return {}
        result: dict[str, object] = {"priority": unit.priority, "effectivePriority": unit.effective}
        position = self._line.position(unit)
        if position is not None:
            result["position"] = position
            result["of"] = len(self._state.waiting)
        result["waitingSince"] = format_time(unit.waiting_since)
        return result

    def _not_ours(self, pod: Pod) -> str:
        """Why the operator does not place the pod, "" where it does."""
        found = membership(pod, self._state.view)
        match found.standing:
            case Standing.FOREIGN:
                return (
                    f"pod {pod.key} is kube-scheduler's alone: it is exempt, older than the operator's policies, or of another "
                    "scheduler"
                )
            case Standing.INCOMPLETE:
                return f"pod {pod.key}: {found.missing}"
            case Standing.GONE:
                return f"pod {pod.key} has finished or is being deleted"
            case _:
                return ""

    def _phase_of(self, pod: Pod, told: tuple[ClaimAccount, ...]) -> str:
        order_of = ("Lost", "Drifted", "Unsatisfiable", "Queued", "Allocated", "Reserved")
        phases = [claim.phase for claim in told]
        return next((phase for phase in order_of if phase in phases), phases[0] if phases else pod.phase)

    def _pod_has(self, pod: Pod, told: tuple[ClaimAccount, ...]) -> str:
        if not pod.claims:
            return f"pod {pod.key} has no resource claims"
        # What is said of a claim that a pod runs with is about another pod that shares it.
        runs = pod.node_name is not None
        trouble = next((claim for claim in told if claim.message and not (runs and claim.reason == "PodBound")), None)
        if trouble is not None:
            return trouble.message
        where = f"runs on {pod.node_name}" if pod.node_name else "is not bound yet"
        count = sum(len(claim.devices) for claim in told)
        return f"all its claims are allocated ({count} device{'' if count == 1 else 's'}); it {where}"


def _has(told: ClaimAccount) -> str:
    """A claim that does not wait, in a line."""
    if told.message and told.reason != "PodBound":
        return told.message
    names = listed([f"{item['driver']}/{item['pool']}/{item['device']}" for item in told.devices], 8)
    where = f" on node {told.node}" if told.node else ""
    users = f", used by {listed(list(told.used_by))}" if told.used_by else ", used by nobody"
    return f"has {names or 'no devices'}{where}{users}" + (f"; {told.message}" if told.message else "")
