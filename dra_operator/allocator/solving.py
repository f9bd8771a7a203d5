"""`solve`: choose a node and devices for a unit.

The order: check the claims, ask the index for states that solve them, best first, and of these take the first node that will do.
Nodes are looked at one by one only where a caller's own conditions (`nodes`, `fits`, `cost`, held devices) ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, NamedTuple

from dra_operator.allocator.failures import failed_by, unusable_pools
from dra_operator.allocator.index import Answer, Index, index_of
from dra_operator.allocator.memory import Known, Memory, Stopped, memory_of
from dra_operator.allocator.ordering import Ordering, orderings_of
from dra_operator.allocator.problem import Failed, Problem, Result, Solved, Strategy, Unsolved
from dra_operator.allocator.scoring import Score
from dra_operator.allocator.search import Work
from dra_operator.allocator.statistics import Survey, warnings_of
from dra_operator.inventory import DeviceId, Inventory, Snapshot
from dra_operator.inventory.views import NodeRecord

#: Up to so many candidate nodes are looked at one by one.
_FEW = 32


class Place(NamedTuple):
    """A node, what to take there, and how good that is."""

    record: NodeRecord
    answer: Answer
    rank: Score | None


_NOBODY: frozenset[DeviceId] = frozenset()
_NOTHING_HELD: tuple[dict[str, int], frozenset[DeviceId]] = ({}, _NOBODY)


def solve(problem: Problem, snapshot: Snapshot) -> Result:
    """Allocate the problem's claims on one node of the snapshot, or say why not. Deterministic."""
    inventory = snapshot.inventory
    memory = memory_of(inventory)
    known = memory.known(problem)
    if isinstance(known, Failed):
        return known
    if problem.admin_access is not None:
        refused = _refused_admin(problem, known)
        if refused is not None:
            return refused
    work = Work(problem.work_budget)
    found = _best_state(problem, inventory, memory, known, work)
    return _Solver(problem, inventory, memory, known, work).solve() if found is None else found


def _best_state(problem: Problem, inventory: Inventory, memory: Memory, known: Known, work: Work) -> Result | None:
    """The answer where nodes of one state differ by their names alone and one state is best, or none will do; None: it takes a
    closer look."""
    strategy = problem.strategy
    if (
        problem.nodes is not None
        or problem.fits is not None
        or problem.cost is not None
        or problem.wish is not None
        or (problem.rooms is not None and strategy is Strategy.Fragmentation)
        or problem.ignore_usage
        or strategy is Strategy.FirstFit
    ):
        return None
    held, homeless = memory.held(problem.forbidden) if problem.forbidden else _NOTHING_HELD
    if held:
        return None
    outlook = memory.outlook(problem.demand) if strategy is Strategy.Fragmentation else None
    index = index_of(known, strategy, outlook, homeless)
    index.catch_up(work)
    answer = index.top()
    if answer is not None:
        return _solved(problem, inventory, known, inventory.nodes[answer.state.nodes[0]], answer)
    if not index.hopeless:
        return None
    failed = index.unsolved
    if failed is None or failed[0] != inventory.version:
        solver = _Solver(problem, inventory, memory, known, work)
        failed = index.unsolved = inventory.version, solver.unsolved()
    return failed[1]


def attempt(problem: Problem, snapshot: Snapshot) -> Solved | None:
    """As `solve`, but without the work of saying why not."""
    inventory = snapshot.inventory
    memory = memory_of(inventory)
    known = memory.known(problem)
    if isinstance(known, Failed):
        return None
    if problem.admin_access is not None and _refused_admin(problem, known) is not None:
        return None
    place = _Solver(problem, inventory, memory, known, Work(problem.work_budget)).place()
    if place is None or isinstance(place, Failed):
        return None
    return _solved(problem, inventory, known, place.record, place.answer)


def _refused_admin(problem: Problem, known: Known) -> Failed | None:
    assert problem.admin_access is not None
    for way in known.plan.ways:
        claim = problem.claims[way.claim]
        if way.admin and not problem.admin_access(claim.meta.namespace):
            return Failed(
                "claim",
                f"claim {claim.key}, request {way.name}: admin access needs the label "
                f'resource.kubernetes.io/admin-access: "true" on namespace {claim.meta.namespace}',
                claim=str(claim.key),
                request=way.name,
            )
    return None


