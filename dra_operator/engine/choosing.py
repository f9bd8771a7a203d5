"""Whose devices a unit would get: the question put to the choice of victims, for one pod or claim and for a gang.

Decides nothing about when to preempt and carries nothing out (`preempting`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.groups import call_roll
from dra_operator.engine.holding import Holding
from dra_operator.engine.judging import Pairs
from dra_operator.engine.placing import Placer
from dra_operator.engine.state import State
from dra_operator.inventory import DeviceId
from dra_operator.preemption.gangvictims import choose_for_gang
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.holds import Hold
from dra_operator.preemption.victims import NoVictims, choose
from dra_operator.queue.barring import Fence
from dra_operator.queue.units import Unit, order


@dataclass(frozen=True, slots=True)
class Chosen:
    """`holders`: who gives way, in the order to evict them; nobody where what leaves anyway suffices. `nodes` and `devices`: what the
    unit gets then (no node: a bare claim's devices that many nodes reach)."""

    holders: tuple[Holder, ...]
    nodes: tuple[str, ...]
    devices: frozenset[DeviceId]
    pairs: Pairs

    @property
    def claims(self) -> frozenset[str]:
        """UIDs of the claims to be released."""
        return frozenset(claim for holder in self.holders for claim in holder.claims)


class Choosing:
    """Looks at the state and changes nothing."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting, holding: Holding) -> None:
        self._state, self._placer, self._budgeting, self._holding = state, placer, budgeting, holding

    def choose(self, unit: Unit, pod: Pod | None, now: float) -> Chosen | NoVictims:
        """The best victims that quotas and reservations allow, or why there are none. For a gang: for all members that wait; where that
        cannot be, for as many as it takes."""
        found = self._choose(unit, pod, now)
        if isinstance(found, Chosen) or unit.key.kind != "group":
            return found
        everyone, least = unit.claims, call_roll(self._state, unit.key.subject, now).least
        if len(least) == len(everyone):
            return found
        unit.claims = least
        try:
            fewer = self._choose(unit, pod, now)
        finally:
            unit.claims = everyone
        return fewer

    def _choose(self, unit: Unit, pod: Pod | None, now: float) -> Chosen | NoVictims:
        fence = self._budgeting.fence(unit, pod, now, self._spoken_for(unit))
        choose = self._for_gang if self._placer.gangs.concerns(unit, pod) else self._for_one
        found = choose(unit, pod, fence, now)
        if isinstance(found, NoVictims):
            return found
        # What is freed may have to stay free for others.
        gone = self._holding.leaving()[0] | found.claims
        blocker = self._budgeting.permits(unit, found.pairs, now, without=gone)
        return found if blocker is None else NoVictims((blocker.message,))

    def _holders(self, unit: Unit) -> Holders:
        """All but the unit's own group."""
        group = self._state.group_of(unit)
        return self._holding.index if group is None else self._holding.others(group)

    def _spoken_for(self, unit: Unit) -> frozenset[DeviceId]:
        """Held for units that stand before it or are preempting themselves, or about to be as soon as they come free."""
        held = [
            hold.kept | self._awaited(hold, unit)
            for hold in self._state.holds
            if hold.unit != unit.key and (hold.wanted or hold.rank < order(unit))
        ]
        return frozenset().union(*held)

    def _awaited(self, hold: Hold, unit: Unit) -> frozenset[DeviceId]:
        """What comes free on the nodes of a hold that needs more goes to it. Not what a unit of its priority or above made room for."""
        holder = self._state.waiting.get(hold.unit)
        if hold.wanted or holder is None or holder.priority <= unit.priority:
            return frozenset()
        found = self._placer.candidates(holder)
        if found is None or len(hold.devices) >= found.needed:
            return frozenset()
        return frozenset(offer.id for node in hold.nodes for offer in found.on(node))

    # -- one pod or claim

    def _for_one(self, unit: Unit, pod: Pod | None, fence: Fence, now: float) -> Chosen | NoVictims:
        state = self._state
        _, terms = state.terms(unit)
        seen = [state.view.claims[key] for key in unit.claims]
        todo = [claim for claim in seen if not claim.allocated]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        avoided = {} if pod is None else state.avoided_nodes(pod, now)
        claims, pods = self._holding.leaving()
        problems = self._placer.problems
        problem = problems.of_unit(
            pod,
            todo,
            fixed,
            terms,
            forbidden=fence.forbidden,
            barred=fence.barred,
            constraints=self._placer.constraints(unit, pod),
            without=pods,
        )

        def fits(node: str, gone: frozenset[str]) -> bool:
            return pod is None or problems.misfit(pod, node, fixed, avoided, without=gone | pods) is None

        found = choose(
            problem,
            state.inventory.snapshot(),
            self._holders(unit),
            priority=unit.priority,
            min_delta=terms.preemption.min_priority_delta,
            max_victims=terms.preemption.max_victims,
            budgets=state.budgets,
            fits=fits,
            leaving=claims,
        )
        if isinstance(found, NoVictims):
            return found
        devices = frozenset(
            DeviceId(result.driver, result.pool, result.device)
            for allocation in found.solution.allocations
            for result in allocation.results
            if not result.admin_access
        )
        pairs = tuple(zip(todo, found.solution.allocations, strict=True))
        return Chosen(found.holders, () if found.node is None else (found.node,), devices, pairs)

    # -- a gang

    def _for_gang(self, unit: Unit, pod: Pod | None, fence: Fence, now: float) -> Chosen | NoVictims:
        state = self._state
        _, terms = state.terms(unit)
        trial = self._placer.gangs.trial(
            unit, pod, now, leaving=self._holding.leaving(), forbidden=fence.forbidden, barred=fence.barred
        )
        if trial is None:
            return NoVictims(("its constraints cannot be followed",))
        found = choose_for_gang(
            trial.gang(),
            state.inventory,
            self._holders(unit),
            priority=unit.priority,
            min_delta=terms.preemption.min_priority_delta,
            max_victims=terms.preemption.max_victims,
            budgets=state.budgets,
        )
        if isinstance(found, NoVictims):
            return found
        need = trial.need(found.holders)
        if need is None:
            return NoVictims(("the search for a place for all its members takes too long",))
        return Chosen(found.holders, need.nodes, need.devices, need.placed.allocations)
