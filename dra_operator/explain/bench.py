"""The bench on which drafts are tried: whether the unit fits once something is changed.

Every draft is solved on the snapshot and taken back; nothing of it stays but the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dra_operator.allocator import Failed, Problem, Solved, Strategy, Trial, attempt, solve, trial
from dra_operator.allocator.joint import JointProblem, JointSolved, solve_jointly
from dra_operator.allocator.memory import memory_of
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.explain.drafts import Draft
from dra_operator.explain.joining import joined, open_to
from dra_operator.explain.looking import Look, Place
from dra_operator.explain.situation import Ahead, Gang, NodeFit, Situation
from dra_operator.inventory.snapshot import Revert
from dra_operator.inventory.views import NodeRecord


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work looking for fixes may be. `drafts` are tried at most, each on `spots` kinds of nodes, with `steps` of search.

    `places`: nodes on which somebody's devices are freed to see whether that helps. `ahead`: units before it in the queue that are
    served first by what comes free; if there are more of them, nothing is told of such changes. `learn`: may attributes be compared that
    nobody compares so far? Equal nodes are told apart by them from then on, which a running operator does not want.
    """

    drafts: int
    spots: int
    steps: int
    places: int
    ahead: int
    learn: bool


#: Beside the allocation of others.
BRIEF = Effort(drafts=32, spots=64, steps=10_000, places=4, ahead=8, learn=False)
#: For somebody who asked.
THOROUGH = Effort(drafts=240, spots=100_000, steps=100_000, places=16, ahead=64, learn=True)


@dataclass(frozen=True, slots=True)
class Fits:
    """The unit fits on `nodes` (none: bare claims with devices that any node reaches). `allocations` only where somebody asks for them."""

    nodes: tuple[str, ...] = ()
    allocations: tuple[Allocation, ...] = ()


