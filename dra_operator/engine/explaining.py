"""Explanations of claims and pods as the engine sees them: the situation of a unit, made from the state, and what is told of it.

What the words and counts are is `explain`'s; here is who has the devices, who holds them, and where the pod can run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dra_operator.allocator import Problem, Strategy
from dra_operator.api.claims import POD_CLAIM_NAME, Allocation, ResourceClaim
from dra_operator.api.core import Pod
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.membership import Standing, membership
from dra_operator.engine.phases import Standpoint, device_entries, node_of, standpoint
from dra_operator.engine.placing import Placer
from dra_operator.engine.pods import ends_at, priority_of_claim, priority_of_pod
from dra_operator.engine.queueing import rank_of
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.account import Account, ClaimAccount
from dra_operator.explain.drafts import Effort
from dra_operator.explain.explaining import explain
from dra_operator.explain.explanation import Explanation, listed
from dra_operator.explain.situation import Ahead, Holding, Kept, Permits, Situation
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.queue.nodefit import Misfit
from dra_operator.queue.units import Unit, UnitKey, order

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

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting

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
        if unit.key.kind == "group":
            # Of the member by itself; what would help it says nothing of its group.
            unit, effort = self._unit_for(seen, pod), None
        explanation = self.explanation(unit, now, effort, Blocker(found.reason, found.message))
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
        unit = state.units.get(UnitKey("pod", key))
        group = state.groups.of("pod", key)
        if group is not None and UnitKey("group", group) in state.units:
            effort = None
        if unit is None:
            unit = Unit(UnitKey("pod", key), pod.meta.uid, tuple(claim.key for claim in seen), pod.meta.created or now)
            unit.priority = priority_of_pod(pod, seen, state)
        first = next(item for item in told if item.name == str(waiting[0].key))
        blocker = Blocker("NotPlaced", blocked) if blocked else Blocker(first.reason, first.message)
        explanation = self.explanation(unit, now, effort, blocker)
        phase = first.phase if first.managed else "Unmanaged"
        return Account(object_name, phase, explanation.summary, told, self._queue(unit), explanation)

    # -- a unit

    def explanation(self, unit: Unit, now: float, effort: Effort | None, blocker: Blocker) -> Explanation:
        """Why the unit's unallocated claims are not placed."""
        return explain(self.situation(unit, now, blocker), effort)

    def situation(self, unit: Unit, now: float, blocker: Blocker | None) -> Situation:
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [found for key in unit.claims if (found := state.view.claims.get(key)) is not None]
        todo = [claim for claim in seen if not claim.allocated]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        _, terms = state.terms(unit)
        forbidden = self._forbidden(unit, pod, now)
        problem = Problem(
            claims=tuple(claim.claim for claim in todo),
            nodes=self._placer.candidate_nodes(unit, pod),
            needs_node=pod is not None,
            strategy=Strategy(terms.placement.strategy),
            forbidden=forbidden.devices,
        )
        return Situation(
            problem=problem,
            snapshot=state.inventory.snapshot(),
            elsewhere=self._elsewhere(pod, fixed),
            subject=f"{unit.key.kind} {unit.key.subject}",
            origins=tuple(self.origin(claim) for claim in todo),
            priority=unit.priority,
            pod=pod,
            misfit=self._misfit(fixed, {} if pod is None else state.avoided_nodes(pod, now)),
            empty_misfit=lambda other, node: state.ledger.misfit(other, node, empty=True),
            holding=self.holding,
            kept=forbidden.kept,
            permits=self._permits(unit, todo, now) if self._budgeting.accounts.budgets else None,
            quota_users=lambda: self._quota_users(unit),
            ahead=lambda limit: self._ahead(unit, now, limit),
            blocker=blocker,
        )

    def _permits(self, unit: Unit, todo: list[SeenClaim], now: float) -> Permits:
        def permits(
            claims: Sequence[ResourceClaim], allocations: Sequence[Allocation], released: frozenset[str]
        ) -> str | None:
            pairs = [
                (replace(seen, claim=claim), allocation)
                for seen, claim, allocation in zip(todo, claims, allocations, strict=True)
            ]
            refused = self._budgeting.permits(unit, pairs, now, without=released)
            return None if refused is None else refused.message

        return permits

    def _ahead(self, unit: Unit, now: float, limit: int) -> list[Ahead]:
        """Units that come before it and want some of the same devices."""
        state = self._state
        mine = self._placer.candidates(unit)
        if mine is None:
            return []
        overlaps: dict[tuple[bytes, ...], bool] = {}
        found: list[Ahead] = []
        rank = order(unit)
        before = [other for other in state.waiting.values() if other.key != unit.key and order(other) < rank]
        for other in sorted(before, key=order):
            if len(found) >= limit:
                break
            if other.impossible or other.not_before > now or other.reason in _NOT_SERVED:
                continue
            specs = tuple(state.view.claims[key].spec_key for key in other.claims)
            if specs not in overlaps:
                theirs = self._placer.candidates(other)
                overlaps[specs] = theirs is not None and theirs.overlaps(mine)
            if overlaps[specs]:
                found.append(self._one_ahead(other, now))
        return found

    def _one_ahead(self, unit: Unit, now: float) -> Ahead:
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [state.view.claims[key] for key in unit.claims]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        hold = state.holds.get(unit.key)
        problem = Problem(
            claims=tuple(claim.claim for claim in seen if not claim.allocated),
            nodes=self._placer.candidate_nodes(unit, pod),
            needs_node=pod is not None,
            strategy=Strategy(state.terms(unit)[1].placement.strategy),
            forbidden=state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now)),
        )
        misfit = self._misfit(fixed, {} if pod is None else state.avoided_nodes(pod, now))
        return Ahead(problem, pod, misfit, frozenset() if hold is None else hold.devices | hold.wanted)

    def _quota_users(self, unit: Unit) -> list[Holding]:
        """Those of the unit's namespace who have devices; whether they count to its quota is found out by trying."""
        namespace = unit.key.subject.namespace
        found: dict[tuple[str, ...], Holding] = {}
        for key, seen in self._state.view.claims.items():
            if key.namespace == namespace and seen.allocated and key not in unit.claims:
                holding = self.holding(seen.uid)
                if holding is not None:
                    found.setdefault(holding.claims, holding)
        return list(found.values())

    def _misfit(
        self, fixed: list[Allocation], avoided: dict[str, str]
    ) -> Callable[[Pod, str, frozenset[str]], Misfit | None]:
        state = self._state

        def misfit(pod: Pod, name: str, gone: frozenset[str]) -> Misfit | None:
            if pod.node_name == name:
                return None
            if name in avoided:
                return Misfit(f"avoided for a while ({avoided[name]})")
            found = state.ledger.misfit(pod, name, without=gone)
            node = state.ledger.nodes.get(name)
            if found is None and node is not None and not all(state.reaches(item, node) for item in fixed):
                return Misfit("devices allocated already cannot be reached from it")
            return found

        return misfit

    def _elsewhere(self, pod: Pod | None, fixed: list[Allocation]) -> str:
        names = sorted({name for item in fixed if (name := self._state.only_node(item)) is not None})
        if names:
            return f"the devices that it has already are on node {listed(names)}"
        pinned = None if pod is None else pod.node_name or pod.pinned_to
        return "another node is named" if pinned is None else f"the pod can only run on node {pinned}"

    def origin(self, seen: SeenClaim) -> str:
        """Where the claim's spec comes from: the template it was generated from, else itself."""
        owner = seen.claim.meta.controller
        name = seen.claim.meta.annotations.get(POD_CLAIM_NAME)
        pod = self._state.view.pod_by_uid(owner.uid) if owner is not None and owner.kind == "Pod" else None
        for entry in () if pod is None else pod.claims:
            if entry.name == name and entry.template_name is not None:
                return f"ResourceClaimTemplate {seen.key.namespace}/{entry.template_name}"
        return f"ResourceClaim {seen.key}"

    def _unit_for(self, seen: SeenClaim, pod: Pod | None) -> Unit:
        """A claim that is no unit's, as if it were one: with the pod that refers to it, where there is one."""
        if pod is not None:
            unit = Unit(UnitKey("pod", pod.key), pod.meta.uid, (seen.key,), pod.meta.created or 0.0)
            unit.priority = priority_of_pod(pod, [seen], self._state)
        else:
            unit = Unit(UnitKey("claim", seen.key), seen.uid, (seen.key,), seen.claim.meta.created or 0.0)
            unit.priority = priority_of_claim(seen, self._state)
        return unit

    # -- who has and who holds

    def holding(self, uid: str) -> Holding | None:
        """Who has the devices of a claim, and what would go with it."""
        state = self._state
        seen = state.view.claim_by_uid(uid)
        if seen is None:
            return None
        claims, pods = self._together(seen)
        if not pods:
            idle = self._idle(seen)
            owner = seen.claim.meta.controller
            finished = state.view.pod_by_uid(owner.uid) if owner is not None and owner.kind == "Pod" else None
            deleted = f"ResourceClaim {seen.key}" if finished is None else f"Pod {finished.key}"
            return Holding(
                name=f"claim {seen.key}",
                objects=(deleted,),
                claims=(uid,),
                priority=priority_of_claim(seen, state),
                preemptible=seen.managed and state.terms_of(seen)[1].preemptible,
                idle=idle,
            )
        names = [str(pod.key) for pod in pods]
        return Holding(
            name=f"pod {names[0]}" if len(names) == 1 else f"pods {listed(names)}",
            objects=tuple(f"Pod {name}" for name in names),
            claims=tuple(sorted(claim.uid for claim in claims)),
            pods=tuple(pods),
            priority=max(priority_of_pod(pod, claims, state) for pod in pods),
            preemptible=all(claim.managed and state.terms_of(claim)[1].preemptible for claim in claims),
        )

    def _together(self, seen: SeenClaim) -> tuple[list[SeenClaim], list[Pod]]:
        """All allocated claims and running pods that are tied to this claim by sharing."""
        view = self._state.view
        claims, pods = {seen.uid: seen}, dict[str, Pod]()
        left = [seen]
        while left:
            claim = left.pop()
            users = (view.pod_by_uid(consumer.uid) for consumer in claim.claim.reserved_for)
            waiting = (pod for pod in view.pods_of_claim(claim.key) if not claim.claim.reserved_for)
            for pod in (*users, *waiting):
                if pod is None or pod.terminal or pod.meta.uid in pods:
                    continue
                pods[pod.meta.uid] = pod
                for key in view.claim_keys(pod):
                    other = view.claims.get(key)
                    if other is not None and other.allocated and other.uid not in claims:
                        claims[other.uid] = other
                        left.append(other)
        return list(claims.values()), list(pods.values())

    def _idle(self, seen: SeenClaim) -> str:
        """Why nobody needs the devices of a claim without running pods; "" where somebody may."""
        if not seen.allocated:
            return ""  # an allocation that is being written
        consumers = seen.claim.reserved_for
        if not consumers:
            return "no pod uses it"
        if any(consumer.resource != "pods" for consumer in consumers):
            return ""
        names = listed([f"{seen.key.namespace}/{consumer.name}" for consumer in consumers])
        known = [self._state.view.pod_by_uid(consumer.uid) for consumer in consumers]
        return f"its pod {names} {'is gone' if all(pod is None for pod in known) else 'has finished'}"

    def _forbidden(self, unit: Unit, pod: Pod | None, now: float) -> _Forbidden:
        state = self._state
        devices = state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now))
        return self._with_reserved(unit, pod, now, _Forbidden(devices, self._holder_of))

    def _with_reserved(self, unit: Unit, pod: Pod | None, now: float, held: _Forbidden) -> _Forbidden:
        """Reservations keep a number of devices; which ones is shown only where they are what the unit waits for."""
        if unit.reason != "Reserved":
            return held
        by_policy = {device: policy for policy, devices in self._budgeting.kept(unit, pod, now) for device in devices}

        def kept(device: DeviceId) -> Kept | None:
            policy = by_policy.get(device)
            return held.kept(device) if policy is None else Kept(f"policy {policy}", reserved=True)

        return _Forbidden(held.devices | by_policy.keys(), kept)

    def _holder_of(self, device: DeviceId) -> Kept | None:
        key = self._state.holds.holder_of(device)
        if key is None:
            return None
        unit = self._state.units.get(key)
        return Kept(f"{key.kind} {key.subject}", priority=None if unit is None else unit.priority)

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
        if unit.position is not None:
            result["position"] = unit.position
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
        trouble = next((claim for claim in told if claim.message), None)
        if trouble is not None:
            return trouble.message
        where = f"runs on {pod.node_name}" if pod.node_name else "is not bound yet"
        count = sum(len(claim.devices) for claim in told)
        return f"all its claims are allocated ({count} device{'' if count == 1 else 's'}); it {where}"


def _has(told: ClaimAccount) -> str:
    """A claim that does not wait, in a line."""
    if told.message:
        return told.message
    names = listed([f"{item['driver']}/{item['pool']}/{item['device']}" for item in told.devices], 8)
    where = f" on node {told.node}" if told.node else ""
    users = f", used by {listed(list(told.used_by))}" if told.used_by else ", used by nobody"
    return f"has {names or 'no devices'}{where}{users}"