class _Solver:
    """The closer look at single nodes."""

    def __init__(self, problem: Problem, inventory: Inventory, memory: Memory, known: Known, work: Work) -> None:
        self.problem, self.inventory, self.memory, self.known = problem, inventory, memory, known
        self.work = work
        self.exhausted = False
        self.unfit: set[str] = set()
        self.held, self.homeless = memory.held(problem.forbidden) if problem.forbidden else _NOTHING_HELD
        self.allowed = None if problem.nodes is None else frozenset(problem.nodes)
        minds = problem.strategy is Strategy.Fragmentation
        self.rooms = problem.rooms if minds and not problem.ignore_usage else None
        self.outlook = memory.outlook(problem.demand, self.rooms) if minds else None

    def solve(self) -> Result:
        place = self.place()
        if isinstance(place, Failed):
            return place
        if place is not None:
            return _solved(self.problem, self.inventory, self.known, place.record, place.answer)
        return self.unsolved()

    def place(self) -> Place | Failed | None:
        """The node and what to take there."""
        problem = self.problem
        if problem.ignore_usage:
            return self._on_empty()
        if problem.strategy is Strategy.FirstFit:
            return self._first()
        if problem.nodes is not None and len(problem.nodes) <= _FEW:
            return self._best_of(self._each(problem.nodes))
        return self._best()

    # -- choosing a node -------------------------------------------------------------------------------------------

    def _index(self) -> Index:
        index = index_of(self.known, self.problem.strategy, self.outlook, self.homeless)
        index.catch_up(self.work)
        self.exhausted = self.exhausted or bool(index.unfinished)
        return index

    def _first(self) -> Place | Failed | None:
        """FirstFit: the first node in order that has a solution or an error."""
        index = self._index()
        excluded: tuple[NodeRecord, Answer] | None = None
        for name in self._names_in_order(index):
            record = self.inventory.nodes.get(name)
            if record is None or record.state is None:
                continue
            answer = self._answer(index, record)
            if answer is None:
                continue
            if answer.excluded is not None and excluded is None:
                excluded = record, answer
            if (answer.choice is None and answer.trouble is None) or not self._fits(name):
                continue
            if answer.trouble is not None:
                return failed_by(answer.trouble, answer.table, record, self.problem)
            return Place(record, answer, answer.rank)
        if self.exhausted:
            return None
        if excluded is not None:
            record, answer = excluded
            assert answer.excluded is not None
            return failed_by(answer.excluded, answer.table, record, self.problem)
        return unusable_pools(self.problem, self.inventory, self.known.plan)

    def _names_in_order(self, index: Index) -> Iterator[str]:
        if self.problem.nodes is not None:
            yield from self.problem.nodes
            return
        lists = [answer.state.nodes for answer in index.ready()]
        if self.held:
            lists.append(sorted(self.held))
        if not lists:
            # Nobody solves it: look for an error to report.
            yield from self._one_of_each()
            return
        last = None
        for name in merge(*lists):
            if name != last:
                yield name
            last = name

    def _one_of_each(self) -> Iterator[str]:
        for state in self.inventory.states.populated():
            yield state.nodes[0]

    def _best(self) -> Place | None:
        """The best group of nodes with one that will do; where a node costs something, also nodes of the next best groups."""
        index = self._index()
        chosen = self._best_of(self._each(sorted(self.held))) if self.held else None
        order = None if chosen is None else self._order(chosen)
        for rank, answer, names in self._groups(index):
            if order is not None and self._at_best(rank) > order[:5]:
                # No node of this group, nor of worse ones, can be better.
                break
            for name in self._acceptable(names):
                place = Place(self.inventory.nodes[name], answer, rank)
                its = self._order(place)
                if order is None or its < order:
                    chosen, order = place, its
                if its[:5] == self._at_best(rank):
                    # Of nodes in one group that cost nothing the first by name is best.
                    break
        return chosen

    def _groups(self, index: Index) -> Iterator[tuple[Score, Answer, list[str]]]:
        """Nodes that are alike, best first."""
        ordering = self._ordering(index)
        if ordering is None:
            for answer in index.in_order():
                assert answer.rank is not None
                yield answer.rank, answer, answer.state.nodes
        else:
            ordering.catch_up(self.work)
            self.exhausted = self.exhausted or bool(ordering.unfinished)
            for rank, answer, situation in ordering.in_order():
                yield rank, answer, situation.nodes

    def _ordering(self, index: Index) -> Ordering | None:
        """Where what is left beside devices counts. Devices that no node has to itself strand nowhere."""
        if self.rooms is None or self.outlook is None or self.known.shared_pools:
            return None
        situations = self.memory.situations(self.rooms)
        return orderings_of(self.inventory).of(index, self.outlook, situations, self.problem.beside)

    def _at_best(self, rank: Score) -> tuple[Any, ...]:
        """The order of a node of this rank that costs nothing and is most welcome, but for its name."""
        hard, (prefer, strategic, waste) = rank
        return hard, 0.0, prefer - self.problem.wish_most, strategic, waste

    def _order(self, place: Place) -> tuple[Any, ...]:
        """Smaller is better: hard preferences, cost, preferred constraints, strategy, size, name."""
        problem, name = self.problem, place.record.name
        assert place.rank is not None
        hard, (prefer, strategic, waste) = place.rank
        cost = 0.0 if problem.cost is None else problem.cost(name)
        if problem.wish is not None:
            prefer -= problem.wish(name)
        return hard, cost, prefer, strategic, waste, name

    def _acceptable(self, names: Sequence[str]) -> Iterator[str]:
        """Those that may be taken."""
        for name in names:
            if name not in self.held and (self.allowed is None or name in self.allowed) and self._fits(name):
                yield name

    def _best_of(self, places: Iterator[Place]) -> Place | None:
        chosen: Place | None = None
        for place in places:
            if place.rank is None:
                continue
            if (chosen is None or self._order(place) < self._order(chosen)) and self._fits(place.record.name):
                chosen = place
        return chosen

    def _each(self, names: Iterable[str]) -> Iterator[Place]:
        index = self._index()
        ordering = self._ordering(index)
        for name in names:
            record = self.inventory.nodes.get(name)
            if record is None or record.state is None or (self.allowed is not None and name not in self.allowed):
                continue
            answer = self._answer(index, record)
            if answer is not None:
                rank = answer.rank
                if rank is not None and ordering is not None and self.rooms is not None:
                    rank = ordering.rank(answer, self.rooms.room(name))
                yield Place(record, answer, rank)

    def _answer(self, index: Index, record: NodeRecord) -> Answer | None:
        assert record.state is not None
        held = self.held.get(record.name, 0)
        try:
            if held:
                return index.answer_with_held(record.state, held, self.work)
            return index.answer(record.state, self.work)
        except Stopped:
            self.exhausted = True
            return None

    def _on_empty(self) -> Place | Failed | None:
        """As if nothing was allocated: one look at each view."""
        problem = self.problem
        answers: dict[object, Answer | None] = {}
        chosen: Place | None = None
        for state in self.inventory.states.populated():
            view = state.view
            if view not in answers:
                try:
                    verdict = self.known.judge(
                        view, 0, (), 0, frozenset(), problem.strategy, self.outlook, self.work, ignore_usage=True
                    )
                    answers[view] = Answer(self.known, state, verdict)
                except Stopped:
                    self.exhausted = True
                    answers[view] = None
            answer = answers[view]
            if answer is None or answer.rank is None:
                continue
            for name in state.nodes:
                if (self.allowed is None or name in self.allowed) and self._fits(name):
                    place = Place(self.inventory.nodes[name], answer, answer.rank)
                    if chosen is None or self._order(place) < self._order(chosen):
                        chosen = place
                    break
        return chosen

    def _fits(self, name: str) -> bool:
        if self.problem.fits is None:
            return True
        if name in self.unfit:
            return False
        if self.problem.fits(name):
            return True
        self.unfit.add(name)
        return False

    # -- answers ---------------------------------------------------------------------------------------------------

    def unsolved(self) -> Unsolved | Failed:
        problem = self.problem
        if self.exhausted:
            names = ", ".join(str(claim.key) for claim in problem.claims)
            return Failed(
                "budget",
                f"claim {names}: no solution within {problem.work_budget} steps of search; "
                "ask for fewer combined constraints, or split the claim",
                claim=str(problem.claims[0].key) if problem.claims else None,
            )
        survey = Survey(problem, self.inventory, self.known, self.held, self.homeless, frozenset(self.unfit))
        unsolved = survey.unsolved()
        if unsolved.warnings and not problem.ignore_usage and problem.strategy is not Strategy.FirstFit:
            emptied = _Solver(_emptied(problem), self.inventory, self.memory, self.known, Work(problem.work_budget))
            if emptied._on_empty() is None and not emptied.exhausted:
                first = unsolved.warnings[0]
                return Failed(
                    "selector",
                    str(first),
                    claim=first.claim,
                    request=first.request,
                    device_class=first.device_class,
                    selector=first.selector,
                    device=first.device,
                )
        return unsolved


def _solved(problem: Problem, inventory: Inventory, known: Known, record: NodeRecord, answer: Answer) -> Solved:
    """The answer with the devices of one node of its state."""
    assert answer.choice is not None
    warnings = warnings_of(known, inventory, problem) if known.broken else ()
    if answer.picks is not None:
        allocation = known.assembler.picked(problem.claims[0], answer.picks, record, problem.seed)
        if allocation is not None:
            return Solved(record.name, (allocation,), warnings)
    allocations = known.assembler.allocations(problem.claims, answer.choice, answer.table.order, record, problem.seed)
    node: str | None = record.name
    if not problem.needs_node and all(item.node_selector is not record.selector for item in allocations):
        node = None
    return Solved(node, allocations, warnings)


def _emptied(problem: Problem) -> Problem:
    return Problem(
        claims=problem.claims,
        nodes=problem.nodes,
        fits=problem.fits,
        strategy=problem.strategy,
        constraints=problem.constraints,
        ignore_usage=True,
        work_budget=problem.work_budget,
    )


__all__ = ["attempt", "solve"]
