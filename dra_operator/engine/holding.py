"""Who holds devices now and could give way: the index of holders that the choice of victims works on, kept up claim by claim."""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.decisions import EvictPod, WriteClaimStatus
from dra_operator.engine.pods import priority_of_claim, priority_of_pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holders import Holder, HolderIndex, PodRef


class Holding:
    """`index` has a holder for each pod with devices (pods that share claims are one), and for each allocated claim nobody uses."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.index = HolderIndex()
        self._holder_of: dict[str, str] = {}
        self._orphans: dict[str, None] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self._unsettled: dict[str, None] = {}
        self._terms = 0

    @property
    def unsettled(self) -> bool:
        """Whether holders stay out of it only because a write on them is under way; its end alone is no event."""
        return bool(self._unsettled)

    def settle(self) -> None:
        """Look again at those that were out of it for a write: it may be over by now. And at all when policies or priorities changed."""
        if self._terms != self._state.term_changes:
            self._terms = self._state.term_changes
            self.refresh([key for key, seen in self._state.view.claims.items() if seen.allocated])
        elif self._unsettled:
            known = (self._state.view.claim_by_uid(uid) for uid in tuple(self._unsettled))
            self.refresh([seen.key for seen in known if seen is not None])

    def refresh(self, claims: Iterable[Key]) -> None:
        """Look again at the holders of these claims, and of those they were with before."""
        self._state.inventory.refresh()
        todo: dict[str, None] = {}
        for key in claims:
            seen = self._state.view.claims.get(key)
            if seen is not None:
                todo[seen.uid] = None
                for uid in self._members.get(self._holder_of.get(seen.uid, ""), ()):
                    todo[uid] = None
        gone = (
            [uid for uid in self._holder_of if self._state.view.claim_by_uid(uid) is None] if self._gone(claims) else []
        )
        for uid in (*todo, *gone):
            self._drop(uid)
            self._orphans.pop(uid, None)
            self._unsettled.pop(uid, None)
        for uid in todo:
            seen = self._state.view.claim_by_uid(uid)
            if seen is None or not seen.allocated:
                continue
            if uid not in self._holder_of:
                self._add(seen)
            if seen.claim.reserved_for and not self._stays(seen, frozenset()):
                self._orphans[uid] = None

    def _gone(self, claims: Iterable[Key]) -> bool:
        return any(key not in self._state.view.claims for key in claims)

    def _drop(self, uid: str) -> None:
        holder = self._holder_of.pop(uid, None)
        if holder is not None:
            self.index.drop(holder)
            for member in self._members.pop(holder, ()):
                self._holder_of.pop(member, None)

    def _add(self, seen: SeenClaim) -> None:
        state = self._state
        claims, pods = self._together(seen)
        members = tuple(claims)
        for uid in members:
            self._drop(uid)
        holder = min(members)
        if any(self._state.writes.get(uid) is not None for uid in (*claims, *pods)):
            self._unsettled.update(dict.fromkeys(members))
        devices = [device for uid in members for device in self._devices(claims[uid])]
        first = min(claims.values(), key=lambda each: each.key)
        self.index.put(
            Holder(
                key=first.key if not pods else min(pod.key for pod in pods.values()),
                uid=holder,
                claims=members,
                pods=tuple(self._reference(pod) for pod in pods.values()),
                priority=self._priority(claims, pods),
                since=self._since(claims, pods),
                devices=len(devices),
                preemptible=self._may_go(claims, pods),
            ),
            [None if (offer := state.inventory.offer(device)) is None else offer.home for device in devices],
        )
        self._members[holder] = members
        for uid in members:
            self._holder_of[uid] = holder

    def _together(self, seen: SeenClaim) -> tuple[dict[str, SeenClaim], dict[str, Pod]]:
        """All claims and pods that are tied to this claim by sharing."""
        claims, pods = {seen.uid: seen}, dict[str, Pod]()
        open_claims = [seen]
        while open_claims:
            for pod in self._users(open_claims.pop()):
                if pod.meta.uid in pods:
                    continue
                pods[pod.meta.uid] = pod
                for key in self._state.view.claim_keys(pod):
                    other = self._state.view.claims.get(key)
                    if other is not None and other.allocated and other.uid not in claims:
                        claims[other.uid] = other
                        open_claims.append(other)
        return claims, pods

    def _users(self, seen: SeenClaim) -> list[Pod]:
        found = (self._state.view.pod_by_uid(consumer.uid) for consumer in seen.claim.reserved_for)
        return [pod for pod in found if pod is not None and not pod.terminal]

    @staticmethod
    def _devices(seen: SeenClaim) -> list[DeviceId]:
        assert seen.claim.allocation is not None
        results = seen.claim.allocation.results
        return [DeviceId(result.driver, result.pool, result.device) for result in results if not result.admin_access]

    def _reference(self, pod: Pod) -> PodRef:
        namespace, name = pod.key
        running = pod.phase != "Pending"
        return PodRef(namespace, name, pod.meta.uid, pod.meta.labels, pod.priority, running, pod.ready)

    def _priority(self, claims: dict[str, SeenClaim], pods: dict[str, Pod]) -> int:
        if not pods:
            return max(priority_of_claim(seen, self._state) for seen in claims.values())
        return max(priority_of_pod(pod, list(claims.values()), self._state) for pod in pods.values())

    @staticmethod
    def _since(claims: dict[str, SeenClaim], pods: dict[str, Pod]) -> float:
        started = [pod.started or pod.meta.created or 0.0 for pod in pods.values()]
        allocated = [seen.claim.allocation.timestamp or 0.0 for seen in claims.values() if seen.claim.allocation]
        return min(started or allocated, default=0.0)

    def _may_go(self, claims: dict[str, SeenClaim], pods: dict[str, Pod]) -> bool:
        """All of it is ours and may be preempted, and nothing of it is on its way already."""
        state = self._state
        for seen in claims.values():
            if not seen.managed or state.writes.get(seen.uid) is not None or not state.terms_of(seen)[1].preemptible:
                return False
            if len(self._users(seen)) < len(seen.claim.reserved_for):
                return False  # a user that is done, or not a pod: it is being freed, or not ours to end
        return all(
            pod.node_name is not None and pod.meta.deleted is None and state.writes.get(pod.meta.uid) is None
            for pod in pods.values()
        )

    def leaving(self) -> tuple[frozenset[str], frozenset[str]]:
        """UIDs of claims that are being freed without our doing more, and of the pods that go with them."""
        state = self._state
        claims = dict(self._orphans)
        pods = {pod.meta.uid: None for pod in state.view.leaving_pods()}
        for write in state.writes:
            if isinstance(write.decision, EvictPod) and not write.decision.dry_run:
                pods[write.decision.uid] = None
            elif isinstance(write.decision, WriteClaimStatus) and write.decision.action == "deallocate":
                claims[write.decision.uid] = None
        going = frozenset(pods)
        for uid in going:
            pod = state.view.pod_by_uid(uid)
            for key in () if pod is None else state.view.claim_keys(pod):
                seen = state.view.claims.get(key)
                if seen is not None and seen.allocated and not self._stays(seen, going):
                    claims[seen.uid] = None
        return frozenset(claims), going

    def _stays(self, seen: SeenClaim, going: frozenset[str]) -> bool:
        """Does anybody use the claim who is not about to go? kube-controller-manager frees it otherwise."""
        for consumer in seen.claim.reserved_for:
            pod = self._state.view.pod_by_uid(consumer.uid)
            if consumer.resource != "pods" or (pod is not None and not pod.terminal and consumer.uid not in going):
                return True
        return not seen.claim.reserved_for
