"""Placing the members of a ClaimGroup together, and later ones where the group is: problems for the joint solver, and what it said.

One pod goes this way as well where constraints tie it to devices that are allocated already: its group's, or its own of before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator import Candidates, Failed, Problem, Strategy, UnitConstraint, candidates
from dra_operator.allocator.joint import (
    GangConstraint,
    JointProblem,
    JointSolved,
    JointUnsolved,
    Member,
    NodeTopology,
    solve_jointly,
)
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION, ClaimGroup, CrossConstraint
from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.constraining import (
    InvalidConstraints,
    NamedClaim,
    attributes,
    named_claims,
    pod_constraints,
    within_unit,
)
from dra_operator.engine.groups import GroupMember, Roll, call_roll
from dra_operator.engine.placements import Blocked, MemberPlace, Placed
from dra_operator.engine.problems import Misfits, Problems
from dra_operator.engine.state import State
from dra_operator.explain.summary import Blocker, blocker_of_failure, blocker_of_search
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.units import Unit, UnitKey

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Party:
    """One member to be placed. `todo` are its claims without devices that no member before it brings along; `fixed` the others."""

    pod: Pod | None
    todo: list[NamedClaim] = field(default_factory=list)
    fixed: list[NamedClaim] = field(default_factory=list)
    follows: list[tuple[int, int]] = field(default_factory=list)
    items: tuple[CrossConstraint, ...] = ()
    avoided: dict[str, str] = field(default_factory=dict)
    misfits: Misfits = field(default_factory=dict)

    @property
    def allocations(self) -> list[Allocation]:
        found = (claim.seen.claim.allocation for claim in self.fixed)
        return [allocation for allocation in found if allocation is not None]

    def __str__(self) -> str:
        return f"claim {self.todo[0].seen.key}" if self.pod is None else f"pod {self.pod.key}"


@dataclass(frozen=True, slots=True)
class Need:
    """What a gang would take if others went: nodes, devices, and who would be where."""

    nodes: tuple[str, ...]
    devices: frozenset[DeviceId]
    placed: Placed


@dataclass(frozen=True, slots=True)
class _Terms:
    """What all members of one attempt share."""

    policy: AllocationPolicySpec
    group: ClaimGroup | None
    roll: Roll | None
    forbidden: frozenset[DeviceId] = NOTHING
    empty: bool = False
    without: frozenset[str] = _NOBODY
    nodes: Sequence[str] | None = None


class GangPlacer:
    """Part of the Placer, which decides when it is asked (`concerns`)."""

    def __init__(self, state: State, problems: Problems) -> None:
        self._state, self._problems = state, problems
        self._failures: dict[UnitKey, tuple[Hashable, Blocked]] = {}
        self._impossible: dict[UnitKey, tuple[Hashable, bool]] = {}

    # -- whose business

    def group_of(self, unit: Unit) -> Key | None:
        """The group the unit is, or is a member of."""
        if unit.key.kind == "group":
            return unit.key.subject
        return self._state.groups.of(unit.key.kind, unit.key.subject)

    def concerns(self, unit: Unit, pod: Pod | None) -> bool:
        """Does placing the unit take more than a look at its own claims?"""
        if unit.key.kind == "group":
            return True
        if pod is not None and pod.node_name is not None:
            return False
        key = self.group_of(unit)
        group = None if key is None else self._state.groups.get(key)
        if group is not None and (group.spec.topology is not None or group.spec.constraints):
            return True
        if pod is None or not pod.meta.annotations.get(CONSTRAINTS_ANNOTATION):
            return False
        return any(self._state.view.claims[each].allocated for each in unit.claims)

    # -- placing

    def place(
        self, unit: Unit, pod: Pod | None, now: float, *, moving: frozenset[str], forbidden: frozenset[DeviceId]
    ) -> Placed | Blocked:
        """Places for all members of the unit, or why not."""
        try:
            terms, parties = self._prepare(unit, pod, now, moving, forbidden)
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

    def need(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        *,
        released: frozenset[str],
        gone: frozenset[str],
        forbidden: frozenset[DeviceId] = NOTHING,
    ) -> Need | None:
        """What the unit would take if the claims `released` (UIDs) gave their devices back and the pods `gone` (UIDs) were away;
        None if it would not fit even then. For the choice of a gang's victims: nothing is remembered or noted."""
        try:
            terms, parties = self._prepare(unit, pod, now, _NOBODY, forbidden, gone)
        except InvalidConstraints:
            return None
        found = self._solve(terms, parties, released)
        if isinstance(found, Blocker):
            return None
        places = found.places(pod)
        devices = frozenset(
            DeviceId(result.driver, result.pool, result.device)
            for place in places
            for _, allocation in place.allocations
            for result in allocation.results
            if not result.admin_access
        )
        nodes = tuple(dict.fromkeys(place.node for place in places if place.node is not None))
        return Need(nodes, devices, found)

    def on_empty(self, unit: Unit, now: float, nodes: Sequence[str]) -> dict[str, list[Party]] | None:
        """Who would be where if nothing ran on these nodes, best first; None if the unit does not fit on them."""
        try:
            terms, parties = self._prepare(unit, None, now, _NOBODY, NOTHING)
        except InvalidConstraints:
            return None
        terms = _Terms(terms.policy, terms.group, terms.roll, empty=True, nodes=nodes)
        answer = solve_jointly(
            self._problem(terms, parties, strategy=Strategy.FirstFit), self._state.inventory.snapshot()
        )
        if not isinstance(answer, JointSolved):
            return None
        found: dict[str, list[Party]] = {}
        for party, solved in zip(parties, answer.members, strict=True):
            if solved.node is not None:
                found.setdefault(solved.node, []).append(party)
        return found

    def candidates(self, unit: Unit) -> list[Candidates]:
        """What the unit's members could use, each sort once; empty if that cannot be said."""
        parties = self._parties(unit, None, _NOBODY)
        sorts = {tuple(claim.seen.spec_key for claim in party.todo): party for party in parties}
        found = [self.candidates_of(party) for party in sorts.values()]
        return [each for each in found if each is not None]

    def candidates_of(self, party: Party) -> Candidates | None:
        problem = Problem(claims=tuple(claim.seen.claim for claim in party.todo))
        found = candidates(problem, self._state.inventory.snapshot())
        return None if isinstance(found, Failed) else found

    # -- the problem

    def _prepare(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        moving: frozenset[str],
        forbidden: frozenset[DeviceId],
        without: frozenset[str] = _NOBODY,
    ) -> tuple[_Terms, list[Party]]:
        """Raises InvalidConstraints."""
        state = self._state
        key = self.group_of(unit)
        roll = None if key is None else call_roll(state, key, now)
        _, policy = state.terms(unit)
        parties = self._parties(unit, roll, moving, pod)
        for party in parties:
            party.items = pod_constraints(party.pod, [claim.seen for claim in (*party.todo, *party.fixed)])
            party.avoided = {} if party.pod is None else state.avoided_nodes(party.pod, now)
        return _Terms(policy, None if roll is None else roll.group, roll, forbidden, without=without), parties

    def _parties(self, unit: Unit, roll: Roll | None, moving: frozenset[str], pod: Pod | None = None) -> list[Party]:
        state = self._state
        parties: list[Party] = []
        owners: dict[Key, tuple[int, int]] = {}
        for number, (member, keys) in enumerate(self._members(unit, roll, pod)):
            seen = [state.view.claims[key] for key in keys]
            party = Party(member)
            for claim in named_claims(member, seen):
                if claim.seen.allocated and claim.seen.uid not in moving:
                    party.fixed.append(claim)
                elif claim.seen.key in owners:
                    party.follows.append(owners[claim.seen.key])
                else:
                    owners[claim.seen.key] = number, len(party.todo)
                    party.todo.append(claim)
            parties.append(party)
        return parties

    def _members(self, unit: Unit, roll: Roll | None, pod: Pod | None) -> list[tuple[Pod | None, tuple[Key, ...]]]:
        if unit.key.kind != "group":
            return [(pod, unit.claims)]
        mine = set(unit.claims)
        roll = roll or call_roll(self._state, unit.key.subject, 0.0)
        return [(member.pod, member.claims) for member in roll.waiting if mine.issuperset(member.claims)]

    def _problem(self, terms: _Terms, parties: list[Party], *, strategy: Strategy | None = None) -> JointProblem:
        members = []
        links: list[GangConstraint] = []
        for number, party in enumerate(parties):
            own = [item for item in party.items if not self._reaches_fixed(party, item)]
            for item in party.items:
                link = None if item in own else self._own_link(number, party, item, terms)
                if link is not None:
                    links.append(link)
            members.append(self._member(terms, party, within_unit(own, party.todo, terms.policy), strategy))
        if terms.group is not None:
            for item in terms.group.spec.constraints:
                link = self._group_link(terms, parties, item)
                if link is not None:
                    links.append(link)
        return JointProblem(tuple(members), self._topology(terms), tuple(links), self._room(terms, parties))

    def _member(
        self, terms: _Terms, party: Party, own: tuple[UnitConstraint, ...], strategy: Strategy | None
    ) -> Member:
        policy = terms.policy
        problem = self._problems.problem(
            party.pod,
            [claim.seen for claim in party.todo],
            party.allocations,
            party.avoided,
            party.misfits,
            strategy=strategy or Strategy(policy.placement.strategy),
            forbidden=terms.forbidden,
            constraints=own,
            empty=terms.empty,
            without=terms.without,
            nodes=terms.nodes,
        )
        seen = [claim.seen for claim in party.todo]
        alike = self._problems.signature("", party.pod, seen, party.allocations, tuple(sorted(party.avoided)))
        return Member(problem, (alike, own, tuple(claim.names for claim in party.todo)), tuple(party.follows))

    @staticmethod
    def _reaches_fixed(party: Party, item: CrossConstraint) -> bool:
        return any(True for claim in party.fixed for _ in claim.covered(item))

    def _own_link(self, number: int, party: Party, item: CrossConstraint, terms: _Terms) -> GangConstraint | None:
        """A pod's constraint that also covers claims of it that are allocated already."""
        members = tuple(
            (number, index, request) for index, claim in enumerate(party.todo) for request in claim.covered(item)
        )
        return _link(item, members, _devices(party.fixed, item), terms.policy) if members else None

    def _group_link(self, terms: _Terms, parties: list[Party], item: CrossConstraint) -> GangConstraint | None:
        members = tuple(
            (number, index, request)
            for number, party in enumerate(parties)
            for index, claim in enumerate(party.todo)
            for request in claim.covered(item)
        )
        present = [device for party in parties for device in _devices(party.fixed, item)]
        for member in () if terms.roll is None else terms.roll.placed:
            seen = [self._state.view.claims[key] for key in member.claims if key in self._state.view.claims]
            present += _devices(named_claims(member.pod, seen), item)
        return _link(item, members, tuple(dict.fromkeys(present)), terms.policy) if members else None

    def _topology(self, terms: _Terms) -> NodeTopology | None:
        topology = None if terms.group is None else terms.group.spec.topology
        if topology is None or terms.roll is None:
            return None
        key, nodes = topology.key, self._state.ledger.nodes

        def value(name: str) -> str | None:
            node = nodes.get(name)
            return None if node is None else node.labels.get(key)

        places = (self.node_of(member) for member in terms.roll.placed)
        present = tuple(value(name) for name in places if name is not None)
        return NodeTopology(topology.mode, value, present, key)

    def node_of(self, member: GroupMember) -> str | None:
        """Where a placed member is, or is going."""
        state = self._state
        if member.pod is not None:
            name = member.pod.node_name or state.ledger.place_of(member.pod.meta.uid)
            if name is not None:
                return name
        for key in member.claims:
            seen = state.view.claims.get(key)
            if seen is not None and seen.claim.allocation is not None:
                name = state.only_node(seen.claim.allocation)
                if name is not None:
                    return name
        return None

    def _room(self, terms: _Terms, parties: list[Party]) -> Callable[[str, tuple[int, ...]], bool]:
        ledger = self._state.ledger

        def room(name: str, members: tuple[int, ...]) -> bool:
            pods = [pod for number in members if (pod := parties[number].pod) is not None]
            return ledger.together(pods, name, empty=terms.empty, without=terms.without)

        return room

    # -- the answer

    def _solve(self, terms: _Terms, parties: list[Party], released: frozenset[str]) -> Placed | Blocker:
        problem = self._problem(terms, parties)
        snapshot = self._state.inventory.snapshot()
        reverts = [snapshot.release(uid) for uid in sorted(released)]
        try:
            answer = solve_jointly(problem, snapshot)
        finally:
            for revert in reversed(reverts):
                revert()
        if isinstance(answer, Failed):
            return blocker_of_failure(answer)
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
        warnings += tuple(self._unheeded(terms, parties))
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

    @staticmethod
    def _unheeded(terms: _Terms, parties: list[Party]) -> list[str]:
        """Requests that a group's constraint names and no member has."""
        if terms.group is None or terms.roll is None or terms.roll.placed:
            return []
        known = {
            f"{name}/{request.name}"
            for party in parties
            for claim in (*party.todo, *party.fixed)
            for request in claim.seen.claim.spec.requests
            for name in claim.names
        }
        return [
            f"constraint #{number} of ClaimGroup {terms.group.meta.key} names request {request}, which no member has"
            for number, item in enumerate(terms.group.spec.constraints)
            for request in item.requests
            if "/".join(request.split("/")[:2]) not in known
        ]

    # -- memory

    def _signature(self, unit: Unit, terms: _Terms, parties: list[Party]) -> Hashable:
        """Equal as long as the answer must be the same."""
        placed = () if terms.roll is None else terms.roll.placed
        return (
            self._state.moment,
            terms.forbidden,
            None if terms.group is None else terms.group.spec,
            tuple((str(member), self.node_of(member)) for member in placed),
            tuple(
                (
                    str(party),
                    party.items,
                    tuple(sorted(party.avoided)),
                    tuple(claim.seen.spec_key for claim in party.todo),
                    tuple(claim.seen.uid for claim in party.fixed),
                )
                for party in parties
            ),
        )

    def _hopeless(self, unit: Unit, terms: _Terms, parties: list[Party], blocker: Blocker) -> bool:
        """Would it not fit on the empty cluster either? What is placed already is not asked to move."""
        if blocker.final:
            return True
        settled = (terms.roll is not None and terms.roll.placed) or any(party.fixed for party in parties)
        if settled or blocker.reason == "SearchBudgetExceeded":
            return False
        key = (
            self._state.layout,
            None if terms.group is None else terms.group.spec,
            tuple((str(party), party.items, tuple(claim.seen.spec_key for claim in party.todo)) for party in parties),
        )
        known = self._impossible.get(unit.key)
        if known is None or known[0] != key:
            fresh = [Party(party.pod, party.todo, [], party.follows, party.items) for party in parties]
            problem = self._problem(_Terms(terms.policy, terms.group, terms.roll, empty=True), fresh)
            answer = solve_jointly(problem, self._state.inventory.snapshot())
            self._impossible = {each: found for each, found in self._impossible.items() if each in self._state.units}
            # A search that ends at its budget has shown nothing.
            known = self._impossible[unit.key] = key, isinstance(answer, JointUnsolved)
        return known[1]


def _devices(claims: Sequence[NamedClaim], item: CrossConstraint) -> tuple[DeviceId, ...]:
    found: list[DeviceId] = []
    for claim in claims:
        if claim.seen.claim.allocation is not None:
            found += claim.devices(claim.seen.claim.allocation, item)
    return tuple(found)


def _link(
    item: CrossConstraint,
    members: tuple[tuple[int, int, str], ...],
    present: tuple[DeviceId, ...],
    policy: AllocationPolicySpec,
) -> GangConstraint:
    return GangConstraint(
        members,
        attributes(item, policy),
        distinct=item.match_attribute is None,
        required=item.mode == "Required",
        present=present,
    )
