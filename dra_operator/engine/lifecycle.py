"""From what was seen to units: which wait for devices, which are placed and lose their gate, which are stuck and are moved."""

from __future__ import annotations

from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.ages import note_first_sight, seen_at_first, since
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.decisions import Decision, EvictPod
from dra_operator.engine.evicting import evict
from dra_operator.engine.gangs import Gangs
from dra_operator.engine.givingback import give_back_abandoned, give_back_early, give_back_of_incomplete
from dra_operator.engine.groups import GroupMember
from dra_operator.engine.incomplete import Incomplete
from dra_operator.engine.membership import Membership, Standing, is_bare, membership, owner_key
from dra_operator.engine.names import GATE
from dra_operator.engine.placing import Placed, Placer
from dra_operator.engine.pods import pins, priority_of_claim, priority_of_pod, ungate
from dra_operator.engine.reallocating import kept_back
from dra_operator.engine.rejections import Rejections
from dra_operator.engine.state import State, pod_reference
from dra_operator.engine.view import SeenClaim, ungated_at
from dra_operator.engine.writing import deallocate
from dra_operator.explain.explanation import listed
from dra_operator.queue.nodefit import describe_misfits
from dra_operator.queue.units import Unit, UnitKey

#: Seconds within which an idle kube-scheduler has tried a pod; times in annotations are cut to seconds.
_PROMPT = 3.0


