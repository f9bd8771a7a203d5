"""Outlook: what is expected to be asked for, each kind weighed by how little of it is left.

The strategy Fragmentation maximises the sum of the logarithms of what still fits of each kind, weighted by how often it is asked for: what
one allocation takes away counts against all there is of it. So a scarce model is kept for those who need that one, and whole
nodes for those who need many devices, in proportion to their demand, without a rule for either.

An outlook is taken at one time and used until supply has changed much: answers are remembered with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dra_operator.allocator.demand import TYPICAL_COUNTS, Expectation, Expectations, Shape, shape_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Demand
from dra_operator.allocator.start import make_start
from dra_operator.allocator.table import positions
from dra_operator.inventory import Inventory
from dra_operator.inventory.views import State, View

if TYPE_CHECKING:
    from dra_operator.allocator.memory import Known

#: Claims of the usual sizes of what is being asked for weigh, all sizes together, as much as so many claims of the demand.
_PRIOR = 32.0
#: A device stranded for lack of CPU counts as so many taken: it is lost for good, and an average tells of few nodes that they are short.
_STRANDED = 4.0
#: Supply is looked at anew after this part of all devices may have changed hands, and counts as changed beyond these ratios.
_PATIENCE = 16
_CHANGED = (4 / 5, 5 / 4)
#: So many states are enough to estimate a supply.
_SAMPLE = 256
#: Keeps weights in the order of devices.
_SCALE = 1000.0


class Outlook:
    """`demand` None: only the prior. `expected`: plan, way, how often."""

    def __init__(self, inventory: Inventory, demand: Demand | None, expected: list[tuple[Known, Way, float]]) -> None:
        self.demand = demand
        #: Against 1 for the demand.
        self._prior = 1.0 if demand is None else _PRIOR / max(demand.evidence, 1.0)
        self._inventory = inventory
        self._expected = expected
        self._taken_at = inventory.version
        self._sample = _sample(inventory)
        self._supply: dict[tuple[Known, int, int], float] = {}
        self._expectations: dict[tuple[Known, View], Expectations] = {}
        self._demands: dict[View, Expectation] = {}
        for known, way, _ in expected:
            self._supply_of(known, way, way.count)

    def current(self) -> bool:
        """Is it still good enough? Looks at the supply now and then."""
        inventory = self._inventory
        if inventory.version - self._taken_at < max(64, inventory.device_count // _PATIENCE):
            return True
        self._taken_at = inventory.version
        self._sample = _sample(inventory)
        low, high = _CHANGED
        for known, way, _ in self._expected:
            before, now = self._supply_of(known, way, way.count), self._measure(known, way, way.count)
            if not low * before <= now <= high * before:
                return False
        return True

    def worth(self, known: Known) -> float:
        """What one more device like those a plan asks for, and that nobody could use, takes away."""
        ways = [item.ways[0] for item in known.plan.requirements if not item.ways[0].all and not item.ways[0].admin]
        supply = sum(self._supply_of(known, way, 1) for way in ways) / max(len(ways), 1)
        return _STRANDED * (1.0 + self._prior) * _SCALE / max(supply, 1.0)

    def expectations(self, known: Known, view: View) -> Expectations:
        """What is expected on one view, for scoring claims of one plan."""
        key = (known, view)
        found = self._expectations.get(key)
        if found is None:
            found = self._expectations[key] = (self._demand_on(view), self._prior_on(known, view))
        return found

    def _demand_on(self, view: View) -> Expectation:
        found = self._demands.get(view)
        if found is None:
            found = self._demands[view] = Expectation(
                [
                    (shape_of(known.table(view, False), way, way.count), self._weight(known, way, way.count, weight))
                    for known, way, weight in self._expected
                ]
            )
        return found

    def _prior_on(self, known: Known, view: View) -> Expectation:
        ways = [item.ways[0] for item in known.plan.requirements if not item.ways[0].all and not item.ways[0].admin]
        table = known.table(view, False)
        each = self._prior / (len(TYPICAL_COUNTS) * max(len(ways), 1))
        return Expectation(
            [
                (shape_of(table, way, count), self._weight(known, way, count, each))
                for way in ways
                for count in TYPICAL_COUNTS
            ]
        )

    def _weight(self, known: Known, way: Way, count: int, weight: float) -> float:
        """Of one more or less, where there is this much in all."""
        return weight * _SCALE / max(self._supply_of(known, way, count), 1.0)

    def _supply_of(self, known: Known, way: Way, count: int) -> float:
        key = (known, way.index, count)
        supply = self._supply.get(key)
        if supply is None:
            supply = self._supply[key] = self._measure(known, way, count)
        return supply

    def _measure(self, known: Known, way: Way, count: int) -> float:
        """How many devices such claims could get in the whole cluster, each kind of claim by itself."""
        total = 0.0
        occupied = self._inventory.usage.by_device
        states, factor = self._sample
        for state in states:
            if not state.nodes:
                continue
            table = known.table(state.view, False)
            shape: Shape = shape_of(table, way, count)
            if shape.groups:
                start = make_start(table, state.used, state.shares, occupied, frozenset(), 0)
                left = {table.order[bit]: amounts for bit, amounts in start.left}
                total += shape.fitting(positions(table, start.free), left) * len(state.nodes)
        return total * factor


def _sample(inventory: Inventory) -> tuple[list[State], float]:
    """States to measure supply on, and what the sum over them is to be multiplied with."""
    states = inventory.states.populated()
    if len(states) <= _SAMPLE:
        return states, 1.0
    step = len(states) // _SAMPLE
    chosen = states[::step]
    nodes, all_nodes = sum(len(state.nodes) for state in chosen), sum(len(state.nodes) for state in states)
    return chosen, all_nodes / nodes