class Bench:
    """Tries drafts on the situation's snapshot. `left`: how many more may be tried."""

    def __init__(self, situation: Situation, look: Look | None, effort: Effort) -> None:
        self.situation, self.effort = situation, effort
        self.snapshot = situation.snapshot
        self.left = effort.drafts
        self._groups = _groups(look.places) if look is not None else None
        self.tried = 0
        #: Nodes with devices that the draft under trial releases.
        self._touched: tuple[str, ...] = ()
        ahead = situation.ahead(effort.ahead + 1)
        self.ahead = ahead[: effort.ahead]
        self.crowded = situation.behind_for_quota or len(ahead) > effort.ahead

    @property
    def start(self) -> Draft:
        """Nothing changed."""
        return Draft(self.situation.problem, self.situation.pod)

    def fits(self, draft: Draft) -> Fits | None:
        """Where the unit fits once changed; None if nowhere, or if that could not be found out."""
        self.left -= 1
        self.tried += 1
        if draft.helps_others and self.crowded:
            return None
        found = self._solve(draft)
        permits = self.situation.permits
        if found is None or permits is None:
            return found
        claims = draft.problem.claims[: len(found.allocations)]
        return None if permits(claims, found.allocations, draft.released) else found

    def without_budgets(self) -> Fits | None:
        """Where the unit fits as things are, but for quotas and reservations."""
        problem, kept = self.situation.problem, self.situation.kept
        reserved = {device for device in problem.forbidden if (found := kept(device)) is not None and found.reserved}
        if not reserved:
            return self._solve(self.start)
        return self._solve(replace(self.start, problem=replace(problem, forbidden=problem.forbidden - reserved)))

    @property
    def reserved(self) -> bool:
        """Are there devices that reservations keep from the unit?"""
        kept = self.situation.kept
        return any(
            (found := kept(device)) is not None and found.reserved for device in self.situation.problem.forbidden
        )

    def _solve(self, draft: Draft) -> Fits | None:
        with self._changed(draft) as problem:
            if draft.another_node:
                return self._on_another_node(problem, draft)
            if self.situation.gang is not None:
                return self._jointly(problem, draft)
            if problem.strategy is Strategy.FirstFit:
                return self._first_fit(problem, draft)
            asked = trial(problem, self.snapshot)
            if isinstance(asked, Failed):
                return None
            try:
                return self._search(asked, draft)
            finally:
                self._forget(problem)

    def fits_on(self, draft: Draft, record: NodeRecord) -> bool:
        """Does it fit on this node? Does not count as a draft tried."""
        if self.misfits(draft, record.name) or (draft.helps_others and self.crowded):
            return False
        with self._changed(draft) as problem:
            asked = trial(problem, self.snapshot)
            return not isinstance(asked, Failed) and asked.fits(record)

    def places_fitting(self, draft: Draft) -> int:
        """On how many nodes it fits."""
        count = 0
        with self._changed(draft) as problem:
            asked = trial(problem, self.snapshot)
            if isinstance(asked, Failed):
                return 0
            for records in self._spots():
                if asked.fits(records[0]):
                    count += sum(not self.misfits(draft, record.name) for record in records)
            self._forget(problem)
        return count

    def misfits(self, draft: Draft, node: str) -> bool:
        """Whether the pod cannot run there, whatever devices there are."""
        nodes = draft.problem.nodes
        if nodes is not None and node not in nodes:
            return True
        if draft.pod is None or self.situation.misfit is None:
            return False
        return self.situation.misfit(open_to(draft.uncordoned, draft.pod, node), node, draft.gone) is not None

    def _search(self, asked: Trial, draft: Draft) -> Fits | None:
        for number, records in enumerate(self._spots()):
            if number >= self.effort.spots:
                return None
            if not asked.fits(records[0]):
                continue
            record = next((record for record in records if not self.misfits(draft, record.name)), None)
            if record is not None:
                return Fits((record.name,), () if self.situation.permits is None else asked.allocations(record))
        return None

    def _spots(self) -> Iterator[list[NodeRecord]]:
        """Nodes in the same state together. Those where something is released first, each by itself."""
        inventory, touched = self.snapshot.inventory, self._touched
        for name in touched:
            yield [inventory.nodes[name]]
        if self._groups is None:
            yield from ([inventory.nodes[name] for name in state.nodes] for state in inventory.states.populated())
            return
        for records in self._groups:
            rest = [record for record in records if record.name not in touched] if touched else records
            if rest:
                yield rest

    def _jointly(self, problem: Problem, draft: Draft) -> Fits | None:
        gang = self.situation.gang
        assert gang is not None
        if gang.lacking(len((draft.joint or gang.joint).members), draft.least):
            return None
        joint = joined(gang, draft.joint or gang.joint, problem, draft.pods, draft.uncordoned, draft.gone)
        found = solve_jointly(joint, self.snapshot)
        for member in joint.members:
            self._forget(member.problem)
        if not isinstance(found, JointSolved):
            return None
        nodes = sorted({solved.node for solved in found.members if solved.node is not None})
        return Fits(tuple(nodes), tuple(each for solved in found.members for each in solved.allocations))

    def _first_fit(self, problem: Problem, draft: Draft) -> Fits | None:
        found = attempt(replace(problem, fits=lambda name: not self.misfits(draft, name), cost=None), self.snapshot)
        self._forget(problem)
        return None if found is None else Fits(_one(found.node), found.allocations)

    def _on_another_node(self, problem: Problem, draft: Draft) -> Fits | None:
        """On an empty node like one that exists; its devices must be its own, for only those would come with it."""
        if self.situation.permits is not None or self.situation.gang is not None:
            return None  # nobody can tell which budgets devices count to that are not there
        found = self._on_empty(problem, draft.pod)
        self._forget(problem)
        return found

    def _on_empty(self, problem: Problem, pod: Pod | None, node: str | None = None) -> Fits | None:
        misfit = self.situation.empty_misfit
        found = solve(
            replace(
                problem,
                nodes=None if node is None else [node],
                fits=None if pod is None or misfit is None else lambda name: misfit(pod, name) is None,
                cost=None,
                forbidden=frozenset(),
                ignore_usage=True,
            ),
            self.snapshot,
        )
        if not isinstance(found, Solved) or found.node is None:
            return None
        return Fits((found.node,)) if self._own_devices(found.node, found.allocations) else None

    def nodes_needed(self, node: str) -> int:
        """How many empty nodes like this one are enough for the unit, however those before it share in them."""
        return 1 + sum(self._on_empty(other.problem, other.pod, node) is not None for other in self.ahead)

    def members_on_empty(self, limit: int) -> tuple[str, int] | None:
        """An empty node on which most members of the gang fit, and how many (`limit` at most); they are all alike."""
        gang = self.situation.gang
        assert gang is not None
        best: tuple[str, int] | None = None
        for records in self._spots():
            count = 0
            while count < limit and self._together_on_empty(gang, records[0].name, count + 1):
                count += 1
            if count and (best is None or count > best[1]):
                best = records[0].name, count
        return best

    def _together_on_empty(self, gang: Gang, node: str, count: int) -> bool:
        misfit = self.situation.empty_misfit
        pods = [member.pod for member in gang.members[:count] if member.pod is not None]
        if misfit is None or any(misfit(pod, node) is not None for pod in pods) or not gang.room_on_empty(pods, node):
            return False
        members = [
            replace(
                member,
                problem=replace(
                    member.problem, nodes=[node], fits=None, cost=None, forbidden=frozenset(), ignore_usage=True
                ),
            )
            for member in gang.joint.members[:count]
        ]
        found = solve_jointly(JointProblem(tuple(members), work_budget=self.effort.steps), self.snapshot)
        return isinstance(found, JointSolved) and all(
            self._own_devices(node, solved.allocations) for solved in found.members
        )

    def _own_devices(self, node: str, allocations: tuple[Allocation, ...]) -> bool:
        """Only these come with another node like it."""
        own = {tuple(offer.id) for offer in self.snapshot.inventory.nodes[node].offers if offer.home == node}
        taken = {(item.driver, item.pool, item.device) for each in allocations for item in each.results}
        return taken <= own

    # -- changing and taking back ----------------------------------------------------------------------------------

    @contextmanager
    def _changed(self, draft: Draft) -> Iterator[Problem]:
        problem = replace(draft.problem, work_budget=min(draft.problem.work_budget, self.effort.steps))
        inventory = self.snapshot.inventory
        before = {name: inventory.classes.get(name) for name in draft.classes}
        if draft.classes:
            # Specs of its own, so that what is known of the real ones, with the real classes, is not lost.
            claims = tuple(replace(claim, spec=replace(claim.spec)) for claim in problem.claims)
            problem = replace(problem, claims=claims)
        self._touched = self._homes(draft.released)
        reverts = [self.snapshot.release(uid) for uid in sorted(draft.released)]
        inventory.classes.update(draft.classes)
        try:
            if draft.helps_others and not draft.another_node:
                problem = self._serve_others(problem, draft, reverts)
            yield problem
        finally:
            for name, device_class in before.items():
                if device_class is None:
                    del inventory.classes[name]
                else:
                    inventory.classes[name] = device_class
            for revert in reversed(reverts):
                revert()

    def _serve_others(self, problem: Problem, draft: Draft, reverts: list[Revert]) -> Problem:
        """Those before the unit get what they can use of the change; what was held for them is free then."""
        for number, other in enumerate(self.ahead):
            found = self._served(other, draft)
            if found is not None:
                for index, allocation in enumerate(found):
                    reverts.append(self.snapshot.use(f"ahead {number}/{index}", allocation))
                if other.held and problem.forbidden & other.held:
                    problem = replace(problem, forbidden=problem.forbidden - other.held)
        return problem

    def _served(self, other: Ahead, draft: Draft) -> tuple[Allocation, ...] | None:
        """What a unit gets with the change that the draft makes; None if it does not fit."""
        theirs = other.problem
        if draft.classes:
            theirs = replace(theirs, claims=tuple(replace(claim, spec=replace(claim.spec)) for claim in theirs.claims))
        forget: list[Problem] = [theirs] if draft.classes else []
        pod, misfit = other.pod, other.misfit
        if other.gang is not None:
            joint = joined(other.gang, other.gang.joint, theirs, {}, draft.uncordoned, draft.gone)
            forget = [member.problem for member in joint.members] if draft.classes else []
            solved = solve_jointly(joint, self.snapshot)
            found = (
                [each for member in solved.members for each in member.allocations]
                if isinstance(solved, JointSolved)
                else None
            )
        else:
            if pod is not None and misfit is not None:

                def fits(name: str, pod: Pod = pod, misfit: NodeFit = misfit) -> bool:
                    return misfit(open_to(draft.uncordoned, pod, name), name, draft.gone) is None

                theirs = replace(theirs, fits=fits, cost=None)
            answer = attempt(theirs, self.snapshot)
            found = None if answer is None else list(answer.allocations)
        for problem in forget:
            memory_of(self.snapshot.inventory).forget(problem)
        return None if found is None else tuple(found)

    def _homes(self, claims: frozenset[str]) -> tuple[str, ...]:
        inventory = self.snapshot.inventory
        homes: dict[str, None] = {}
        for uid in sorted(claims):
            for use in inventory.usage.by_claim.get(uid, ()):
                offer = inventory.offer(use.device)
                record = None if offer is None or offer.home is None else inventory.nodes.get(offer.home)
                if record is not None and record.state is not None:
                    homes[record.name] = None
        return tuple(homes)

    def _forget(self, problem: Problem) -> None:
        real = {id(claim.spec) for claim in self.situation.problem.claims}
        if not all(id(claim.spec) in real for claim in problem.claims) or problem.constraints != (
            self.situation.problem.constraints
        ):
            memory_of(self.snapshot.inventory).forget(problem)


def _one(node: str | None) -> tuple[str, ...]:
    return () if node is None else (node,)


def _groups(places: list[Place]) -> list[list[NodeRecord]]:
    """Nodes that share every answer, those that the unit can run on and with most to offer first."""
    found: dict[int, list[Place]] = {}
    for place in places:
        found.setdefault(id(place.spot), []).append(place)
    groups = sorted(
        found.values(),
        key=lambda group: (
            all(place.misfit is not None for place in group),
            -sum(mask.bit_count() for mask in group[0].spot.usable),
            -sum(mask.bit_count() for mask in group[0].spot.fitting),
            group[0].record.name,
        ),
    )
    return [[place.record for place in group] for group in groups]
