"""Placing the members of a ClaimGroup together, and later ones where the group is: problems for the joint solver, and what it said.

One pod goes this way as well where constraints tie it to devices that are allocated already: its group's, or its own of before.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dra_operator.allocator import Bar, Candidates, Failed, Problem, Strategy, candidates
from dra_operator.allocator.joint import (
    JointProblem,
    JointSolved,
    JointUnsolved,
    solve_jointly,
)
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION
from dra_operator.engine.constraining import InvalidConstraints
from dra_operator.engine.gangproblems import GangProblems, Party, Terms
from dra_operator.engine.gangtrial import GangTrial
from dra_operator.engine.placements import CLASS_PENDING, Blocked, MemberPlace, Placed, failure
from dra_operator.engine.problems import Problems
from dra_operator.engine.state import State
from dra_operator.explain.summary import Blocker, blocker_of_search
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.units import Unit, UnitKey

_NOBODY: frozenset[str] = frozenset()


class GangPlacer:
    """Part of the Placer, which decides when it is asked (`concerns`)."""

    def __init__(self, state: State, problems: Problems) -> None:
        self._state = state
        self._gangs = GangProblems(state, problems)
        self._failures: dict[UnitKey, tuple[Hashable, Blocked]] = {}
        self._impossible: dict[UnitKey, tuple[Hashable, bool]] = {}

    # -- whose business

    def concerns(self, unit: Unit, pod: Pod | None) -> bool:
        """Does placing the unit take more than a look at its own claims?"""
        if unit.key.kind == "group":
            return True
        if pod is not None and pod.node_name is not None:
            return False
        key = self._state.group_of(unit)
        group = None if key is None else self._state.groups.get(key)
        if group is not None and (group.spec.topology is not None or group.spec.constraints):
            return True
        if pod is None or not pod.meta.annotations.get(CONSTRAINTS_ANNOTATION):
            return False
        return any(self._state.view.claims[each].allocated for each in unit.claims)

    # -- placing

    def place(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        *,
        moving: frozenset[str],
        forbidden: frozenset[DeviceId],
        barred: tuple[tuple[int, Bar], ...],
    ) -> Placed | Blocked:
        """Places for all members of the unit, or why not."""
        try:
            terms, parties = self._gangs.prepare(unit, pod, now, moving, forbidden, barred)
        except InvalidConstraints as invalid:
            return Blocked(Blocker("InvalidConstraints", str(invalid), final=True), impossible=True)
        unreadable = [claim.seen.error for party in parties for claim in party.todo if claim.seen.error is not None]
        if unreadable:
            return Blocked(Blocker("Unreadable", str(unreadable[0])), impossible=True)
        signature = None if moving else self._signature(unit, terms, parties)
        known = self._failures.get(unit.key)
        if signature is not None and known is not None and known[0] == signature:
            return known[1]
        found = self._solve(terms, parties, moving)
        if not isinstance(found, Blocker):
            return found
        blocked = Blocked(found, self._hopeless(unit, terms, parties, found))
        if signature is not None:
            self._failures = {key: each for key, each in self._failures.items() if key in self._state.units}
            self._failures[unit.key] = signature, blocked
        return blocked

    def trial(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        *,
        leaving: tuple[frozenset[str], frozenset[str]],
        forbidden: frozenset[DeviceId],
        barred: tuple[tuple[int, Bar], ...],
    ) -> GangTrial | None:
        """For the choice of victims; None if the unit cannot be asked about."""
        try:
            terms, parties = self._gangs.prepare(unit, pod, now, _NOBODY, forbidden, barred)
        except InvalidConstraints:
            return None
        return GangTrial(self._state, self._gangs, self._solve, terms, parties, leaving)

    def on_empty(self, unit: Unit, now: float, nodes: Sequence[str]) -> dict[str, list[Party]] | None:
        """Who would be where if nothing ran on these nodes, best first; None if the unit does not fit on them."""
        try:
            terms, parties = self._gangs.prepare(unit, None, now, _NOBODY, NOTHING)
        except InvalidConstraints:
            return None
        terms = Terms(terms.policy, terms.group, terms.roll, empty=True, nodes=nodes)
        answer = solve_jointly(
            self._gangs.problem(terms, parties, strategy=Strategy.FirstFit), self._state.inventory.snapshot()
        )
        if not isinstance(answer, JointSolved):
            return None
        found: dict[str, list[Party]] = {}
        for party, solved in zip(parties, answer.members, strict=True):
            if solved.node is not None:
                found.setdefault(solved.node, []).append(party)
        return found

    def joint(
        self, unit: Unit, pod: Pod | None, now: float, forbidden: frozenset[DeviceId]
    ) -> tuple[Terms, list[Party], JointProblem]:
        """The problem that `place` solves, for explanations. Raises InvalidConstraints."""
        terms, parties = self._gangs.prepare(unit, pod, now, _NOBODY, forbidden)
        return terms, parties, self._gangs.problem(terms, parties)

    def candidates(self, unit: Unit) -> list[Candidates]:
        """What the unit's members could use, each sort once; empty if that cannot be said."""
        parties = self._gangs.parties(unit, None, _NOBODY)
        sorts = {tuple(claim.seen.spec_key for claim in party.todo): party for party in parties}
        found = [self.candidates_of(party) for party in sorts.values()]
        return [each for each in found if each is not None]

    def candidates_of(self, party: Party) -> Candidates | None:
        problem = Problem(claims=tuple(claim.seen.claim for claim in party.todo))
        found = candidates(problem, self._state.inventory.snapshot())
        return None if isinstance(found, Failed) else found

    # -- the answer

    def _solve(self, terms: Terms, parties: list[Party], released: frozenset[str]) -> Placed | Blocker:
        problem = self._gangs.problem(terms, parties)
        snapshot = self._state.inventory.snapshot()
        reverts = [snapshot.release(uid) for uid in sorted(released)]
        try:
            answer = solve_jointly(problem, snapshot)
        finally:
            for revert in reversed(reverts):
                revert()
        if isinstance(answer, Failed):
            return failure(answer, self._state)
        if isinstance(answer, JointUnsolved):
            return self._blocker(problem, parties, answer)
        places = tuple(
            MemberPlace(
                party.pod,
                solved.node,
                tuple(zip([claim.seen for claim in party.todo], solved.allocations, strict=True)),
            )
            for party, solved in zip(parties, answer.members, strict=True)
        )
        warnings = tuple(dict.fromkeys(str(each) for solved in answer.members for each in solved.warnings))
        warnings += tuple(self._gangs.unheeded(terms, parties))
        pairs = tuple(pair for place in places for pair in place.allocations)
        return Placed(places[0].node if len(places) == 1 else None, pairs, warnings, places)

    @staticmethod
    def _blocker(problem: JointProblem, parties: list[Party], answer: JointUnsolved) -> Blocker:
        if answer.alone is None:
            return Blocker("GroupDoesNotFit", answer.message, lacks_node=True)
        number, unsolved = answer.alone
        party = parties[number]
        misfits = [found for found in party.misfits.values() if found is not None]
        found = blocker_of_search(unsolved, problem.members[number].problem.claims, misfits)
        if len(parties) == 1:
            return found
        return Blocker(found.reason, f"{party}: {found.message}", found.final, found.lacks_node, found.held)

    # -- memory

    def _signature(self, unit: Unit, terms: Terms, parties: list[Party]) -> Hashable:
        """Equal as long as the answer must be the same."""
        placed = () if terms.roll is None else terms.roll.placed
        return (
            self._state.moment,
            terms.forbidden,
            None if terms.group is None else terms.group.spec,
            tuple((str(member), self._gangs.node_of(member)) for member in placed),
            tuple(
                (
                    str(party),
                    party.items,
                    party.barred,
                    tuple(sorted(party.avoided)),
                    tuple(claim.seen.spec_key for claim in party.todo),
                    tuple(claim.seen.uid for claim in party.fixed),
                )
                for party in parties
            ),
        )

    def _hopeless(self, unit: Unit, terms: Terms, parties: list[Party], blocker: Blocker) -> bool:
        """Would it not fit on the empty cluster either? What is placed already is not asked to move."""
        if blocker.final:
            return True
        settled = (terms.roll is not None and terms.roll.placed) or any(party.fixed for party in parties)
        if settled or blocker.reason in ("SearchBudgetExceeded", CLASS_PENDING) or self._state.republishing.under_way:
            return False
        key = (
            self._state.layout,
            None if terms.group is None else terms.group.spec,
            tuple((str(party), party.items, tuple(claim.seen.spec_key for claim in party.todo)) for party in parties),
        )
        known = self._impossible.get(unit.key)
        if known is None or known[0] != key:
            fresh = [Party(party.pod, party.todo, [], party.follows, party.items) for party in parties]
            problem = self._gangs.problem(Terms(terms.policy, terms.group, terms.roll, empty=True), fresh)
            answer = solve_jointly(problem, self._state.inventory.snapshot())
            self._impossible = {each: found for each, found in self._impossible.items() if each in self._state.units}
            # A search that ends at its budget has shown nothing.
            known = self._impossible[unit.key] = key, isinstance(answer, JointUnsolved)
        return known[1]
