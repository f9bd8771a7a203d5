"""An index: for one plan and one way of choosing, which states solve it and how well.

Follows the inventory's journal, so a call looks at states that came up since the last one and not at nodes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from weakref import ref

from dra_operator.allocator.demand import Supply
from dra_operator.allocator.memory import Known, Verdict
from dra_operator.allocator.outlook import Outlook, Worth
from dra_operator.allocator.problem import Failed, Room, Strategy, Unsolved
from dra_operator.allocator.results import Picks
from dra_operator.allocator.scoring import Score
from dra_operator.allocator.search import Stopped, Work
from dra_operator.inventory import DeviceId
from dra_operator.inventory.pools import Pool
from dra_operator.inventory.views import State, View, Waiter

#: So many entries that are out of date or without nodes may stand before the best one and among its equals.
_IDLE = 16
#: Views that are remembered to have nothing for a plan.
_USELESS_KEPT = 4096
#: Amounts of CPU and memory of which it is remembered what devices are worth beside them.
_ROOMS_KEPT = 64


class Answer:
    """What one state says to a plan. Without `choice` it has no solution, or (`trouble`) ends with an error.

    `nodes`: those of the state. `live`: it is in its index, and stands for its state.
    """

    __slots__ = (
        "_after",
        "_before",
        "_supplies",
        "_worth",
        "choice",
        "excluded",
        "live",
        "nodes",
        "picks",
        "rank",
        "state",
        "table",
        "trouble",
    )

    def __init__(self, known: Known, state: State, verdict: Verdict) -> None:
        self.state, self.nodes = state, state.nodes
        self.table, self.rank = verdict.table, verdict.score
        self.choice = None if verdict.best is None else verdict.best.choice
        self.trouble, self.excluded = verdict.found.trouble, verdict.found.excluded
        self.live = False
        self.picks: Picks | None = None
        if self.choice is not None:
            self.picks = known.assembler.picks(self.choice, self.table.order)
        self._before, self._after = verdict.before, None if verdict.best is None else verdict.best.after
        self._supplies: tuple[Supply, Supply] | None = None
        self._worth: dict[Room, Worth] = {}

    def supplies(self, known: Known, outlook: Outlook) -> tuple[Supply, Supply]:
        """What the state's devices serve of what is expected, before and after the choice. `outlook`: that of the answer's index."""
        if self._supplies is None:
            assert self._before is not None
            assert self._after is not None
            expected = outlook.expectations(known, self.state.view)
            self._supplies = self._before.supply(self.table, expected), self._after.supply(self.table, expected)
        return self._supplies

    def loss(self, known: Known, outlook: Outlook, room: Room, rest: Room) -> float:
        """How much of what is expected the choice takes away, where this is left beside the devices before and after it."""
        before, after = self.supplies(known, outlook)
        worth = self._worth.get(room)
        if worth is None:
            if len(self._worth) >= _ROOMS_KEPT:
                self._worth.clear()
            # Whatever else pods take, before they come it is the same.
            worth = self._worth[room] = outlook.worth(known, before, room)
        left = outlook.worth(known, after, rest)
        return round(worth[0] - left[0] + (worth[1] - left[1]), 6)


class Index:
    """`forbidden` are devices without a home; those of single nodes are the caller's business."""

    def __init__(
        self, known: Known, strategy: Strategy, outlook: Outlook | None, forbidden: frozenset[DeviceId]
    ) -> None:
        self.known, self.strategy, self.outlook, self.forbidden = known, strategy, outlook, forbidden
        self.answers: dict[State, Answer] = {}
        #: What was answered when nothing was solvable, with the inventory's version then.
        self.unsolved: tuple[int, Unsolved | Failed] | None = None
        #: States that could not be worked out within some budget.
        self.unfinished: set[State] = set()
        #: Best first; the number keeps equals in the order they came.
        self._sorted: list[tuple[Score, int, Answer]] = []
        self._added = 0
        self._ready: dict[State, Answer] = {}
        self._returned: list[State] = []
        #: Views without a device that the plan could use: whatever is taken there makes no difference.
        self._useless: set[View] = set()
        self._cursor = -1
        self._states = known.memory.inventory.states
        #: What states know it by, so that they do not keep it.
        self._reference: ref[Waiter] = ref(self)

    def __len__(self) -> int:
        """How many entries are kept in order, current or not."""
        return len(self._sorted)

    def catch_up(self, work: Work) -> None:
        """Take in what changed since the last call."""
        states = self._states
        end = states.journal_start + len(states.journal)
        if self._returned:
            returned, self._returned = self._returned, []
            for state in returned:
                if state not in self._ready:
                    self._consider(state, work)
        if self.unfinished:
            for state in list(self.unfinished):
                self._consider(state, work)
        if self._cursor == end:
            return
        if self._cursor < states.journal_start:
            self._useless.clear()
            self.answers.clear()
            self._sorted.clear()
            self._ready.clear()
            for state in states.known():
                self._read(state, work)
        else:
            changed: set[Pool] = set()
            for item in states.journal[self._cursor - states.journal_start :]:
                if isinstance(item, Pool):
                    changed.add(item)
                else:
                    self._read(item, work)
            changed &= self.known.shared_pools
            if changed:
                self._consider_again(changed, work)
        self._cursor = end
        if len(self.answers) > 16_384:
            self.answers = {state: answer for state, answer in self.answers.items() if state.nodes}

    def returned(self, state: State) -> None:
        """A state that was put aside has nodes again."""
        self._returned.append(state)

    def _read(self, state: State, work: Work) -> None:
        """Take in a new state. Most have been left by their node before the next claim of the kind asks."""
        if state.view in self._useless:
            return
        if state.nodes:
            self._consider(state, work)
        else:
            state.wait(self._reference)

    def _consider_again(self, changed: set[Pool], work: Work) -> None:
        """Devices of these pools, which many nodes see, were taken or given back."""
        for state in [*self.answers, *self._ready]:
            if not changed.isdisjoint(state.view.shared_pools):
                self.answers.pop(state, None)
                old = self._ready.pop(state, None)
                if old is not None:
                    old.live = False
                if not state.nodes:
                    state.wait(self._reference)
        for state in self._states.populated():
            if not changed.isdisjoint(state.view.shared_pools):
                self._consider(state, work)

    def answer(self, state: State, work: Work) -> Answer:
        """What a state says. Raises Stopped."""
        known = self.answers.get(state)
        if known is None:
            verdict = self.known.judge(
                state.view, state.used, state.shares, 0, self.forbidden, self.strategy, self.outlook, work
            )
            known = self.answers[state] = Answer(self.known, state, verdict)
        return known

    def answer_with_held(self, state: State, held: int, work: Work) -> Answer:
        """As `answer`, for a node of which some devices are forbidden. Raises Stopped."""
        verdict = self.known.judge(
            state.view, state.used, state.shares, held, self.forbidden, self.strategy, self.outlook, work
        )
        return Answer(self.known, state, verdict)

    def in_order(self) -> Iterator[Answer]:
        """Answers with a solution whose state has nodes, best first. Finish with it before the next call."""
        for _, _, answer in self._sorted:
            if answer.live and answer.state.nodes:
                yield answer

    def top(self) -> Answer | None:
        """The best answer with a solution; of equally good ones that with the first node by name."""
        best, best_rank, first, idle = None, None, "", 0
        for rank, _, answer in self._sorted:
            if best is not None and rank != best_rank:
                break
            nodes = answer.nodes
            if not nodes or not answer.live:
                idle += 1
            elif best is None or nodes[0] < first:
                best, best_rank, first = answer, rank, nodes[0]
        if idle > _IDLE or best is None:
            self._put_aside()
        return best

    def _put_aside(self) -> None:
        """Take out answers that were superseded, and states without nodes until they have some again."""
        kept = []
        for entry in self._sorted:
            answer = entry[2]
            if answer.live and not answer.state.nodes:
                self._drop(answer)
            elif answer.live:
                kept.append(entry)
        self._sorted = kept

    def _drop(self, answer: Answer) -> None:
        answer.live = False
        del self._ready[answer.state]
        answer.state.wait(self._reference)

    @property
    def hopeless(self) -> bool:
        """No state with nodes has a solution or an error, and all have been looked at."""
        return not self._ready and not self.unfinished

    def ready(self) -> list[Answer]:
        """Answers with a solution or an error whose state has nodes."""
        return [answer for state, answer in self._ready.items() if state.nodes]

    def _consider(self, state: State, work: Work) -> None:
        old = self._ready.pop(state, None)
        if old is not None:
            old.live = False
        if not state.nodes:
            self.unfinished.discard(state)
            state.wait(self._reference)
            return
        try:
            answer = self.answer(state, work)
        except Stopped:
            self.unfinished.add(state)
            return
        self.unfinished.discard(state)
        if answer.rank is None and answer.trouble is None:
            if not answer.table.order and not self.known.plan.preferred:
                if len(self._useless) >= _USELESS_KEPT:
                    self._useless.clear()
                self._useless.add(state.view)
            return
        self._ready[state] = answer
        answer.live = True
        if answer.rank is not None and self.strategy is not Strategy.FirstFit:
            self._added += 1
            insort(self._sorted, (answer.rank, self._added, answer))
            if len(self._sorted) > _IDLE + 4 * len(self._ready):
                self._put_aside()


def index_of(known: Known, strategy: Strategy, outlook: Outlook | None, forbidden: frozenset[DeviceId]) -> Index:
    """The one of a plan for this way of choosing; most often the one asked last."""
    index = known.index
    if (
        isinstance(index, Index)
        and index.strategy is strategy
        and index.outlook is outlook
        and index.forbidden == forbidden
    ):
        return index
    key = (strategy, outlook, forbidden)
    found = known.indexes.get(key)
    if not isinstance(found, Index):
        known.memory.make_room(known)
        found = known.indexes[key] = Index(known, strategy, outlook, forbidden)
    known.index = found
    return found
