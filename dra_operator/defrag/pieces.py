"""What is moved and where to: values of a rearrangement, no search.

A move is not a preemption: whoever gives way is placed again, so it may have any priority. What makes a move of an eviction is the
controller that makes the pod anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.allocator import Problem
from dra_operator.api.claims import Allocation
from dra_operator.preemption.holders import Holder

#: May the piece's pod run on the node once the pods with these UIDs are gone?
Fits = Callable[[str, frozenset[str]], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Something that is placed as a whole: the unit that waits, or what a holder becomes elsewhere.

    `problem.nodes` are the nodes it may use; `problem.fits` and `problem.cost` are not looked at.
    """

    name: str
    problem: Problem
    fits: Fits

    @property
    def claims(self) -> tuple[str, ...]:
        """UIDs."""
        return tuple(claim.meta.uid for claim in self.problem.claims)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece goes. `node` is None where its devices are reachable from anywhere."""

    node: str | None
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A holder that goes, and a place that is there for what it becomes."""

    holder: Holder
    place: Place


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """`moves` in an order in which each finds its place free; `place`: what the unit that waits then gets."""

    moves: tuple[Move, ...]
    place: Place

    @property
    def pods(self) -> int:
        return sum(len(move.holder.pods) for move in self.moves)
