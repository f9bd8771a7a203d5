"""Placing one unit: the problem for the allocator, what nodes it may use, and why it failed, remembered for its like."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from dra_operator.allocator import Bar, Candidates, Failed, Problem, Solved, Strategy, candidates, solve
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.summary import Blocker, blocker_of_failure, blocker_of_search
from dra_operator.inventory import DeviceId
from dra_operator.queue.nodefit import Misfit
from dra_operator.queue.units import Unit


@dataclass(frozen=True, slots=True)
class Placed:
    """`allocations` pairs each unallocated claim with its allocation, in the unit's order."""

    node: str | None
    allocations: tuple[tuple[SeenClaim, Allocation], ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """`impossible`: it would not fit on the empty cluster either. `avoiding`: nodes left out because a placement failed there."""

    blocker: Blocker
    impossible: bool = False
    avoiding: tuple[str, ...] = ()


class Placer:
    """Solves units against the state, and remembers failures until something changes that could mend them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._failures: dict[Hashable, tuple[tuple[int, ...], Blocked, list[str]]] = {}
        self._impossible: dict[Hashable, tuple[int, bool]] = {}

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
        reserved for others; keep one object as long as it holds. `barred`: kinds of devices that
        its unallocated claims (by index) may not have. `remember` False: nobody will ask with this set again.
        """
        state = self._state
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
            if known is not None and known[0] == state.moment:
                return _renamed(known[1], known[2], [claim.claim.meta.name for claim in todo])
        outcome = self._solve(unit, pod, todo, fixed, avoided, moving, forbidden, barred, empty=False)
        if isinstance(outcome, Placed):
            return outcome
        blocked = self._judge(unit, pod, todo, fixed, avoided, outcome, signature)
        if signature is not None:
            if len(self._failures) > 10_000:
                self._failures.clear()
            self._failures[failure] = (state.moment, blocked, [claim.claim.meta.name for claim in todo])
        return blocked

    def candidates(self, unit: Unit) -> Candidates | None:
        """The devices its unallocated claims could use, whoever has them now; None if they cannot be planned."""
        seen = [self._state.view.claims[key] for key in unit.claims]
        todo = tuple(claim.claim for claim in seen if not claim.allocated)
        found = candidates(Problem(claims=todo), self._state.inventory.snapshot())
        return None if isinstance(found, Failed) else found

    def candidate_nodes(self, unit: Unit, pod: Pod | None) -> list[str] | None:
        """The nodes that its allocated claims and its own affinity leave; None for all."""
        seen = [self._state.view.claims[key].claim.allocation for key in unit.claims]
        return self._candidates(pod, [allocation for allocation in seen if allocation is not None])

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
            node = state.ledger.nodes.get(name)
            misfit = self._misfit(pod, name, avoided, empty=False)
            if misfit is None and node is not None and all(state.reaches(item, node) for item in allocations):
                return name, []
            misfits.append(misfit or Misfit("the allocated devices cannot be reached from it"))
        return None, misfits

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
        empty: bool,
    ) -> Placed | Blocker:
        state = self._state
        misfits: dict[str, Misfit | None] = {}
        _, terms = state.terms(unit)
        problem = Problem(
            claims=tuple(claim.claim for claim in todo),
            nodes=self._candidates(pod, fixed),
            fits=None if pod is None else self._fits(pod, fixed, avoided, misfits, empty=empty),
            needs_node=pod is not None,
            strategy=Strategy(terms.placement.strategy),
            cost=None if pod is None or empty else lambda name: state.ledger.cost(pod, name),
            forbidden=forbidden,
            barred=barred,
            ignore_usage=empty,
        )
        snapshot = state.inventory.snapshot()
        reverts = [snapshot.release(uid) for uid in sorted(moving)]
        try:
            answer = solve(problem, snapshot)
        finally:
            for revert in reversed(reverts):
                revert()
        if isinstance(answer, Solved):
            warnings = tuple(map(str, answer.warnings))
            return Placed(answer.node, tuple(zip(todo, answer.allocations, strict=True)), warnings)
        if isinstance(answer, Failed):
            return blocker_of_failure(answer)
        return blocker_of_search(answer, problem.claims, [found for found in misfits.values() if found is not None])

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
        if fixed or blocker.reason == "SearchBudgetExceeded":
            return Blocked(blocker, avoiding=avoiding)
        # Neither usage nor avoided nodes matter to that question, so their comings and goings do not ask it anew.
        known = self._impossible.get(signature) if signature is not None else None
        if known is not None and known[0] == self._state.layout:
            return Blocked(blocker, impossible=known[1], avoiding=avoiding)
        impossible = not isinstance(self._solve(unit, pod, todo, [], {}, frozenset(), frozenset(), (), empty=True), Placed)
        if signature is not None:
            if len(self._impossible) > 10_000:
                self._impossible.clear()
            self._impossible[signature] = (self._state.layout, impossible)
        return Blocked(blocker, impossible=impossible, avoiding=avoiding)

    def _candidates(self, pod: Pod | None, fixed: list[Allocation]) -> list[str] | None:
        """The nodes worth asking about; None for all. A DaemonSet's pod or a pinned one names its node itself."""
        names = [name for name in map(self._state.only_node, fixed) if name is not None]
        if pod is not None and (pod.node_name or pod.pinned_to) is not None:
            names.append(str(pod.node_name or pod.pinned_to))
        if not names:
            return None
        return [names[0]] if all(name == names[0] for name in names) and names[0] in self._state.ledger.nodes else []

    def _fits(
        self,
        pod: Pod,
        fixed: list[Allocation],
        avoided: dict[str, str],
        misfits: dict[str, Misfit | None],
        *,
        empty: bool,
    ) -> Callable[[str], bool]:
        def fits(name: str) -> bool:
            if name not in misfits:
                misfits[name] = self._misfit(pod, name, avoided, empty=empty)
                node = self._state.ledger.nodes.get(name)
                if misfits[name] is None and node is not None:
                    if not all(self._state.reaches(allocation, node) for allocation in fixed):
                        misfits[name] = Misfit("devices allocated already cannot be reached from it")
            return misfits[name] is None

        return fits

    def _misfit(self, pod: Pod, name: str, avoided: dict[str, str], *, empty: bool) -> Misfit | None:
        if pod.node_name == name:
            return None  # it is there already
        if name in avoided:
            return Misfit(f"avoided for a while ({avoided[name]})")
        return self._state.ledger.misfit(pod, name, empty=empty)

    def _signature(
        self, unit: Unit, pod: Pod | None, todo: list[SeenClaim], fixed: list[Allocation], avoided: tuple[str, ...]
    ) -> Hashable:
        """Equal for units that must get the same answer while nothing changes; a ReplicaSet's pods are one."""
        policy, _ = self._state.terms(unit)
        specs = tuple(claim.spec_key for claim in todo)
        selectors = tuple(allocation.node_selector for allocation in fixed)
        if pod is None:
            return (specs, policy, selectors)
        return (
            pod.node_name,
            specs,
            policy,
            selectors,
            avoided,
            tuple(sorted(pod.node_selector.items())),
            pod.node_affinity,
            pod.tolerations,
            tuple(sorted(pod.requests.items())),
            pod.host_ports,
            pod.priority,
            pod.preemption_policy,
        )


def _renamed(blocked: Blocked, old: list[str], new: list[str]) -> Blocked:
    """What was found for one unit, told of another that is the same but for the names of its claims."""
    message = blocked.blocker.message
    for before, after in zip(old, new, strict=True):
        message = re.sub(rf"(claim (?:[\w.-]+/)?){re.escape(before)}(?![\w.-])", rf"\g<1>{after}", message)
    return replace(blocked, blocker=replace(blocked.blocker, message=message))
