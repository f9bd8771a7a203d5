"""Moves claims off devices that are lost, or that no longer match (`onClassChange: Reallocate`), without hurry.

What nobody uses gives lost devices back at once. Everything else is moved only where its policy says so, only if other devices would do
now and nobody in the queue wants them, and one at a time for each policy: a claim that no running pod uses is deallocated; a pod that
runs is evicted within its disruption budgets, so that its controller starts another. Nothing has to be remembered over a restart: what
is Drifted is found again, and a pod that is on its way out keeps the next one waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.allocator import Candidates, Failed, Problem, candidates
from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.decisions import Decision, EvictPod, Outcome, WriteClaimStatus
from dra_operator.engine.evicting import as_victim, evict
from dra_operator.engine.names import GATE
from dra_operator.engine.placing import Blocked, Placer
from dra_operator.engine.pods import priority_of_claim, priority_of_pod, unpinned
from dra_operator.engine.state import State, claim_reference, pod_reference
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import deallocate
from dra_operator.queue.units import Unit, UnitKey, order

#: Claims looked at in one pass, and seconds until the next look: on a full cluster a look costs.
_LOOKS = 4
_AGAIN = 1.0
#: Seconds until a pod whose disruption budget said no is tried again: doubled each time, up to the second.
_RETRY, _RETRY_MAX = 5.0, 300.0


@dataclass(slots=True)
class Move:
    """One under way. `pods` are the UIDs of those evicted, `controllers` those of who is to replace them, `before` those of the pods that
    these had already; `gone_at`: all were gone."""

    claim: str
    pods: frozenset[str]
    controllers: tuple[str, ...]
    before: frozenset[str]
    gone_at: float | None = None


@dataclass(slots=True)
class _Wait:
    """Why a claim is not tried: nothing that matters changed since `moment`, or it is too early."""

    moment: tuple[int, ...]
    until: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class _Quiet:
    """A policy none of whose claims could be moved. `until`: not to be looked at before, whatever changes; `again`: then in any case."""

    moment: tuple[int, ...]
    until: float
    again: float | None


class Reallocating:
    """At most one move a policy. `recheck`: when time alone changes something."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._moves: dict[str, Move] = {}
        self._waits: dict[str, _Wait] = {}
        self._quiet: dict[str, _Quiet] = {}
        self._version = (-1, -1)
        self._lost: list[str] = []
        self._movable: dict[str, list[str]] = {}
        self.recheck: float | None = None

    def act(self, now: float) -> list[Decision]:
        """The next steps. Called before anything is ungated: a pod must not start on a device that is gone."""
        self.recheck = None
        state = self._state
        if not state.drifts and not self._moves:
            self._lost, self._movable, self._version = [], {}, (-1, -1)
            return []
        version = state.drift_version, state.term_changes
        if self._version != version:
            self._version = version
            self._sort()
        decisions: list[Decision] = []
        for uid in self._lost:
            seen = self._waiting(uid)
            if seen is not None and self._unused(seen):
                decisions.append(self._free(seen, now))
        for policy in sorted({*self._moves, *self._movable}):
            if not self._busy(policy, now) and self._is_due(policy, now):
                decisions += self._next(policy, now)
        return decisions

    def _sort(self) -> None:
        """Which claims are lost, and which are to be moved, by policy."""
        state = self._state
        self._lost, self._movable = [], {}
        for uid, finding in state.drifts.items():
            seen = state.view.claim_by_uid(uid)
            if seen is None:
                continue
            if finding.phase == "Lost":
                self._lost.append(uid)
            policy, terms = state.terms_of(seen)
            if terms.on_class_change == "Reallocate":
                self._movable.setdefault(policy, []).append(uid)
            else:
                self._explain(seen, "onClassChange is Keep, so it stays as it is")
        self._waits = {uid: wait for uid, wait in self._waits.items() if uid in state.drifts}
        self._quiet.clear()

    def _waiting(self, uid: str) -> SeenClaim | None:
        """The claim, if it is allocated and nothing is being written to it."""
        seen = self._state.view.claim_by_uid(uid)
        ready = seen is not None and seen.allocated and self._state.writes.get(uid) is None
        return seen if ready and uid in self._state.drifts else None

    def settle(self, outcome: Outcome, now: float) -> None:
        """What became of a move's eviction, or of the write that frees its claim: one that is refused is not under way."""
        decision = outcome.decision
        if outcome.ok or outcome.status in (0, 404, 408, 409) or outcome.status >= 500:
            return  # carried out, gone already, or to be repeated
        evicted = decision.uid if isinstance(decision, EvictPod) else None
        freed = decision.uid if isinstance(decision, WriteClaimStatus) and decision.action == "deallocate" else None
        if freed is not None and outcome.status == 429:
            return  # too many requests; for an eviction it is the disruption budget that says no
        policy = next(
            (
                name
                for name, move in self._moves.items()
                if evicted in move.pods or (not move.pods and freed == move.claim)
            ),
            None,
        )
        if policy is None:
            return
        seen = self._state.view.claim_by_uid(self._moves.pop(policy).claim)
        if seen is not None:
            hurdle = "its devices cannot be given back now" if evicted is None else "its pod cannot be restarted now"
            self._put_off(seen, now, f"{hurdle}: {outcome.message or outcome.reason}")

    # -- one at a time

    def _busy(self, policy: str, now: float) -> bool:
        """Is a move of the policy under way?"""
        move = self._moves.get(policy)
        if move is None:
            return False
        view = self._state.view
        seen = view.claim_by_uid(move.claim)
        if any(view.pod_by_uid(uid) is not None for uid in move.pods) or self._state.writes.get(move.claim) is not None:
            return True
        if move.gone_at is None:
            move.gone_at = now
        if move.pods:
            done = self._successors(move) >= len(move.controllers)
        else:
            done = (
                seen is None or seen.allocated
            )  # on other devices, or on the old ones if somebody else was faster to write
        late = move.gone_at + self._state.settings.move_patience
        if done or now >= late:
            del self._moves[policy]
            return False
        self._recheck_at(min(now + _AGAIN, late))
        return True

    def _successors(self, move: Move) -> int:
        """Pods on a node that the controllers made since."""
        return sum(
            1
            for controller in dict.fromkeys(move.controllers)
            for pod in self._state.view.pods_of_controller(controller)
            if pod.node_name is not None and pod.meta.uid not in move.before
        )

    def _is_due(self, policy: str, now: float) -> bool:
        """Has anything changed since the policy's claims were looked at in vain? Not more often than every so often."""
        quiet = self._quiet.get(policy)
        if quiet is None:
            return True
        changed = quiet.moment != self._moment()
        at = quiet.until if changed else quiet.again
        if at is not None and now < at:
            self._recheck_at(at)
        return at is not None and now >= at

    def _next(self, policy: str, now: float) -> list[Decision]:
        """Begin the first move that is possible: what nobody runs on first, then the lowest priority."""
        looks, moment, movable = 0, self._moment(), self._movable.get(policy, ())
        ready = [seen for uid in movable if (seen := self._waiting(uid)) is not None]
        # Among those put off are some that are not ready now, and may be by then.
        put_off = [wait.until for uid in movable if (wait := self._waits.get(uid)) is not None and wait.failures]
        again = min((until for until in put_off if until > now), default=None)
        for seen in sorted(ready, key=self._order):
            wait = self._waits.get(seen.uid)
            if wait is not None and not wait.failures and wait.moment == moment:
                continue
            if wait is not None and now < wait.until:
                again = wait.until if again is None else min(again, wait.until)
                continue
            if looks == _LOOKS:
                again = now + _AGAIN
                break
            looks += 1
            began = self._begin(policy, seen, now)
            if began:
                return began
            self._waits[seen.uid] = _Wait(moment, now + _AGAIN)
        self._quiet[policy] = _Quiet(moment, now + _AGAIN, again)
        if again is not None:
            self._recheck_at(again)
        return []

    def _order(self, seen: SeenClaim) -> tuple[bool, int, Key]:
        pods = self._users(seen)
        priority = max((priority_of_pod(pod, [seen], self._state) for pod in pods), default=None)
        return bool(pods), priority_of_claim(seen, self._state) if priority is None else priority, seen.key

    def _moment(self) -> tuple[int, ...]:
        return (*self._state.moment, self._state.queue_changes, self._state.budget_changes, self._state.term_changes)

    # -- one move

    def _begin(self, policy: str, seen: SeenClaim, now: float) -> list[Decision]:
        """The move's first step; nothing if it has to wait, which the report then explains."""
        pods = self._users(seen)
        running = [pod for pod in pods if pod.node_name is not None]
        if any(pod.meta.deleted is not None or self._state.writes.get(pod.meta.uid) is not None for pod in pods):
            return self._stay(seen, "its pod is on its way out")
        if len(pods) < len(seen.claim.reserved_for) or (running and len(running) < len(pods)):
            return self._stay(seen, "it waits for the pods that share it")
        if not running and not self._unused(seen):
            return self._stay(seen, "its pod is about to start")
        obstacle = next((why for pod in running if (why := self._fixed(pod)) is not None), None)
        if obstacle is None:
            obstacle = self._no_place(seen, pods, now)
        if obstacle is not None:
            return self._stay(seen, obstacle)
        if not running:
            self._moves[policy] = Move(seen.uid, frozenset(), (), frozenset())
            return [self._free(seen, now)]
        refusals = self._state.budgets.allows([as_victim(pod) for pod in running])
        if refusals:
            return self._stay(seen, "; ".join(map(str, refusals)))
        controllers = tuple(pod.meta.controller.uid for pod in running if pod.meta.controller is not None)
        before = frozenset(pod.meta.uid for each in controllers for pod in self._state.view.pods_of_controller(each))
        self._moves[policy] = Move(seen.uid, frozenset(pod.meta.uid for pod in running), controllers, before)
        self._explain(seen, "its pod is restarted on other devices")
        return [self._evict(pod, seen, now) for pod in running]

    def _fixed(self, pod: Pod) -> str | None:
        """Why a running pod cannot be restarted at all."""
        if pod.meta.controller is None:
            return f"pod {pod.key} has no controller that would start it again"
        group = self._state.groups.of("pod", pod.key)
        if group is not None:
            whole = "which starts together or not at all, so onClassChange does not restart it"
            return f"pod {pod.key} is a member of ClaimGroup {group}, {whole}; to move the group, delete all of its pods at once"
        return None

    def _no_place(self, seen: SeenClaim, pods: list[Pod], now: float) -> str | None:
        """Why the claim, or its pod with all that is its own, would get nothing else; None if it would."""
        state = self._state
        pod = unpinned(pods[0]) if pods else None
        keys = (seen.key,) if pod is None else tuple(dict.fromkeys(state.view.claim_keys(pod)))
        claims = [found for key in keys if (found := state.view.claims.get(key)) is not None and found.allocated]
        uids = {each.meta.uid for each in pods}
        moving = frozenset(
            each.uid
            for each in claims
            if each.managed and (each.uid == seen.uid or all(user.uid in uids for user in each.claim.reserved_for))
        )
        key = UnitKey("claim", seen.key) if pod is None else UnitKey("pod", pod.key)
        priority = priority_of_claim(seen, state) if pod is None else priority_of_pod(pod, claims, state)
        created = (seen.claim.meta if pod is None else pod.meta).created or now
        unit = Unit(key, seen.uid, tuple(each.key for each in claims), created, priority, priority)
        forbidden = state.holds.against(key, order(unit), priority, None)
        outcome = self._budgeting.place(unit, pod, now, moving=moving, forbidden=forbidden)
        if isinstance(outcome, Blocked):
            return f"nothing else would do now: {outcome.blocker.message}"
        problem = Problem(claims=tuple(each.claim for each in claims if each.uid in moving))
        mine = candidates(problem, state.inventory.snapshot())
        rival = None if isinstance(mine, Failed) else next(self._rivals(mine), None)
        return None if rival is None else f"{rival.key.subject} waits for such devices and comes first"

    def _rivals(self, mine: Candidates) -> Iterator[Unit]:
        for unit in self._state.waiting.values():
            if not unit.impossible and unit.reason != "QuotaExceeded":
                theirs = self._placer.candidates(unit)
                if theirs is not None and theirs.overlaps(mine):
                    yield unit

    def _free(self, seen: SeenClaim, now: float) -> Decision:
        finding = self._state.drifts[seen.uid]
        note = f"its devices are given back and it is allocated anew: {finding.message}"
        self._state.event(claim_reference(seen), "Normal", "Reallocating", "Deallocate", note)
        return deallocate(self._state, seen, None, now)

    def _evict(self, pod: Pod, seen: SeenClaim, now: float) -> Decision:
        state, finding = self._state, self._state.drifts[seen.uid]
        why = f"restarted on other devices: {finding.message}"
        state.event(pod_reference(pod), "Warning", "Reallocating", "Evict", why)
        return evict(state, pod, why, None, now)

    # -- what the report says

    def _stay(self, seen: SeenClaim, why: str) -> list[Decision]:
        self._explain(seen, f"it stays where it is: {why}")
        return []

    def _put_off(self, seen: SeenClaim, now: float, why: str) -> None:
        known = self._waits.get(seen.uid)
        failures = 0 if known is None else known.failures
        until = now + min(_RETRY_MAX, _RETRY * 2.0 ** min(failures, 10))
        self._waits[seen.uid] = _Wait(self._moment(), until, failures + 1)
        self._explain(seen, why)

    def _explain(self, seen: SeenClaim, note: str) -> None:
        if self._state.drift_notes.get(seen.uid) != note:
            self._state.drift_notes[seen.uid] = note
            self._state.stale_reports[seen.key] = None

    def _recheck_at(self, at: float) -> None:
        self.recheck = at if self.recheck is None else min(at, self.recheck)

    # -- who uses it

    def _users(self, seen: SeenClaim) -> list[Pod]:
        found = (self._state.view.pod_by_uid(consumer.uid) for consumer in seen.claim.reserved_for)
        return [pod for pod in found if pod is not None and not pod.terminal]

    def _unused(self, seen: SeenClaim) -> bool:
        """Nobody has it, or only pods that still have our gate: taking it away hurts no one."""
        for consumer in seen.claim.reserved_for:
            pod = self._state.view.pod_by_uid(consumer.uid)
            if pod is None or pod.terminal or GATE not in pod.gates or self._state.writes.get(pod.meta.uid) is not None:
                return False
        return True


def kept_back(seen: SeenClaim, state: State) -> bool:
    """Must no further pod start with the claim, because those that have it are on their way out and its devices are to change?"""
    if seen.uid not in state.drifts or state.terms_of(seen)[1].on_class_change != "Reallocate":
        return False
    users = (state.view.pod_by_uid(consumer.uid) for consumer in seen.claim.reserved_for)
    return any(pod is not None and pod.meta.deleted is not None for pod in users)
