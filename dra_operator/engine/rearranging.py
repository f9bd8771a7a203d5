"""Rearrangements as the engine sees them: who may be moved, what that becomes elsewhere, and what would make a waiting unit fit.

Changes nothing and decides nothing; the search is `defrag`'s. A pod may be moved if a controller makes it anew, a claim by itself if
no pod uses it; what is shared by several pods, not managed, or kept by its policy stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dra_operator.allocator import Problem, UnitConstraint
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.defrag.pieces import Piece, Rearrangement
from dra_operator.defrag.search import Search
from dra_operator.engine.constraining import InvalidConstraints, named_claims, pod_constraints, within_unit
from dra_operator.engine.holding import Holding
from dra_operator.engine.placing import Placer
from dra_operator.engine.pods import MAKERS, unpinned
from dra_operator.engine.queueing import rank_of
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.preemption.holders import Holder
from dra_operator.queue.units import Unit, UnitKey

#: What devices on other nodes do not help against.
_NOT_DEVICES = frozenset({"QuotaExceeded", "WriteRefused", "InvalidConstraints", "Unreadable"})


@dataclass(frozen=True, slots=True)
class Fixed:
    """Holders that stay where they are, and why."""

    why: str
    holders: int


@dataclass(frozen=True, slots=True)
class Prospects:
    """What moves can do for one unit. `refused`: why none are looked for; "" where `plans` may be asked."""

    unit: UnitKey
    refused: str
    search: Search | None = None
    piece: Piece | None = None
    movable: int = 0
    fixed: tuple[Fixed, ...] = ()

    def plans(self, moves: int, *, wanted: int) -> list[Rearrangement]:
        """As `Search.plans`."""
        assert self.search is not None
        assert self.piece is not None
        return self.search.plans(self.piece, moves, wanted=wanted)


class Rearranging:
    """Reads the state. To be asked after `decide`; what it hands out holds until the next event."""

    def __init__(self, state: State, placer: Placer, holding: Holding) -> None:
        self._state, self._placer, self._holding = state, placer, holding

    def waiting(self) -> list[UnitKey]:
        """The units that wait for devices, first in order first."""
        return [unit.key for unit in sorted(self._state.waiting.values(), key=rank_of)]

    def unit_of(self, kind: Literal["claim", "pod"], key: Key) -> UnitKey | None:
        """The waiting unit that this pod or claim belongs to."""
        for unit in self._state.waiting.values():
            if unit.key == UnitKey(kind, key) or (kind == "claim" and key in unit.claims):
                return unit.key
        return None

    def claims_of(self, key: UnitKey) -> list[Key]:
        """Its claims without devices."""
        claims = self._state.view.claims
        return [name for name in self._state.units[key].claims if not claims[name].allocated]

    def prospects(self, key: UnitKey, now: float, *, claims_too: bool) -> Prospects:
        """`claims_too`: may claims that no pod uses be moved, too? Only the operator can free them."""
        state = self._state
        unit = state.units[key]
        refused = self._refused(unit)
        if refused:
            return Prospects(key, refused)
        self._holding.settle(now)
        pieces: dict[str, Piece] = {}
        fixed: Counter[str] = Counter()
        for holder in self._everybody():
            made = self._piece_of(holder, claims_too, now)
            if isinstance(made, str):
                fixed[made] += 1
            else:
                pieces[holder.uid] = made
        search = Search(state.inventory.snapshot(), self._holding.index, pieces, state.budgets)
        told = tuple(Fixed(why, count) for why, count in sorted(fixed.items(), key=lambda item: (-item[1], item[0])))
        return Prospects(key, "", search, self._piece_of_unit(unit, now), len(pieces), told)

    def _refused(self, unit: Unit) -> str:
        if unit.key.kind == "group":
            return "it is a ClaimGroup, for which no moves are worked out"
        if unit.impossible:
            return f"it would not fit the empty cluster either: {unit.message}"
        if unit.reason in _NOT_DEVICES:
            return f"it does not wait for devices, but because of {unit.reason}: {unit.message}"
        return ""

    def _everybody(self) -> list[Holder]:
        index = self._holding.index
        found = {holder.uid: holder for name in self._state.inventory.node_names for holder in index.on(name)}
        found.update((holder.uid, holder) for holder in index.anywhere())
        return [found[uid] for uid in sorted(found)]

    # -- pieces

    def _piece_of_unit(self, unit: Unit, now: float) -> Piece:
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [state.view.claims[key] for key in unit.claims]
        todo = [claim for claim in seen if not claim.allocated]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        avoided = {} if pod is None else state.avoided_nodes(pod, now)
        problem = self._placer.problems.of_unit(
            pod,
            todo,
            fixed,
            state.terms(unit)[1],
            forbidden=state.holds.against(unit.key, rank_of(unit), unit.priority, None),
            constraints=self._placer.constraints(unit, pod),
        )
        return self._piece(f"{unit.key.kind} {unit.key.subject}", problem, pod, fixed, avoided)

    def _piece_of(self, holder: Holder, claims_too: bool, now: float) -> Piece | str:
        """What a holder becomes elsewhere; why it stays."""
        if not holder.preemptible:
            return "not managed, not preemptible by policy, or on their way already"
        if len(holder.pods) > 1:
            return "shared by several pods"
        if not holder.pods and not claims_too:
            return "claims that no pod uses (only the operator can free them)"
        state = self._state
        seen = [found for uid in holder.claims if (found := state.view.claim_by_uid(uid)) is not None]
        pod = None
        if holder.pods:
            pod = state.view.pod_by_uid(holder.pods[0].uid)
            controller = None if pod is None else pod.meta.controller
            if pod is None or controller is None or controller.kind not in MAKERS:
                return "pods that no controller would make anew elsewhere"
            if state.groups.of("pod", pod.key) is not None:
                return "members of a ClaimGroup"
            pod = unpinned(pod)
        terms = state.terms_of(seen[0])[1]
        anew = UnitKey("claim", seen[0].key) if pod is None else UnitKey("pod", pod.key)
        rank = (-holder.priority, 0.0, now, holder.uid)
        problem = self._placer.problems.of_unit(
            pod,
            seen,
            [],
            terms,
            forbidden=state.holds.against(anew, rank, holder.priority, None),
            constraints=() if pod is None else self._constraints(pod, seen),
        )
        return self._piece(str(holder), problem, pod, [], {})

    def _constraints(self, pod: Pod, seen: Sequence[SeenClaim]) -> tuple[UnitConstraint, ...]:
        try:
            items = pod_constraints(pod, list(seen))
            return within_unit(items, named_claims(pod, list(seen)), self._state.terms_of(seen[0])[1]) if items else ()
        except InvalidConstraints:
            return ()

    def _piece(
        self, name: str, problem: Problem, pod: Pod | None, fixed: list[Allocation], avoided: dict[str, str]
    ) -> Piece:
        problems = self._placer.problems

        def fits(node: str, gone: frozenset[str]) -> bool:
            return pod is None or problems.misfit(pod, node, fixed, avoided, without=gone) is None

        return Piece(name, problem, fits)