class Lifecycle:
    """Looks at every pod and claim that changed, once a pass."""

    def __init__(self, state: State, placer: Placer, alarms: Alarms) -> None:
        self._state, self._placer, self._alarms = state, placer, alarms
        self._stuck_at: dict[Key, tuple[int, ...]] = {}
        #: Of pods that wait to be bound: UID, since when they are told to, and what that is by our clock.
        self._ready: dict[Key, tuple[str, float | None, float]] = {}
        self._rejections = Rejections(state, alarms)
        self._incomplete = Incomplete(state, alarms)
        self._begun = False
        self.gangs = Gangs(state, placer, alarms, self._advance_member)

    def take_in(self, now: float) -> list[Decision]:
        """Bring the units up to date; returns what placed and stuck pods need done."""
        self._ring(now)
        self._state.avoided.prune(now)
        self._rejections.note(now)
        self._retry_stuck()
        decisions: list[Decision] = []
        claims, self._state.dirty_claims = self._state.dirty_claims, {}
        for key in claims:
            decisions += self._look_at_claim(key, now)
        pods, self._state.dirty_pods = self._state.dirty_pods, {}
        for key in pods:
            pod = self._state.view.pods.get(key)
            if pod is None:
                self._state.drop_unit(UnitKey("pod", key))
                self._ready.pop(key, None)
                self._incomplete.forget(key)
            else:
                decisions += self._look_at_pod(pod, now)
        groups, self._state.dirty_groups = self._state.dirty_groups, {}
        for key in groups:
            decisions += self.gangs.look(key, now)
        self._begun = True
        return decisions

    def _ring(self, now: float) -> None:
        for kind, key in self._alarms.due(now):
            if kind == "incomplete":
                self._incomplete.ring(key, now)
                continue
            dirty = {"pod": self._state.dirty_pods, "group": self._state.dirty_groups}
            dirty.get(kind, self._state.dirty_claims)[key] = None

    def _retry_stuck(self) -> None:
        """Pods whose allocated claims could not be moved are looked at again after every change that may allow it."""
        for key, changes in list(self._stuck_at.items()):
            if changes != self._state.moment:
                del self._stuck_at[key]
                self._state.dirty_pods[key] = None

    # -- bare claims

    def _look_at_claim(self, key: Key, now: float) -> list[Decision]:
        state = self._state
        seen = state.view.claims.get(key)
        group = state.groups.of("claim", key)
        if group is not None:
            state.dirty_groups[group] = None
        if seen is None:
            state.drop_unit(UnitKey("claim", key))
            return []
        note_first_sight(seen, now, listed=not self._begun)
        unit_key = UnitKey("claim", key)
        if seen.allocated or not is_bare(seen, state.view):
            state.drop_unit(unit_key)
            return give_back_abandoned(state, seen, now)
        bare_at = since(seen, now) + state.settings.bare_claim_age
        if bare_at > now:
            self._alarms.set(bare_at, "claim", key)
            return []
        if group is None:
            self._wait_for_claim(seen, now)
        return []

    def _wait_for_claim(self, seen: SeenClaim, now: float) -> None:
        state = self._state
        key, created = seen.key, seen.claim.meta.created or now
        unit_key = UnitKey("claim", key)
        unit = state.units.get(unit_key)
        if unit is None or unit.uid != seen.uid:
            unit = state.new_unit(Unit(unit_key, seen.uid, (key,), created))
        self._wait(unit, priority_of_claim(seen, state), now)

    def _wait(self, unit: Unit, priority: int, now: float) -> None:
        """The unit needs devices: into the queue."""
        unit.priority = priority
        self._state.wait(unit, now)
        for key in unit.claims:
            self._state.stale_reports[key] = None

    # -- pods

    def _look_at_pod(self, pod: Pod, now: float) -> list[Decision]:
        state = self._state
        found = membership(pod, state.view)
        self._incomplete.note(pod, found, now)
        if GATE not in pod.gates:
            self._end_ungating(pod)
        group = state.groups.of("pod", pod.key)
        if group is not None:
            state.dirty_groups[group] = None
        match found.standing:
            case Standing.PLACE if group is not None:
                return []  # with the other members of its group
            case Standing.PLACE | Standing.REPAIR:
                return self._advance(pod, found, now)
            case Standing.LEAVE:
                state.drop_unit(UnitKey("pod", pod.key))
                return self._leave(pod, now)
            case _:
                state.drop_unit(UnitKey("pod", pod.key))
                self._ready.pop(pod.key, None)
                if pod.node_name is None and state.ledger.vacate(pod.meta.uid):
                    state.made_room()
                if found.standing is Standing.GONE or (found.standing is Standing.BOUND and self._done_with(pod)):
                    state.writes.gone(pod.meta.uid)
                return give_back_of_incomplete(state, pod, found, now) if found.standing is Standing.INCOMPLETE else []

    def _done_with(self, pod: Pod) -> bool:
        """Once it is bound, nothing is to be written for the pod itself. An eviction for the sake of others goes on."""
        write = self._state.writes.get(pod.meta.uid)
        return write is None or not isinstance(write.decision, EvictPod) or write.unit == UnitKey("pod", pod.key)

    def _end_ungating(self, pod: Pod) -> None:
        write = self._state.writes.get(pod.meta.uid)
        if write is not None and not isinstance(write.decision, EvictPod):
            self._state.writes.gone(pod.meta.uid)

    def _leave(self, pod: Pod, now: float) -> list[Decision]:
        """Nothing in it is ours to allocate: kube-scheduler takes it from here."""
        if GATE not in pod.gates or self._state.writes.get(pod.meta.uid) is not None:
            return []
        if pod.scheduling_group is not None:
            self._state.event(
                pod_reference(pod),
                "Normal",
                "LeftToScheduler",
                "Ungate",
                f"pods of scheduling groups ({pod.scheduling_group}) and their claims are left to kube-scheduler",
            )
        return [ungate(self._state, pod, None, None, now)]

    def _advance_member(self, member: GroupMember, now: float) -> list[Decision]:
        """Carry on with one member of a ClaimGroup as if it were alone."""
        if member.pod is not None:
            found = membership(member.pod, self._state.view)
            return self._advance(member.pod, found, now) if found.standing is Standing.PLACE else []
        seen = self._state.view.claims[member.claims[0]]
        if not seen.allocated:
            self._wait_for_claim(seen, now)
        return []

    def _advance(self, pod: Pod, found: Membership, now: float) -> list[Decision]:
        state = self._state
        key = UnitKey("pod", pod.key)
        unit = state.units.get(key)
        if unit is None or unit.uid != pod.meta.uid:
            unit = state.new_unit(Unit(key, pod.meta.uid, found.claims, pod.meta.created or now))
        unit.claims = found.claims
        for claim in found.claims:
            state.drop_unit(UnitKey("claim", claim))
        seen = [state.view.claims[claim] for claim in found.claims]
        if any(state.writes.get(claim.uid) is not None for claim in seen):
            return []
        early = give_back_early(state, unit, pod, seen, now)
        if early:
            return early
        if any(claim.managed and not claim.allocated for claim in seen):
            if pod.node_name is None and state.ledger.vacate(pod.meta.uid):
                state.made_room()
            self._wait(unit, priority_of_pod(pod, seen, state), now)
            return []
        state.stop_waiting(unit)
        unit.failures = 0
        unit.block("", "")
        return self._bind(unit, pod, seen, now)

    def _bind(self, unit: Unit, pod: Pod, seen: list[SeenClaim], now: float) -> list[Decision]:
        """All that is ours is allocated, and our watch has shown it."""
        state = self._state
        if state.settings.mode == "observe" or state.writes.get(pod.meta.uid) is not None or pod.node_name is not None:
            return []
        if GATE in pod.gates and any(kept_back(claim, state) for claim in seen):
            return []
        allocations = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        node, misfits = self._placer.nodes_for(pod, allocations, now)
        if GATE in pod.gates:
            if node is None:
                return self._relocate(unit, pod, seen, f"the pod cannot run there: {describe_misfits(misfits)}", now)
            state.ledger.occupy(pod, node)
            return [ungate(state, pod, node, self._pin(unit, pod, allocations, node, now), now)]
        return self._follow_up(unit, pod, seen, node, describe_misfits(misfits), now)

    def _pin(self, unit: Unit, pod: Pod, allocations: list[Allocation], node: str, now: float) -> str | None:
        """The node to pin to, where the policy lets us and nothing has failed for this controller lately."""
        _, terms = self._state.terms(unit)
        local = any(self._state.only_node(allocation) == node for allocation in allocations)
        return node if local and pins(pod, terms) and not self._state.avoided_nodes(pod, now) else None

    def _follow_up(
        self, unit: Unit, pod: Pod, seen: list[SeenClaim], node: str | None, misfits: str, now: float
    ) -> list[Decision]:
        """The pod has lost its gate and is not bound yet: usually kube-scheduler is about to; else its claims are moved."""
        state = self._state
        ready = self._ready_since(pod, seen, now)
        if node is None:
            if now < ready + state.settings.misfit_grace:
                self._alarms.set(ready + state.settings.misfit_grace, "pod", pod.key)
                return []
            return self._relocate(unit, pod, seen, f"the pod cannot run there any more: {misfits}", now)
        state.ledger.occupy(pod, node)
        if pod.unschedulable is None:
            return []
        if self._makes_room(pod):
            self._alarms.set(now + state.settings.unbound_grace, "pod", pod.key)
            return []
        if any(claim.claim.binding is not None and claim.claim.binding.state == "pending" for claim in seen):
            given_up = ready + state.settings.binding_timeout
            if now < given_up:
                self._alarms.set(given_up, "pod", pod.key)
                return []
        patience = ready + state.settings.unbound_grace
        if now >= patience and self._backlog(now):
            patience = ready + state.settings.unbound_grace_busy
        if now < patience:
            self._alarms.set(min(patience, max(now, ready) + state.settings.unbound_grace), "pod", pod.key)
            return []
        return self._relocate(unit, pod, seen, f"kube-scheduler does not bind it: {pod.unschedulable:.200}", now)

    def _makes_room(self, pod: Pod) -> bool:
        """Whether kube-scheduler is preempting for the pod: pods of lower priority go from the node that it is nominated for.

        The nomination alone does not tell: the operator writes one where it pins no pod, and kube-scheduler leaves it as it is
        for pods that never preempt and in profiles without DefaultPreemption (KEP-5278).
        """
        if pod.nominated_node is None:
            return False
        view, uids = self._state.view, self._state.ledger.uids_on(pod.nominated_node)
        others = (other for uid in uids if (other := view.pod_by_uid(uid)) is not None)
        return any(other.meta.deleted is not None and other.priority < pod.priority for other in others)

    def _ready_since(self, pod: Pod, seen: list[SeenClaim], now: float) -> float:
        """Since when kube-scheduler could bind it: a pod that lost its gate may get its devices long after that (shown to node
        autoscalers, or moved), and these may have to be made ready; what was said of it before is no verdict on them."""
        allocated = [claim.claim.allocation.timestamp for claim in seen if claim.claim.allocation is not None]
        ready = [claim.claim.binding.since for claim in seen if claim.claim.binding is not None]
        told = max((time for time in (ungated_at(pod), *allocated, *ready) if time is not None), default=None)
        known = self._ready.get(pod.key)
        if known is None or known[:2] != (pod.meta.uid, told):
            first = seen_at_first(now if told is None else told, now, listed=not self._begun)
            known = self._ready[pod.key] = (pod.meta.uid, told, first)
        return known[2]

    def _backlog(self, now: float) -> bool:
        """Whether kube-scheduler has not even tried a pod that lost its gate a moment ago: then it has not tried others again."""
        return any(ungated < now - _PROMPT for ungated in self._state.view.unheard_since())

    def _relocate(self, unit: Unit, pod: Pod, seen: list[SeenClaim], why: str, now: float) -> list[Decision]:
        """Take the pod's devices back so that it can be placed elsewhere; a pinned pod can run nowhere else and is evicted."""
        state = self._state
        held = [claim for claim in seen if claim.allocated]
        nodes = [name for claim in held if claim.claim.allocation and (name := state.only_node(claim.claim.allocation))]
        fixed = [claim for claim in held if not claim.managed or self._used_by_others(claim, pod)]
        if fixed:
            stay = "; ".join(self._why_it_stays(claim, pod) for claim in fixed)
            self._stuck(unit, pod, nodes, f"pod {pod.key} waits: {why}; {stay}")
            return []
        if GATE not in pod.gates:
            for node in nodes[:1]:
                avoided = state.avoided.add(owner_key(pod), node, why, now)
                self._alarms.set(avoided.until, "pod", pod.key)
                if (
                    pod.pinned_to == node
                    and pod.meta.controller is not None
                    and pod.meta.controller.kind != "DaemonSet"
                ):
                    return self._evict_pinned(unit, pod, avoided.written, why, now)
        elif not any(claim.claim.reserved_for for claim in held):
            # Bare claims allocated before their pod came: they are moved only to where the pod can run.
            moving = frozenset(claim.uid for claim in held)
            if not isinstance(self._placer.place(unit, pod, now, moving=moving), Placed):
                self._stuck(unit, pod, nodes, f"{why}; no other devices would do")
                return []
        self._state.event(pod_reference(pod), "Warning", "Moving", "Deallocate", f"its devices are taken back: {why}")
        return [deallocate(state, claim, unit.key, now) for claim in held]

    def take_back(self, unit: Unit, pod: Pod, seen: list[SeenClaim], now: float) -> list[Decision]:
        """Half of the unit is allocated and the rest does not fit there."""
        return self._relocate(unit, pod, seen, "the unit's other claims do not fit there", now)

    def _used_by_others(self, claim: SeenClaim, pod: Pod) -> bool:
        return any(consumer.uid != pod.meta.uid for consumer in claim.claim.reserved_for)

    def _why_it_stays(self, claim: SeenClaim, pod: Pod) -> str:
        """And what would let the pod run all the same."""
        allocation = claim.claim.allocation
        node = None if allocation is None else self._state.only_node(allocation)
        where = "where it is" if node is None else f"on node {node}"
        if not claim.managed:
            return f"claim {claim.key} is kube-scheduler's and stays {where}: make room for the pod there"
        others = [consumer.name for consumer in claim.claim.reserved_for if consumer.uid != pod.meta.uid]
        names = f"pod{'' if len(others) == 1 else 's'} {listed(others, 3)}"
        return f"claim {claim.key} is used by {names} as well and stays {where}: make room for the pod there, or end {names}"

    def _stuck(self, unit: Unit, pod: Pod, nodes: list[str], message: str) -> None:
        """An Event says so once for where its devices are; what is short there just now is in the report."""
        self._stuck_at[pod.key] = self._state.moment
        unit.block("NodeUnsuitable", message)
        if unit.told_unsuitable != tuple(nodes):
            unit.told_unsuitable = tuple(nodes)
            self._state.event(pod_reference(pod), "Warning", "NodeUnsuitable", "Allocate", message)
        for key in unit.claims:
            self._state.stale_reports[key] = None

    def _evict_pinned(self, unit: Unit, pod: Pod, noted: bool, why: str, now: float) -> list[Decision]:
        """Evict only once a report says which node to avoid: the successor must not be pinned there again."""
        state = self._state
        for key in unit.claims:
            state.stale_reports[key] = None
        if not noted:
            unit.block("PinnedPodStuck", why)
            return []
        if state.writes.get(pod.meta.uid) is not None:
            return []
        state.event(pod_reference(pod), "Warning", "PinnedPodStuck", "Evict", f"evicted before it ran: {why}")
        return [evict(state, pod, f"pinned and not bound: {why}", unit.key, now)]
