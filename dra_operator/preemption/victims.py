"""Choosing victims: which lower-priority holders give way so that one unit fits, or why none can.

Decides nothing about when to preempt, and evicts nobody: holds, evictions and what follows are the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dra_operator.allocator import Failed, Problem, Solved, Trial, attempt, solve, trial
from dra_operator.inventory import Snapshot
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import for_eviction
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.outlook import Outlook
from dra_operator.preemption.search import Fits, Found, Search, Terms, protected

#: More victims than any cluster has.
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Victims:
    """`holders`: who gives way, in the order to evict them; nobody if the unit fits once those that leave anyway are gone.

    `solution`: what the unit then gets; its devices are to be held for it. `node` is None as in `Solved`.
    """

    node: str | None
    holders: tuple[Holder, ...]
    solution: Solved

    @property
    def claims(self) -> tuple[str, ...]:
        """UIDs of the claims to be released."""
        return tuple(claim for holder in self.holders for claim in holder.claims)


@dataclass(frozen=True, slots=True)
class NoVictims:
    """`reasons`: why, each a sentence without a full stop. `closest`: the holders that would have to go on `node` if these reasons
    did not stand; nobody if nothing would help."""

    reasons: tuple[str, ...]
    node: str | None = None
    closest: tuple[Holder, ...] = ()


def choose(
    problem: Problem,
    snapshot: Snapshot,
    holders: Holders,
    *,
    priority: int,
    min_delta: int,
    max_victims: int,
    budgets: Budgets,
    fits: Fits,
    leaving: frozenset[str] = frozenset(),
) -> Victims | NoVictims:
    """The best victims for the unit, by the criteria of `criteria`; deterministic, and the snapshot is left as it was.

    `priority`: the unit's base priority; victims are at least `min_delta` (at least 1) below it. `max_victims`: the most pods
    evicted and claims freed together. `fits(node, gone)`: may the unit's pod run there once the pods with these UIDs are gone; more
    pods gone must never make it False; it stands in for `problem.fits`. What the problem says of nodes (`cost`, `wish`, `serves`)
    counts where nobody has to go; else the victims decide. `leaving`: UIDs of claims that are being freed anyway; the pods that leave
    with them are for `fits` to know. `problem.forbidden` must hold the devices held for others, above all those of victims on their
    way out for other units. Holders without devices at home on a node are considered there for their network-attached devices, not
    for the room their pods take.

    Exact as long as there is little to compare (`site.SETS` sets of a size on one node, `search.TRIES` sets and `search.LOOKS` holders
    in all); beyond that victims are filled in and given back, so that each one chosen is still needed.
    """
    asked = trial(problem, snapshot)
    if isinstance(asked, Failed):
        return NoVictims((asked.message,))
    with _released(snapshot, leaving):
        ready = attempt(replace(problem, fits=lambda name: fits(name, frozenset())), snapshot)
        if ready is not None:
            return Victims(ready.node, (), ready)
        terms = Terms(
            limit=priority - max(1, min_delta),
            max_victims=max_victims,
            budgets=budgets,
            heed_preemptible=True,
            fits=fits,
        )
        return _Choice(problem, snapshot, asked, holders, terms).make()


class _Choice:
    def __init__(self, problem: Problem, snapshot: Snapshot, asked: Trial, holders: Holders, terms: Terms) -> None:
        self.problem, self.snapshot, self.trial, self.holders, self.terms = problem, snapshot, asked, holders, terms
        self.outlooks: dict[bool, Outlook] = {}

    def make(self) -> Victims | NoVictims:
        search = self._search(self.terms)
        found = search.run()
        if found is not None:
            return self._victims(found)
        return self._why_not(search)

    def _search(self, terms: Terms) -> Search:
        return Search(self.snapshot, self.trial, self._outlook(terms), terms)

    def _outlook(self, terms: Terms) -> Outlook:
        """The same for all searches that let the same holders go."""
        heed = terms.heed_preemptible
        if heed not in self.outlooks:
            nodes = None if self.problem.nodes is None else frozenset(self.problem.nodes)
            self.outlooks[heed] = Outlook(
                self.snapshot.inventory, self.trial, nodes, self.holders, terms.limit, heed_preemptible=heed
            )
        return self.outlooks[heed]

    def _victims(self, found: Found) -> Victims | NoVictims:
        claims = frozenset(claim for holder in found.holders for claim in holder.claims)
        with _released(self.snapshot, claims):
            solution = solve(replace(self.problem, nodes=(found.node,), fits=None, cost=None), self.snapshot)
        if not isinstance(solution, Solved):
            message = solution.message if isinstance(solution, Failed) else "the allocator finds no solution after all"
            return NoVictims((message,), found.node, found.holders)
        return Victims(
            solution.node, for_eviction(found.holders, protected(found.holders, self.terms.budgets)), solution
        )

    # -- why not ---------------------------------------------------------------------------------------------------

    def _why_not(self, search: Search) -> NoVictims:
        """Lift one rule after another until there would be victims: these rules are why there are none."""
        limit = self.terms.limit
        if not self._outlook(self.terms).any_place:
            beside = ", beside those that are kept for others" if self.problem.forbidden else ""
            return NoVictims((f"no node has the devices it asks for, whoever holds them{beside}",))
        # Each of the searches that follow may give more than the one before; where it cannot, it is left out.
        terms = replace(self.terms, max_victims=_NO_LIMIT)
        found = None
        if "max_victims" in search.kept_back:
            search = self._search(terms)
            found = search.run()
        terms = replace(terms, budgets=None)
        if found is None and "budgets" in search.kept_back:
            search = self._search(terms)
            found = search.run()
        if found is None and self._outlook(terms).spares_any():
            terms = replace(terms, heed_preemptible=False)
            search = self._search(terms)
            found = search.run()
        if found is not None:
            assert self.terms.budgets is not None
            broken = reasons(found.holders, self.terms.budgets, self.terms.max_victims)
            return NoVictims(tuple(broken), found.node, found.holders)
        if not self._outlook(terms).any_below:
            return NoVictims((f"nothing of priority {limit} or lower holds a device on a node it could use",))
        if "fits" in search.kept_back:
            found = self._search(replace(terms, fits=_anywhere)).run()
        if found is not None:
            text = f"devices could be freed (on node {found.node}, say), but the pod would not fit there even then"
            return NoVictims((text,), found.node, found.holders)
        if self.trial.exhausted:
            return NoVictims((f"no victims found within {self.problem.work_budget} steps of search",))
        return NoVictims((f"it would not fit even if everything of priority {limit} or lower gave way",))


def reasons(holders: Sequence[Holder], budgets: Budgets, max_victims: int) -> Iterator[str]:
    """The rules that having all of these go would break."""
    fixed = [holder for holder in holders if not holder.preemptible]
    if fixed:
        names = "; ".join(str(holder) for holder in fixed[:3]) + ("; …" if len(fixed) > 3 else "")
        yield f"not preemptible: {names}"
    for refusal in budgets.allows([pod for holder in holders for pod in holder.pods]):
        yield str(refusal)
    count = sum(max(1, len(holder.pods)) for holder in holders)
    if count > max_victims:
        yield f"it would take {count} victim{'' if count == 1 else 's'}, and the policy allows {max_victims}"


def _anywhere(node: str, gone: frozenset[str]) -> bool:
    return True


@contextmanager
def _released(snapshot: Snapshot, claims: frozenset[str]) -> Iterator[None]:
    """As if these claims had no allocation."""
    reverts = [snapshot.release(claim) for claim in sorted(claims)]
    try:
        yield
    finally:
        for revert in reversed(reverts):
            revert()
