"""Does a unit fit on one node as things are? The bare answer for callers that ask often while they change a snapshot.

No scores, no statistics, no allocation: `solve` makes those once the question is settled.
"""

from __future__ import annotations

from dra_operator.allocator.memory import Known, Memory, Stopped, memory_of
from dra_operator.allocator.plan import Plan
from dra_operator.allocator.problem import Failed, Problem, Strategy
from dra_operator.allocator.search import Work
from dra_operator.allocator.start import Start, make_start
from dra_operator.allocator.table import Table
from dra_operator.api.claims import Allocation
from dra_operator.inventory import Inventory, Snapshot
from dra_operator.inventory.views import NodeRecord, View


class Trial:
    """Of one problem. All answers together spend the problem's work budget; `exhausted` says that it did not suffice.

    `held`: positions of forbidden devices by node; `homeless`: forbidden devices that belong to no single node.
    The problem's `nodes`, `fits` and `cost` are not looked at.
    """

    def __init__(self, problem: Problem, inventory: Inventory, memory: Memory, known: Known) -> None:
        self._inventory, self._known = inventory, known
        self._claims, self._seed = problem.claims, problem.seed
        self._exact = problem.strategy is Strategy.FirstFit
        self._work = Work(problem.work_budget)
        self.exhausted = False
        self.held, self.homeless = memory.held(problem.forbidden) if problem.forbidden else ({}, frozenset())

    @property
    def plan(self) -> Plan:
        return self._known.plan

    def table(self, view: View) -> Table:
        return self._known.table(view, self._exact)

    def start(self, record: NodeRecord) -> Start:
        """What is free on a node. The node must have a view."""
        assert record.view is not None
        shares = tuple(sorted(record.shares.items())) if record.shares else ()
        return make_start(
            self.table(record.view),
            record.used,
            shares,
            self._inventory.usage.by_device,
            self.homeless,
            self.held.get(record.name, 0),
        )

    def fits(self, record: NodeRecord) -> bool:
        """Are there devices for the unit on this node? False as well if that could not be found out (`exhausted`)."""
        if record.view is None:
            return False
        try:
            found = self._known.find(self.table(record.view), self.start(record), self._work, self._exact)
        except Stopped:
            self.exhausted = True
            return False
        return bool(found.choices) and found.trouble is None

    def allocations(self, record: NodeRecord) -> tuple[Allocation, ...]:
        """A solution on a node that the unit fits on: one allocation a claim, in order."""
        assert record.view is not None
        table = self.table(record.view)
        found = self._known.find(table, self.start(record), self._work, self._exact)
        return self._known.assembler.allocations(self._claims, found.choices[0], table.order, record, self._seed)


def trial(problem: Problem, snapshot: Snapshot) -> Trial | Failed:
    """A trial of the problem; what is wrong with its claims if they cannot be planned."""
    inventory = snapshot.inventory
    memory = memory_of(inventory)
    known = memory.known(problem)
    return known if isinstance(known, Failed) else Trial(problem, inventory, memory, known)
