"""Claims that are not ours after all, and devices that two allocations share."""

from __future__ import annotations

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.decisions import Decision
from dra_operator.engine.evicting import evict
from dra_operator.engine.membership import is_stray
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import deallocate, unmanage
from dra_operator.inventory import Collision

#: Seconds after which a collision is looked at again that an open write kept from being resolved.
_AGAIN = 0.5
#: Seconds between two evictions of the same user of a device: a disruption budget may refuse for long.
_EVICTIONS = 10.0


class Ownership:
    """Hands back strays, and gives up our own side of a collision. `recheck`: when to look again although nothing happens."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.recheck: float | None = None
        self._told: set[str] = set()
        self._evict_at: dict[str, float] = {}
        self._again: dict[Key, None] = {}

    def strays(self, looked_at: list[Key], now: float) -> list[Decision]:
        """Unmanage the claims among `looked_at` that are kube-scheduler's to allocate."""
        decisions: list[Decision] = []
        for key in looked_at:
            seen = self._state.view.claims.get(key)
            if seen is None or self._state.writes.get(seen.uid) is not None:
                continue
            why = is_stray(seen, self._state.view)
            if why is None:
                continue
            self._state.event(
                claim_reference(seen), "Normal", "LeftToScheduler", "Unmanage", f"left to kube-scheduler: {why}"
            )
            decisions.append(unmanage(self._state, seen, now))
        return decisions

    def collisions(self, looked_at: list[Key], now: float) -> list[Decision]:
        """Resolve the collisions that the claims among `looked_at` take part in."""
        decisions: list[Decision] = []
        self.recheck = None
        self._told = {uid for uid in self._told if self._state.view.claim_by_uid(uid) is not None}
        self._evict_at = {uid: at for uid, at in self._evict_at.items() if uid in self._told}
        # What could not be resolved yet (a write was open) is looked at again in the next pass.
        again, self._again = self._again, {}
        for key in dict.fromkeys([*looked_at, *again]):
            seen = self._state.view.claims.get(key)
            if seen is None or not seen.allocated:
                continue
            found = self._state.inventory.collisions_of(seen.uid)
            if not found:
                self._told.discard(seen.uid)
                self._evict_at.pop(seen.uid, None)
            if found:
                self._again[key] = None
            for collision in found:
                decisions += self._resolve(collision, now)
        return decisions

    def _resolve(self, collision: Collision, now: float) -> list[Decision]:
        state = self._state
        holders = [seen for uid in collision.claims if (seen := state.view.claim_by_uid(uid)) is not None]
        allocated = [seen for seen in holders if seen.allocated]
        ours = [seen for seen in allocated if seen.managed]
        if len(allocated) < 2 or not ours:
            return []
        if any(state.writes.get(seen.uid) is not None for seen in ours):
            self._look_again(now + _AGAIN)
            return []
        loser = max(ours, key=_age)
        other = next(seen for seen in allocated if seen is not loser)
        what = f"{collision.reason}: to claim {other.key} as well"
        first = loser.uid not in self._told
        self._told.add(loser.uid)
        if first:
            state.event(claim_reference(loser), "Warning", "DeviceCollision", "Allocate", what)
        users = [
            pod for consumer in loser.claim.reserved_for if (pod := state.view.pod_by_uid(consumer.uid)) is not None
        ]
        if not any(pod.node_name is not None for pod in users):
            for pod in users:
                state.event(pod_reference(pod), "Warning", "Moving", "Deallocate", f"its devices are given up: {what}")
            return [deallocate(state, loser, None, now)]
        if now < self._evict_at.get(loser.uid, now):
            self._look_again(self._evict_at[loser.uid])
            return []
        _, terms = state.terms_of(loser)
        if terms.preemption.mode == "Never" or not terms.preemptible:
            return []
        evictions: list[Decision] = []
        for pod in users:
            if state.writes.get(pod.meta.uid) is not None:
                self._look_again(now + _AGAIN)
            elif self._evictable(pod):
                state.event(pod_reference(pod), "Warning", "DeviceCollision", "Evict", f"evicted: {what}")
                evictions.append(evict(state, pod, what, None, now))
                self._evict_at[loser.uid] = now + _EVICTIONS
                self._look_again(now + _EVICTIONS)
        return evictions

    def _look_again(self, at: float) -> None:
        self.recheck = at if self.recheck is None else min(at, self.recheck)

    def _evictable(self, pod: Pod) -> bool:
        return pod.node_name is not None and pod.meta.deleted is None and not pod.terminal


def _age(seen: SeenClaim) -> tuple[float, str]:
    """Of two allocations the younger one is given up, ties by UID."""
    allocation = seen.claim.allocation
    return ((allocation.timestamp if allocation is not None else None) or 0.0, seen.uid)
