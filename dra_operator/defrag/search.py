"""The search for the fewest moves: iterative deepening over how many holders move, chains of moves included.

A step places one piece: first the unit that waits, then each holder that had to make room for one before it, for whom others may have to
make room in turn. Which node a piece takes is searched; which of a node's devices is left to the allocator. So a plan that exists only
with other devices of the same node can be missed; one that is found is right, as far as devices and the pods' nodes go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations

from dra_operator.allocator import Failed, Solved, Trial, solve, trial
from dra_operator.defrag.pieces import Move, Piece, Place, Rearrangement
from dra_operator.inventory import Snapshot
from dra_operator.inventory.views import NodeRecord, View
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import cost
from dra_operator.preemption.ground import Ground, ground_of
from dra_operator.preemption.holders import Holder, Holders

#: Placements looked at before the search gives up.
TRIES = 20_000
#: Nodes without need of a move that are tried for one piece.
ROOMY = 16
#: Sets of holders on one node that are compared.
SETS = 500


@dataclass(frozen=True, slots=True)
class _Way:
    """A node for a piece, and who has to leave it."""

    record: NodeRecord
    leaving: tuple[Holder, ...]


class Search:
    """One search. `pieces`: by holder UID, what each holder that may move becomes. `exhausted`: it ended before all was tried."""

    def __init__(
        self,
        snapshot: Snapshot,
        holders: Holders,
        pieces: Mapping[str, Piece],
        budgets: Budgets,
        *,
        tries: int = TRIES,
    ) -> None:
        self._snapshot, self._holders, self._pieces, self._budgets = snapshot, holders, pieces, budgets
        self._tries = tries
        self._trials: dict[Piece, Trial | None] = {}
        self._grounds: dict[tuple[Piece, View], Ground | None] = {}
        self.exhausted = False

    def plans(self, unit: Piece, moves: int, *, wanted: int = 1) -> list[Rearrangement]:
        """Rearrangements with exactly so many holders moved (0: it fits as things are), at most `wanted`, the cheapest first.

        Ask for 0, 1, 2… in turn: a plan of more moves may hold one of fewer.
        """
        known: dict[frozenset[str], Rearrangement] = {}
        ways = self._placed([unit], (), moves, frozenset())
        try:
            for place, steps in ways:
                moved = frozenset(move.holder.uid for move in steps)
                if len(moved) == moves and moved not in known:
                    # Last placed, first moved: whoever makes room for another needs its own place before.
                    known[moved] = Rearrangement(tuple(reversed(steps)), place)
                if len(known) >= wanted:
                    break
        finally:
            ways.close()  # takes back what the snapshot shows of the last one
        return list(known.values())

    def _placed(
        self, todo: Sequence[Piece | Holder], moving: tuple[Holder, ...], budget: int, gone: frozenset[str]
    ) -> Generator[tuple[Place, list[Move]], None, None]:
        """Ways to place all of these. The first is the unit; what comes out is its place, and the moves."""
        first, *rest = todo
        piece = first if isinstance(first, Piece) else self._pieces[first.uid]
        for way in self._ways(piece, moving, budget, gone):
            if self.exhausted:
                return
            pods = gone | {pod.uid for holder in way.leaving for pod in holder.pods}
            with self._taken(piece, way) as place:
                if place is None:
                    continue
                queue = [*rest, *sorted(way.leaving, key=lambda holder: (-holder.devices, holder.uid))]
                own = [] if isinstance(first, Piece) else [Move(first, place)]
                if not queue:
                    yield place, own
                    continue
                further = self._placed(queue, (*moving, *way.leaving), budget - len(way.leaving), pods)
                for _, moves in further:
                    yield place, own + moves

    # -- nodes for one piece ---------------------------------------------------------------------------------------

    def _ways(self, piece: Piece, moving: tuple[Holder, ...], budget: int, gone: frozenset[str]) -> Iterator[_Way]:
        """Nodes it fits on as things are, then those where few have to leave: within a size, the cheapest set first."""
        asked = self._trial(piece)
        if asked is None:
            return
        records = list(self._records(piece))
        roomy = 0
        full: list[NodeRecord] = []
        for record in records:
            if roomy < ROOMY and piece.fits(record.name, gone) and self._fits(asked, record):
                roomy += 1
                yield _Way(record, ())
            else:
                full.append(record)
        for size in range(1, budget + 1):
            found: list[_Way] = []
            for record in full:
                found += (_Way(record, chosen) for chosen in self._sets(piece, asked, record, size, moving, gone))
            yield from sorted(found, key=lambda way: cost(way.leaving, way.record.name))

    def _records(self, piece: Piece) -> Iterator[NodeRecord]:
        inventory = self._snapshot.inventory
        names = inventory.node_names if piece.problem.nodes is None else piece.problem.nodes
        for name in names:
            record = inventory.nodes.get(name)
            if record is not None and record.view is not None:
                yield record

    def _sets(
        self,
        piece: Piece,
        asked: Trial,
        record: NodeRecord,
        size: int,
        moving: tuple[Holder, ...],
        gone: frozenset[str],
    ) -> Iterator[tuple[Holder, ...]]:
        """Sets of so many holders on the node whose going makes room for the piece; no set that holds a smaller one that does."""
        busy = {holder.uid for holder in moving}
        here = [
            holder for holder in self._holders.on(record.name) if holder.uid in self._pieces and holder.uid not in busy
        ]
        lacking = self._lacking(piece, asked, record)
        if lacking is None or len(here) < size:
            return
        if sum(sorted((holder.devices for holder in here), reverse=True)[:size]) < lacking:
            return
        here.sort(key=lambda holder: holder.rank)
        for number, chosen in enumerate(combinations(here, size)):
            if number >= SETS or self.exhausted:
                return
            if sum(holder.devices for holder in chosen) < lacking or not self._may_go((*moving, *chosen)):
                continue
            if self._room(piece, asked, record, chosen, gone) and not any(
                self._room(piece, asked, record, (*chosen[:index], *chosen[index + 1 :]), gone) for index in range(size)
            ):
                yield chosen

    def _room(
        self, piece: Piece, asked: Trial, record: NodeRecord, leaving: Sequence[Holder], gone: frozenset[str]
    ) -> bool:
        pods = gone | {pod.uid for holder in leaving for pod in holder.pods}
        if not piece.fits(record.name, pods):
            return False
        with self._released(leaving):
            return self._fits(asked, record)

    def _may_go(self, holders: Sequence[Holder]) -> bool:
        return not self._budgets or not self._budgets.allows([pod for holder in holders for pod in holder.pods])

    def _lacking(self, piece: Piece, asked: Trial, record: NodeRecord) -> int | None:
        """How many devices must come free on the node at the least; None where it never suffices."""
        assert record.view is not None
        key = (piece, record.view)
        if key not in self._grounds:
            self._grounds[key] = ground_of(asked, record.view, self._snapshot.inventory)
        ground = self._grounds[key]
        if ground is None:
            return None
        usable = ground.usable & ~asked.held.get(record.name, 0)
        if usable.bit_count() + sum(ground.shared.values()) < ground.need:
            return None
        return ground.need - (usable & ~record.used).bit_count() - ground.open

    # -- trying ----------------------------------------------------------------------------------------------------

    def _trial(self, piece: Piece) -> Trial | None:
        if piece not in self._trials:
            found = trial(piece.problem, self._snapshot)
            self._trials[piece] = None if isinstance(found, Failed) else found
        return self._trials[piece]

    def _fits(self, asked: Trial, record: NodeRecord) -> bool:
        self._tries -= 1
        if self._tries < 0:
            self.exhausted = True
            return False
        found = asked.fits(record)
        self.exhausted = self.exhausted or asked.exhausted
        return found

    @contextmanager
    def _taken(self, piece: Piece, way: _Way) -> Iterator[Place | None]:
        """With the piece in its place and those gone that leave for it; None where the allocator finds it no place after all."""
        with self._released(way.leaving):
            problem = replace(piece.problem, nodes=(way.record.name,), fits=None, cost=None)
            solution = solve(problem, self._snapshot)
            if not isinstance(solution, Solved):
                yield None
                return
            reverts = [
                self._snapshot.use(uid, allocation)
                for uid, allocation in zip(piece.claims, solution.allocations, strict=True)
            ]
            try:
                yield Place(solution.node, solution.allocations)
            finally:
                for revert in reversed(reverts):
                    revert()

    @contextmanager
    def _released(self, holders: Sequence[Holder]) -> Iterator[None]:
        reverts = [self._snapshot.release(claim) for holder in holders for claim in holder.claims]
        try:
            yield
        finally:
            for revert in reversed(reverts):
                revert()
