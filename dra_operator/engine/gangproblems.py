"""The joint problem of a gang: who its members are, what each may be given, what ties them together.

Solved and explained in `gangplacing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator import Bar, Strategy, UnitConstraint
from dra_operator.allocator.joint import GangConstraint, JointProblem, Member, NodeTopology
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.group import ClaimGroup, CrossConstraint
from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.constraining import NamedClaim, attributes, named_claims, pod_constraints, within_unit
from dra_operator.engine.groups import GroupMember, Roll, call_roll
from dra_operator.engine.preferring import group_topology
from dra_operator.engine.problems import Misfits, Problems
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.units import Unit

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Party:
    """One member to be placed. `todo` are its claims without devices that no member before it brings along; `fixed` the others.
    `barred`: kinds of devices that claims of `todo` (by index) may not have."""

    pod: Pod | None
    todo: list[NamedClaim] = field(default_factory=list)
    fixed: list[NamedClaim] = field(default_factory=list)
    follows: list[tuple[int, int]] = field(default_factory=list)
    items: tuple[CrossConstraint, ...] = ()
    barred: tuple[tuple[int, Bar], ...] = ()
    avoided: dict[str, str] = field(default_factory=dict)
    misfits: Misfits = field(default_factory=dict)

    @property
    def allocations(self) -> list[Allocation]:
        found = (claim.seen.claim.allocation for claim in self.fixed)
        return [allocation for allocation in found if allocation is not None]

    def __str__(self) -> str:
        return f"claim {(self.todo or self.fixed)[0].seen.key}" if self.pod is None else f"pod {self.pod.key}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What all members of one attempt share."""

    policy: AllocationPolicySpec
    group: ClaimGroup | None
    roll: Roll | None
    forbidden: frozenset[DeviceId] = NOTHING
    empty: bool = False
    without: frozenset[str] = _NOBODY
    nodes: Sequence[str] | None = None


class GangProblems:
    """Makes them from the state."""

    def __init__(self, state: State, problems: Problems) -> None:
        self._state, self._problems = state, problems

    def prepare(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        moving: frozenset[str],
        forbidden: frozenset[DeviceId],
        barred: tuple[tuple[int, Bar], ...] = (),
    ) -> tuple[Terms, list[Party]]:
        """`barred`: by index among the unit's claims without devices. Raises InvalidConstraints."""
        state = self._state
        key = state.group_of(unit)
        roll = None if key is None else call_roll(state, key, now)
        _, policy = state.terms(unit)
        parties = self.parties(unit, roll, moving, pod)
        bars = self._bars(unit, moving, barred)
        for party in parties:
            party.barred = tuple(
                (number, bar) for number, claim in enumerate(party.todo) for bar in bars.get(claim.seen.key, ())
            )
            party.items = pod_constraints(party.pod, [claim.seen for claim in (*party.todo, *party.fixed)])
            party.avoided = {} if party.pod is None else state.avoided_nodes(party.pod, now)
        return Terms(policy, None if roll is None else roll.group, roll, forbidden), parties

    def _bars(self, unit: Unit, moving: frozenset[str], barred: tuple[tuple[int, Bar], ...]) -> dict[Key, list[Bar]]:
        claims = self._state.view.claims
        keys = [key for key in unit.claims if not claims[key].allocated or claims[key].uid in moving]
        found: dict[Key, list[Bar]] = {}
        for index, bar in barred:
            found.setdefault(keys[index], []).append(bar)
        return found

    def parties(self, unit: Unit, roll: Roll | None, moving: frozenset[str], pod: Pod | None = None) -> list[Party]:
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

    def problem(self, terms: Terms, parties: list[Party], *, strategy: Strategy | None = None) -> JointProblem:
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
        return JointProblem(tuple(members), self.topology(terms), tuple(links), self._room(terms, parties))

    def _member(self, terms: Terms, party: Party, own: tuple[UnitConstraint, ...], strategy: Strategy | None) -> Member:
        seen, fixed = [claim.seen for claim in party.todo], party.allocations
        problem = self._problems.of_unit(
            party.pod,
            seen,
            fixed,
            terms.policy,
            in_gang=True,
            strategy=strategy,
            fits=self._problems.fits(
                party.pod, fixed, party.avoided, party.misfits, empty=terms.empty, without=terms.without
            ),
            forbidden=terms.forbidden,
            barred=party.barred,
            constraints=own,
            empty=terms.empty,
            without=terms.without,
            nodes=terms.nodes,
        )
        alike = self._problems.signature("", party.pod, seen, fixed, tuple(sorted(party.avoided)))
        names = tuple(claim.names for claim in party.todo)
        return Member(problem, (alike, problem.constraints, party.barred, names), tuple(party.follows))

    @staticmethod
    def _reaches_fixed(party: Party, item: CrossConstraint) -> bool:
        return any(True for claim in party.fixed for _ in claim.covered(item))

    def _own_link(self, number: int, party: Party, item: CrossConstraint, terms: Terms) -> GangConstraint | None:
        """A pod's constraint that also covers claims of it that are allocated already."""
        members = tuple(
            (number, index, request) for index, claim in enumerate(party.todo) for request in claim.covered(item)
        )
        return _link(item, members, _devices(party.fixed, item), terms.policy) if members else None

    def _group_link(self, terms: Terms, parties: list[Party], item: CrossConstraint) -> GangConstraint | None:
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
        for member, going, allocation, _ in self._on_their_way(terms):
            (claim,) = named_claims(member.pod, [going])
            present += claim.devices(allocation, item)
        return _link(item, members, tuple(dict.fromkeys(present)), terms.policy) if members else None

    def topology(self, terms: Terms) -> NodeTopology | None:
        """What the group says about nodes, with where its members are already."""
        topology = None if terms.group is None else terms.group.spec.topology
        if terms.group is None or terms.roll is None:
            return None
        nodes = self._state.ledger.nodes

        def value_of(name: str, key: str) -> str | None:
            node = nodes.get(name)
            return None if node is None else node.labels.get(key)

        placed = [self.node_of(member) for member in terms.roll.placed]
        going = {member.uid: node for member, _, _, node in self._on_their_way(terms)}
        places = [name for name in (*placed, *going.values()) if name is not None]
        if topology is None:
            return group_topology(terms.policy, value_of, places)
        key = topology.key
        present = tuple(value_of(name, key) for name in places)
        return NodeTopology(topology.mode, lambda name: value_of(name, key), present, key)

    def _on_their_way(self, terms: Terms) -> Iterator[tuple[GroupMember, SeenClaim, Allocation, str | None]]:
        """Members that were placed a moment ago, which our watch has not shown yet, with what is written and the node: the next ones go
        by them as well."""
        state = self._state
        for member in () if terms.roll is None else terms.roll.waiting:
            for key in member.claims:
                seen = state.view.claims.get(key)
                write = None if seen is None else state.writes.get(seen.uid)
                allocation = None if write is None else write.assumed
                if seen is not None and write is not None and allocation is not None:
                    yield member, seen, allocation, write.node

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

    def _room(self, terms: Terms, parties: list[Party]) -> Callable[[str, tuple[int, ...]], bool]:
        ledger = self._state.ledger

        def room(name: str, members: tuple[int, ...]) -> bool:
            pods = [pod for number in members if (pod := parties[number].pod) is not None]
            return ledger.together(pods, name, empty=terms.empty, without=terms.without)

        return room

    @staticmethod
    def unheeded(terms: Terms, parties: list[Party]) -> list[str]:
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
