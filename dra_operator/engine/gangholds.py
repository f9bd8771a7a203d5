"""Holds of gangs: the set of nodes on which all members could be soonest, and what is set aside there."""

from __future__ import annotations

from collections.abc import Callable

from dra_operator.engine.gangplacing import GangPlacer
from dra_operator.engine.gangproblems import Party
from dra_operator.engine.state import State
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import Hold, ready_at
from dra_operator.queue.units import Unit, UnitKey, order

#: When a claim (UID) gives its devices back; None: nobody knows.
Ends = Callable[[str], float | None]


class GangHolds:
    """Who would be on which node is worked out once a hold, and again after a restart."""

    def __init__(self, state: State, placer: GangPlacer) -> None:
        self._state, self._placer = state, placer
        self._plans: dict[UnitKey, tuple[tuple[str, ...], dict[str, list[Party]]]] = {}

    def choose(self, unit: Unit, now: float, ends: Ends, taken: frozenset[str]) -> Hold | None:
        """A hold on the set of nodes whose last one can be free soonest, as far as is known; None if there is none."""
        ranked = self._ranked(unit, ends, taken)
        names = [name for _, name in ranked]
        plan = self._placer.on_empty(unit, now, names)
        if plan is None:
            return None
        # The shortest list of best nodes that will do.
        low, high = 1, len(names)
        while low < high:
            middle = (low + high) // 2
            found = self._placer.on_empty(unit, now, names[:middle])
            if found is None:
                low = middle + 1
            else:
                high, plan = middle, found
        plan = dict(sorted(plan.items()))
        nodes = tuple(plan)
        self._plans[unit.key] = nodes, plan
        times = {name: rank[0] for rank, name in ranked}
        latest = max(times[name] for name in nodes)
        known = None if latest == float("inf") else latest
        return Hold(unit.key, nodes[0], now, order(unit), ready_at=known, others=nodes[1:])

    def covered(self, unit: Unit, hold: Hold, now: float) -> frozenset[DeviceId]:
        """What is free on the hold's nodes of what the members there need; all of it where constraints decide which go together."""
        plan = self._plan(unit, hold, now)
        found: list[DeviceId] = []
        for name, parties in plan.items():
            chosen: dict[DeviceId, None] = {}
            for party in parties:
                candidates = self._placer.candidates_of(party)
                if candidates is None:
                    continue
                offers = [offer.id for offer in candidates.on(name)]
                free = [each for each in offers if not self._state.inventory.users(each) and each not in chosen]
                chosen.update(dict.fromkeys(free if candidates.entangled else free[: candidates.needed]))
            found += chosen
        return frozenset(found)

    def _plan(self, unit: Unit, hold: Hold, now: float) -> dict[str, list[Party]]:
        known = self._plans.get(unit.key)
        claims = (
            {claim.seen.key for parties in known[1].values() for party in parties for claim in party.todo}
            if known
            else set()
        )
        if known is None or known[0] != hold.nodes or claims != set(unit.claims):
            self._plans = {key: plan for key, plan in self._plans.items() if key in self._state.units}
            known = self._plans[unit.key] = hold.nodes, self._placer.on_empty(unit, now, hold.nodes) or {}
        return known[1]

    def _ranked(self, unit: Unit, ends: Ends, taken: frozenset[str]) -> list[tuple[tuple[float, int, str], str]]:
        """Nodes by when one more member could be there: known ends first, then by how few devices must come free, then by name."""
        best: dict[str, tuple[float, int, str]] = {}
        for found in self._placer.candidates(unit):
            for record, mask in found.nodes():
                if record.name in taken:
                    continue
                missing = max(0, found.needed - (mask & ~record.used).bit_count())
                ready = ready_at(found, self._state.inventory, record.name, missing, ends)
                rank = (float("inf") if ready is None else ready, missing, record.name)
                best[record.name] = min(rank, best.get(record.name, rank))
        return sorted((rank, name) for name, rank in best.items())
