"""Would a gang fit if others went? The question as the choice of its victims asks it, over and over, on one snapshot.

Also for single members that the joint solver has to place (later ones under a topology, pods tied to devices allocated before).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from dra_operator.allocator import Problem
from dra_operator.engine.gangproblems import GangProblems, Party, Terms
from dra_operator.engine.placements import Placed
from dra_operator.engine.state import State
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.preemption.gangvictims import Gang
from dra_operator.preemption.holders import Holder

#: The joint solver's answer with these claims (UIDs) released.
Solve = Callable[[Terms, list[Party], frozenset[str]], Placed | Blocker]


@dataclass(frozen=True, slots=True)
class Need:
    """What a gang would take if others went: nodes, devices, and who would be where."""

    nodes: tuple[str, ...]
    devices: frozenset[DeviceId]
    placed: Placed


class GangTrial:
    """`leaving`: UIDs of claims that are being freed anyway, and of the pods that go with them."""

    def __init__(
        self,
        state: State,
        gangs: GangProblems,
        solve: Solve,
        terms: Terms,
        parties: list[Party],
        leaving: tuple[frozenset[str], frozenset[str]],
    ) -> None:
        self._state, self._gangs, self._solve = state, gangs, solve
        self._terms, self._parties, self._leaving = terms, parties, leaving

    def need(self, gone: Sequence[Holder], nodes: Sequence[str] | None = None) -> Need | None:
        """What it would take on these nodes (None: any); None if it would not fit. Nothing is remembered or noted."""
        claims, pods = self._leaving
        released = claims.union(*(holder.claims for holder in gone))
        without = pods.union(pod.uid for holder in gone for pod in holder.pods)
        # Whether a pod fits a node depends on who is gone.
        parties = [replace(party, misfits={}) for party in self._parties]
        found = self._solve(replace(self._terms, without=without, nodes=nodes), parties, released)
        if isinstance(found, Blocker):
            return None
        places = found.places(None)
        devices = frozenset(
            DeviceId(result.driver, result.pool, result.device)
            for place in places
            for _, allocation in place.allocations
            for result in allocation.results
            if not result.admin_access
        )
        named = dict.fromkeys(place.node for place in places if place.node is not None)
        homes = (self._home(device) for device in sorted(devices))
        return Need(tuple(named or dict.fromkeys(home for home in homes if home is not None)), devices, found)

    def gang(self) -> Gang:
        """The question for the choice of victims."""

        def fits(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
            found = self.need(gone, nodes)
            return None if found is None else found.nodes

        return Gang(self._sorts(), self._domains(), fits, self._leaving[0])

    def _sorts(self) -> tuple[tuple[Problem, int], ...]:
        """One problem for members that ask for the same."""
        counts: dict[Hashable, int] = {}
        problems: dict[Hashable, Problem] = {}
        for party in self._parties:
            if not party.todo:
                continue
            sort = (tuple(claim.seen.spec_key for claim in party.todo), party.barred)
            counts[sort] = counts.get(sort, 0) + 1
            if sort not in problems:
                problems[sort] = Problem(
                    claims=tuple(claim.seen.claim for claim in party.todo),
                    forbidden=self._terms.forbidden,
                    barred=party.barred,
                )
        return tuple((problems[sort], count) for sort, count in counts.items())

    def _domains(self) -> tuple[tuple[str, ...] | None, ...]:
        """Where all members must be under one value of a label, the nodes of each value."""
        topology = self._gangs.topology(self._terms)
        if topology is None or topology.mode != "Same":
            return (None,)
        found: dict[str, list[str]] = {}
        present = {value for value in topology.present if value is not None}
        for name in sorted(self._state.ledger.nodes):
            value = topology.value(name)
            if value is not None and (value in present or not present):
                found.setdefault(value, []).append(name)
        return tuple(tuple(names) for _, names in sorted(found.items()))

    def _home(self, device: DeviceId) -> str | None:
        offer = self._state.inventory.offer(device)
        return None if offer is None else offer.home
