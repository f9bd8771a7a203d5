"""Placing one unit: the problem for the allocator, what nodes it may use, and why it failed, remembered for its like."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

from dra_operator.allocator import (
    Bar,
    Candidates,
    Failed,
    Problem,
    Solved,
    UnitConstraint,
    Unsolved,
    attempt,
    candidates,
    solve,
)
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.engine.constraining import InvalidConstraints, named_claims, pod_constraints, within_unit
from dra_operator.engine.gangplacing import GangPlacer
from dra_operator.engine.placements import CLASS_PENDING, Blocked, Placed, failure
from dra_operator.engine.problems import Misfits, Problems
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.summary import Blocker, blocker_of_search
from dra_operator.inventory import DeviceId
from dra_operator.queue.nodefit import Misfit
from dra_operator.queue.units import Unit

#: Pods that share a claim and are looked at together: each is asked for on every node in question.
_SHARERS = 16


@dataclass(frozen=True, slots=True)
class _Failure:
    """What kept a unit at a `moment`; `taken`: how often devices had been taken until then."""

    moment: tuple[int, ...]
    blocked: Blocked
    names: list[str]
    taken: int

    def up_to_date(self, taken: int) -> bool:
        """What is impossible is so whoever has the devices."""
        return self.blocked.impossible or self.taken >= taken


class Placer:
    """Solves units against the state, and remembers failures until something changes that could mend them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.problems = Problems(state)
        self.gangs = GangPlacer(state, self.problems)
        self._failures: dict[Hashable, _Failure] = {}
        self._counted_from = 0
        self._impossible: dict[Hashable, tuple[int, bool]] = {}

    def count_anew(self) -> None:
        """While nothing comes free, what does not fit still does not; what is taken meanwhile changes the numbers told of it. They are
        right again from now on."""
        self._counted_from = self._state.usage.taken_total

    def place(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        *,
        moving: frozenset[str] = frozenset(),
        forbidden: frozenset[DeviceId] = frozenset(),
        barred: tuple[tuple[int, Bar], ...] = (),
        remember: bool = True,
    ) -> Placed | Blocked:
        """Find devices and a node for the unit's unallocated claims.

        `moving`: UIDs of allocated claims to be treated as free, to see whether they could be moved. `forbidden`: devices held or
        reserved for others; keep one object as long as it holds. `barred`: kinds of devices that its unallocated
        claims (by index) may not have. `remember` False: nobody will ask with this set again.
        """
        state = self._state
        if self.gangs.concerns(unit, pod):
            return self.gangs.place(unit, pod, now, moving=moving, forbidden=forbidden, barred=barred)
        seen = [state.view.claims[key] for key in unit.claims]
        for claim in seen:
            if claim.error is not None:
                return Blocked(Blocker("Unreadable", claim.error), impossible=True)
        todo = [claim for claim in seen if not claim.allocated or claim.uid in moving]
        fixed = [
            claim.claim.allocation for claim in seen if claim.claim.allocation is not None and claim.uid not in moving
        ]
        avoided = {} if pod is None else state.avoided_nodes(pod, now)
        signature = None if moving or not remember else self._signature(unit, pod, todo, fixed, tuple(sorted(avoided)))
        failure = (signature, forbidden, barred)
        if signature is not None:
            known = self._failures.get(failure)
            if known is not None and known.moment == state.moment and known.up_to_date(self._counted_from):
                return _renamed(known.blocked, known.names, [claim.claim.meta.name for claim in todo])
        sharers = self._sharers(pod, todo)
        if sharers:
            together = self._solve(
                unit, pod, todo, fixed, avoided, moving, forbidden, barred, sharers=sharers, empty=False
            )
            if isinstance(together, Placed):
                return together
        outcome = self._solve(unit, pod, todo, fixed, avoided, moving, forbidden, barred, empty=False)
        if isinstance(outcome, Placed):
            return outcome
        blocked = self._judge(unit, pod, todo, fixed, avoided, outcome, signature)
        if signature is not None:
            if len(self._failures) > 10_000:
                self._failures.clear()
            names = [claim.claim.meta.name for claim in todo]
            self._failures[failure] = _Failure(state.moment, blocked, names, state.usage.taken_total)
        return blocked

    def signature(self, unit: Unit, pod: Pod | None, now: float) -> Hashable | None:
        """Equal for units that must get the same answer while nothing changes; None where the unit is like no other."""
        if self.gangs.concerns(unit, pod):
            return None
        seen = [self._state.view.claims[key] for key in unit.claims]
        todo = [claim for claim in seen if not claim.allocated]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        avoided = () if pod is None else tuple(sorted(self._state.avoided_nodes(pod, now)))
        return self._signature(unit, pod, todo, fixed, avoided)

    def candidates(self, unit: Unit) -> Candidates | None:
        """The devices its unallocated claims could use, whoever has them now; None if they cannot be planned."""
        found_claims = [self._state.view.claims.get(key) for key in unit.claims]
        seen = [claim for claim in found_claims if claim is not None]
        if len(seen) < len(found_claims):
            return None  # one was deleted a moment ago
        todo = tuple(claim.claim for claim in seen if not claim.allocated)
        if unit.key.kind == "group":
            # Its members are mostly alike, and not all on one node.
            todo = tuple({claim.spec_key: claim.claim for claim in seen if not claim.allocated}.values())
        found = candidates(Problem(claims=todo), self._state.inventory.snapshot())
        return None if isinstance(found, Failed) else found

    def constraints(self, unit: Unit, pod: Pod | None) -> tuple[UnitConstraint, ...]:
        """Those across its unallocated claims; none if its annotation cannot be followed (`place` says so)."""
        seen = [self._state.view.claims[key] for key in unit.claims]
        try:
            return self._constraints(unit, pod, [claim for claim in seen if not claim.allocated])
        except InvalidConstraints:
            return ()

    def _constraints(self, unit: Unit, pod: Pod | None, todo: list[SeenClaim]) -> tuple[UnitConstraint, ...]:
        """Raises InvalidConstraints."""
        items = pod_constraints(pod, [self._state.view.claims[key] for key in unit.claims])
        return within_unit(items, named_claims(pod, todo), self._state.terms(unit)[1]) if items else ()

    def nodes_for(self, pod: Pod, allocations: list[Allocation], now: float) -> tuple[str | None, list[Misfit]]:
        """The node a pod with all its claims allocated can run on, or why none: its likeliest first."""
        state = self._state
        misfits: list[Misfit] = []
        known = state.ledger.place_of(pod.meta.uid)
        single = next((name for name in map(state.only_node, allocations) if name is not None), None)
        if single is not None:
            names = [single]
        else:
            names = sorted(state.ledger.nodes)
            if known in state.ledger.nodes:
                names.insert(0, str(known))
        avoided = state.avoided_nodes(pod, now)
        for name in names:
            misfit = self.problems.misfit(pod, name, allocations, avoided)
            if misfit is None and name in state.ledger.nodes:
                return name, []
            misfits.append(misfit or Misfit("node does not exist"))
        return None, misfits

    def _sharers(self, pod: Pod | None, todo: list[SeenClaim]) -> tuple[Pod, ...]:
        """Pods that wait for the same claims: once these have devices, they can run where those are, or nowhere."""
        if pod is None:
            return ()
        users = {other.meta.uid: other for seen in todo for other in self._state.view.pods_of_claim(seen.key)}
        waiting = [
            other
            for other in users.values()
            if other is not pod and other.node_name is None and not other.terminal and other.meta.deleted is None
        ]
        return tuple(waiting[:_SHARERS])

    def _solve(
        self,
        unit: Unit,
        pod: Pod | None,
        todo: list[SeenClaim],
        fixed: list[Allocation],
        avoided: dict[str, str],
        moving: frozenset[str],
        forbidden: frozenset[DeviceId],
        barred: tuple[tuple[int, Bar], ...],
        *,
        sharers: tuple[Pod, ...] = (),
        empty: bool,
    ) -> Placed | Blocker:
        """`sharers`: only where these can run beside the pod."""
        state = self._state
        misfits: Misfits = {}
        _, terms = state.terms(unit)
        try:
            constraints = self._constraints(unit, pod, todo)
        except InvalidConstraints as invalid:
            return Blocker("InvalidConstraints", str(invalid), final=True)
        alone = self.problems.fits(pod, fixed, avoided, misfits, empty=empty)

        def with_sharers(name: str) -> bool:
            assert alone is not None
            assert pod is not None
            return alone(name) and state.ledger.together((pod, *sharers), name)

        problem = self.problems.of_unit(
            pod,
            todo,
            fixed,
            terms,
            fits=with_sharers if sharers else alone,
            forbidden=forbidden,
            barred=barred,
            constraints=constraints,
            empty=empty,
        )
        snapshot = state.inventory.snapshot()
        reverts = [snapshot.release(uid) for uid in sorted(moving)]
        apart = False
        try:
            answer = solve(problem, snapshot)
            if isinstance(answer, Unsolved) and any(item.required for item in constraints):
                apart = attempt(replace(problem, constraints=()), snapshot) is not None
        finally:
            for revert in reversed(reverts):
                revert()
        if isinstance(answer, Solved):
            warnings = tuple(map(str, answer.warnings))
            return Placed(answer.node, tuple(zip(todo, answer.allocations, strict=True)), warnings)
        if isinstance(answer, Failed):
            return failure(answer, state)
        blocker = blocker_of_search(answer, problem.claims, [found for found in misfits.values() if found is not None])
        if not apart:
            return blocker
        rest = "" if blocker.message.startswith("no node has") else f"; {blocker.message}"
        return replace(blocker, message=_not_together(constraints) + rest)

    def _judge(
        self,
        unit: Unit,
        pod: Pod | None,
        todo: list[SeenClaim],
        fixed: list[Allocation],
        avoided: dict[str, str],
        blocker: Blocker,
        signature: Hashable | None,
    ) -> Blocked:
        """Is it hopeless, or only not now?"""
        avoiding = tuple(sorted(avoided))
        if blocker.final:
            return Blocked(blocker, impossible=True, avoiding=avoiding)
        if fixed or blocker.reason in ("SearchBudgetExceeded", CLASS_PENDING) or self._state.republishing.under_way:
            return Blocked(blocker, avoiding=avoiding)
        # Neither usage nor avoided nodes matter to that question, so their comings and goings do not ask it anew.
        known = self._impossible.get(signature) if signature is not None else None
        if known is not None and known[0] == self._state.layout:
            return Blocked(blocker, impossible=known[1], avoiding=avoiding)
        impossible = not isinstance(
            self._solve(unit, pod, todo, [], {}, frozenset(), frozenset(), (), empty=True), Placed
        )
        if signature is not None:
            if len(self._impossible) > 10_000:
                self._impossible.clear()
            self._impossible[signature] = (self._state.layout, impossible)
        return Blocked(blocker, impossible=impossible, avoiding=avoiding)

    def _signature(
        self, unit: Unit, pod: Pod | None, todo: list[SeenClaim], fixed: list[Allocation], avoided: tuple[str, ...]
    ) -> Hashable:
        policy, _ = self._state.terms(unit)
        return self.problems.signature(policy, pod, todo, fixed, avoided)


def _not_together(constraints: tuple[UnitConstraint, ...]) -> str:
    """Each claim has devices, and those of all of them together are not as the pod asks."""
    texts = [
        f"{'differ' if item.distinct else 'agree'} in {item.attributes[0]}" for item in constraints if item.required
    ]
    return f"there are devices for its claims on one node, but none that {' and '.join(texts)}, as the pod asks"


def _renamed(blocked: Blocked, old: list[str], new: list[str]) -> Blocked:
    """What was found for one unit, told of another that is the same but for the names of its claims."""
    message = blocked.blocker.message
    for before, after in zip(old, new, strict=True):
        message = re.sub(rf"(claim (?:[\w.-]+/)?){re.escape(before)}(?![\w.-])", rf"\g<1>{after}", message)
    return replace(blocked, blocker=replace(blocked.blocker, message=message))


__all__ = ["Blocked", "Placed", "Placer"]
