"""An index: for one plan and one way of choosing, which states solve it and how well.

Follows the inventory's journal, so a call looks at states that came up since the last one and not at nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from dra_operator.allocator.memory import Known
from dra_operator.allocator.problem import Demand, Failed, Strategy, Unsolved
from dra_operator.allocator.scoring import Score
from dra_operator.allocator.search import Choice, Stopped, Trouble, Work
from dra_operator.allocator.table import Table
from dra_operator.inventory import DeviceId
from dra_operator.inventory.pools import Pool
from dra_operator.inventory.views import State

Rank = tuple[tuple[int, tuple[int, ...], int], tuple[float, float, float]]


class Answer:
    """What one state says to a plan. Without `choice` it has no solution, or (`trouble`) ends with an error."""

    __slots__ = ("choice", "excluded", "rank", "score", "state", "table", "trouble")

    def __init__(
        self,
        state: State,
        table: Table,
        choice: Choice | None,
        score: Score | None,
        trouble: Trouble | None,
        excluded: Trouble | None,
    ) -> None:
        self.state, self.table, self.choice, self.score = state, table, choice, score
        self.trouble, self.excluded = trouble, excluded
        self.rank: Rank | None = None if score is None else (score.hard, score.soft)


class Index:
    """`forbidden` are devices without a home; those of single nodes are the caller's business."""

    def __init__(self, known: Known, strategy: Strategy, demand: Demand | None, forbidden: frozenset[DeviceId]) -> None:
        self.known, self.strategy, self.demand, self.forbidden = known, strategy, demand, forbidden
        self.answers: dict[State, Answer] = {}
        #: What was answered when nothing was solvable, with the inventory's version then.
        self.unsolved: tuple[int, Unsolved | Failed] | None = None
        #: States that could not be worked out within some budget.
        self.unfinished: set[State] = set()
        self._heap: list[tuple[Rank, int, Answer]] = []
        self._pushed = 0
        self._ready: dict[State, Answer] = {}
        self._cursor = -1
        self._states = known.memory.inventory.states

    def catch_up(self, work: Work) -> None:
        """Take in what changed since the last call."""
        states = self._states
        end = states.journal_start + len(states.journal)
        if self._cursor == end and not self.unfinished:
            return
        for state in list(self.unfinished):
            self._consider(state, work)
        if self._cursor < states.journal_start:
            self.answers.clear()
            self._heap.clear()
            self._ready.clear()
            for state in states.populated():
                self._consider(state, work)
        else:
            changed: set[Pool] = set()
            for item in states.journal[self._cursor - states.journal_start :]:
                if isinstance(item, Pool):
                    changed.add(item)
                elif item.nodes and item not in self._ready:
                    self._consider(item, work)
            changed &= self.known.shared_pools
            if changed:
                # States without nodes as well: they may get some again, in a later call.
                for state in [*self.answers, *self._ready]:
                    if not changed.isdisjoint(state.view.shared_pools):
                        self.answers.pop(state, None)
                        self._ready.pop(state, None)
                for state in states.populated():
                    if not changed.isdisjoint(state.view.shared_pools):
                        self._consider(state, work)
        self._cursor = end
        if len(self.answers) > 16_384:
            self.answers = {state: answer for state, answer in self.answers.items() if state.nodes}

    def answer(self, state: State, work: Work) -> Answer:
        """What a state says. Raises Stopped."""
        known = self.answers.get(state)
        if known is None:
            table, found, choice, score = self.known.judge(
                state.view, state.used, state.shares, 0, self.forbidden, self.strategy, self.demand, work
            )
            known = self.answers[state] = Answer(state, table, choice, score, found.trouble, found.excluded)
        return known

    def answer_with_held(self, state: State, held: int, work: Work) -> Answer:
        """As `answer`, for a node of which some devices are forbidden. Raises Stopped."""
        table, found, choice, score = self.known.judge(
            state.view, state.used, state.shares, held, self.forbidden, self.strategy, self.demand, work
        )
        return Answer(state, table, choice, score, found.trouble, found.excluded)

    def in_order(self) -> Iterator[Answer]:
        """Answers with a solution whose state has nodes, best first. Finish or close the iterator before the next call."""
        taken: list[tuple[Rank, int, Answer]] = []
        heap = self._heap
        try:
            while heap:
                entry = heap[0]
                answer = entry[2]
                state = answer.state
                if not state.nodes or self._ready.get(state) is not answer:
                    self._drop()
                    continue
                yield answer
                taken.append(heappop(heap))
        finally:
            for entry in taken:
                heappush(heap, entry)

    def top(self) -> Answer | None:
        """The best answer with a solution; of equally good ones that with the first node by name."""
        heap, ready = self._heap, self._ready
        while heap:
            entry = heap[0]
            answer = entry[2]
            state = answer.state
            if not state.nodes or ready.get(state) is not answer:
                self._drop()
                continue
            rank = entry[0]
            if (len(heap) > 1 and heap[1][0] == rank) or (len(heap) > 2 and heap[2][0] == rank):
                return self._first_of_equals(rank)
            return answer
        return None

    def _drop(self) -> None:
        """Remove the first entry of the heap, which is out of date."""
        answer = heappop(self._heap)[2]
        if self._ready.get(answer.state) is answer:
            # Its state has no nodes; when it gets some again, the journal says so.
            del self._ready[answer.state]

    def _first_of_equals(self, rank: Rank) -> Answer | None:
        heap = self._heap
        equals: list[tuple[Rank, int, Answer]] = []
        while heap and heap[0][0] == rank:
            answer = heap[0][2]
            if not answer.state.nodes or self._ready.get(answer.state) is not answer:
                self._drop()
            else:
                equals.append(heappop(heap))
        for entry in equals:
            heappush(heap, entry)
        return min((entry[2] for entry in equals), key=lambda answer: answer.state.nodes[0], default=None)

    @property
    def hopeless(self) -> bool:
        """No state has a solution or an error, and all have been looked at."""
        return not self._ready and not self.unfinished

    def ready(self) -> list[Answer]:
        """Answers with a solution or an error whose state has nodes."""
        emptied = [state for state in self._ready if not state.nodes]
        for state in emptied:
            del self._ready[state]
        return list(self._ready.values())

    def _push(self, rank: Rank, answer: Answer) -> None:
        self._pushed += 1
        heappush(self._heap, (rank, self._pushed, answer))
        if len(self._heap) > 64 + 4 * len(self._ready):
            # Entries that were superseded below the top.
            self._heap = [entry for entry in self._heap if self._ready.get(entry[2].state) is entry[2]]
            heapify(self._heap)

    def _consider(self, state: State, work: Work) -> None:
        self._ready.pop(state, None)
        if not state.nodes:
            self.unfinished.discard(state)
            return
        try:
            answer = self.answer(state, work)
        except Stopped:
            self.unfinished.add(state)
            return
        self.unfinished.discard(state)
        if answer.rank is not None:
            self._ready[state] = answer
            if self.strategy is not Strategy.FirstFit:
                self._push(answer.rank, answer)
        elif answer.trouble is not None:
            self._ready[state] = answer
