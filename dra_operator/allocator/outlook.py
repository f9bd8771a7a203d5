"""Outlook: what is expected to be asked for, each kind weighed by how little of it is left.

The strategy Fragmentation maximises the sum of the logarithms of what still fits of each kind, weighted by how often it is asked for: what
one allocation takes away counts against all there is of it. So a scarce model is kept for those who need that one, and whole
nodes for those who need many devices, in proportion to their demand, without a rule for either.

Where it is known what pods take beside their devices, a kind fits as often as the devices, the CPU and the memory of a node all allow,
kind by kind; and besides, devices count by what pods with such devices take on the average, so that what single kinds leave over counts
as well.

While little has been asked for, that average says little: a cluster is taken to be built for its pods, so what there is beside each
device counts as a few claims more. And no usual size is taken to need more than some node can give it, or the average of small claims
would make the large ones look impossible, and the nodes they need worth nothing.

An outlook is taken at one time and used until supply has changed much: answers are remembered with it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from dra_operator.allocator.contention import Contention, Share, Stake
from dra_operator.allocator.counting import Shape, Stock
from dra_operator.allocator.demand import TYPICAL_COUNTS, Expectation, Expectations, Part, Supply, shape_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Demand, Room
from dra_operator.allocator.situations import Situations
from dra_operator.allocator.start import make_start
from dra_operator.allocator.table import positions
from dra_operator.inventory import Inventory
from dra_operator.inventory.views import State, View

if TYPE_CHECKING:
    from dra_operator.allocator.memory import Known

#: Claims of the usual sizes of what is being asked for weigh, all sizes together, as much as so many claims of the demand.
_PRIOR = 32.0
#: Devices by what is taken beside them on the average count so much against all kinds together.
_AVERAGE = 1.0
#: What there is beside each free device counts as if so many devices had been asked for with that.
_UNSEEN = 8.0
#: Supply is looked at anew after this part of all devices may have changed hands, and counts as changed beyond these ratios.
_PATIENCE = 16
_CHANGED = (4 / 5, 5 / 4)
#: So many states are enough to estimate a supply.
_SAMPLE = 512
#: Keeps weights in the order of devices.
_SCALE = 1000.0


#: CPU in thousandths and memory in bytes, of one claim or device.
Beside = tuple[float, float]
_NOTHING: Beside = (0.0, 0.0)


class Wanted(NamedTuple):
    """What is expected: a plan and a way of it, how often, and what is taken beside the devices."""

    known: Known
    way: Way
    weight: float
    beside: Room


#: What free devices are worth: to each kind by itself, and to pods that take what such pods take on the average.
Worth = tuple[float, float]


class Outlook:
    """`demand` None: only the prior. `situations`: where what is left beside the devices counts."""

    def __init__(
        self, inventory: Inventory, demand: Demand | None, expected: list[Wanted], situations: Situations | None
    ) -> None:
        self.demand = demand
        #: Against 1 for the demand.
        self._prior = 1.0 if demand is None else _PRIOR / max(demand.evidence, 1.0)
        self._inventory, self.situations = inventory, situations
        self._expected = expected
        #: The inventory's version at which supply is looked at next.
        self._due = 0
        #: States, what is left beside them, and how many nodes there are; a sum over them is to be multiplied with the factor.
        self._sample: list[tuple[State, Room | None, int]] = []
        self._factor = 1.0
        self._counted: dict[tuple[Known, int, int], list[tuple[int, float]]] = {}
        self._stocks: dict[tuple[State, tuple[int, ...], int], Stock] = {}
        self._stocks_of: dict[Known, dict[State, Stock]] = {}
        self._take_sample()
        self._supply: dict[tuple[Known, int, int, Beside], float] = {}
        #: How many devices a claim takes, by plan and way.
        self._sizes: dict[tuple[Known, int], float] = {}
        self._expectations: dict[tuple[Known, View], Expectations] = {}
        self._demands: dict[View, Expectation] = {}
        self._averages: dict[Known, Beside] = {}
        #: What a device counts by what is taken beside it on the average, and that.
        self._per_device: dict[Known, tuple[float, float, float]] = {}
        self._contention = Contention([self._stake(item) for item in expected], self._prior)
        self._measured = self._measure_expected()

    def current(self) -> bool:
        """Is it still good enough? Looks at the supply now and then."""
        if self._inventory.version < self._due:
            return True
        self._take_sample()
        low, high = _CHANGED
        now = self._measure_expected()
        return all(low * before <= after <= high * before for before, after in zip(self._measured, now, strict=True))

    def worth(self, known: Known, supply: Supply, room: Room) -> Worth:
        """What free devices are worth to what is expected, where this is left beside them."""
        served = 0.0
        for serving in supply.servings:
            served += serving.at(room)
        each = self._per_device.get(known)
        if each is None:
            each = self._per_device[known] = self._average_weight(known), *self._average(known)
        weight, cpu, memory = each
        devices = supply.devices
        if cpu and room[0] / cpu < devices:
            devices = room[0] / cpu
        if memory and room[1] / memory < devices:
            devices = room[1] / memory
        return served, weight * devices

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
                    Part(
                        shape_of(known.table(view, False), way, way.count),
                        self._weight(known, way, way.count, weight, beside),
                        beside,
                    )
                    for known, way, weight, beside in self._expected
                ]
            )
        return found

    def _prior_on(self, known: Known, view: View) -> Expectation:
        ways = _ways(known)
        table = known.table(view, False)
        each = self._prior / (len(TYPICAL_COUNTS) * max(len(ways), 1))
        parts = []
        for way in ways:
            for count in TYPICAL_COUNTS:
                beside = self._typical_beside(known, way, count)
                parts.append(Part(shape_of(table, way, count), self._weight(known, way, count, each, beside), beside))
        return Expectation(parts)

    def _typical_beside(self, known: Known, way: Way, count: int) -> Beside:
        """What a claim for so many devices is taken to need beside them: not more than some node can give."""
        if self.situations is None:
            # Nobody knows what is left.
            return 0.0, 0.0
        cpu, memory = self._average_of(known, way)
        most = self._most_beside(known, way, count)
        return min(cpu * count, most[0]), min(memory * count, most[1])

    def _average(self, known: Known) -> Beside:
        """What pods with devices of the same classes take beside each on the average, as far as is known."""
        found = self._averages.get(known)
        if found is None:
            classes = _classes(known)
            devices = cpu = memory = 0.0
            counted: set[tuple[Known, Room]] = set()
            for item in self._expected:
                if _classes(item.known) == classes:
                    devices += item.weight * item.way.count * self._sizes.get((item.known, item.way.index), 1.0)
                    if (item.known, item.beside) not in counted:
                        counted.add((item.known, item.beside))
                        cpu, memory = cpu + item.weight * item.beside[0], memory + item.weight * item.beside[1]
            there = self._beside_free(known)
            if there is not None:
                unseen = _UNSEEN if self.demand is None else _UNSEEN / max(self.demand.evidence, 1.0)
                devices += unseen
                cpu, memory = cpu + unseen * there[0], memory + unseen * there[1]
            found = self._averages[known] = (cpu / devices, memory / devices) if devices else (0.0, 0.0)
        return found

    def _beside_free(self, known: Known) -> Beside | None:
        """What is left beside each free device, where some of those that a plan can use are free; None where that is not known."""
        devices = cpu = memory = 0.0
        for way in _ways(known)[:1]:
            for (claims, size), (_, room, nodes) in zip(self._claims(known, way, 1), self._sample, strict=True):
                if claims and room is not None:
                    devices += claims * size * nodes
                    cpu, memory = cpu + room[0] * nodes, memory + room[1] * nodes
        return (cpu / devices, memory / devices) if devices else None

    def _most_beside(self, known: Known, way: Way, count: int) -> Beside:
        """What the node with the most of it has left beside each claim for so many devices."""
        counted = zip(self._claims(known, way, count), self._sample, strict=True)
        rooms = [
            (room[0] / claims, room[1] / claims) for (claims, _), (_, room, _) in counted if claims and room is not None
        ]
        return max((cpu for cpu, _ in rooms), default=0.0) or inf, max(
            (memory for _, memory in rooms), default=0.0
        ) or inf

    def _average_of(self, known: Known, way: Way) -> Beside:
        """As `_average`, beside what one device of this way takes, which may be a part of one."""
        self._claims(known, way, way.count)
        size = self._sizes[known, way.index]
        cpu, memory = self._average(known)
        return cpu * size, memory * size

    def _average_weight(self, known: Known) -> float:
        ways = _ways(known)
        if not ways:
            return 0.0
        supply = sum(self._supply_of(known, way, 1, self._average_of(known, way)) for way in ways) / len(ways)
        return _AVERAGE * _SCALE / max(supply, 1.0)

    def _weight(self, known: Known, way: Way, count: int, weight: float, beside: Beside) -> float:
        """Of one more or less, where there is this much in all."""
        return weight * _SCALE / max(self._supply_of(known, way, count, beside), 1.0)

    def _supply_of(self, known: Known, way: Way, count: int, beside: Beside) -> float:
        key = (known, way.index, count, beside)
        supply = self._supply.get(key)
        if supply is None:
            supply = self._supply[key] = sum(
                devices * self._contention.ease(view, _positions(known, way, view))
                for view, devices in self._measure(known, way, count, beside).items()
            )
        return supply

    def _measure_expected(self) -> list[float]:
        return [sum(self._measure(known, way, way.count, beside).values()) for known, way, _, beside in self._expected]

    def _measure(self, known: Known, way: Way, count: int, beside: Beside) -> dict[View, float]:
        """How many devices such claims could get on all nodes of each view, each kind of claim by itself."""
        found: dict[View, float] = {}
        for (claims, size), (state, room, nodes) in zip(self._claims(known, way, count), self._sample, strict=True):
            if claims:
                devices = min(claims, _served(room, beside)) * size * nodes * self._factor
                found[state.view] = found.get(state.view, 0.0) + devices
        return found

    def _stake(self, item: Wanted) -> Stake:
        known, way, weight, _ = item
        by_view = self._measure(known, way, way.count, _NOTHING)
        return Stake(weight, {view: Share(_positions(known, way, view), devices) for view, devices in by_view.items()})

    def _claims(self, known: Known, way: Way, count: int) -> list[tuple[int, float]]:
        """By state of the sample, how many claims get their devices, and how many devices each takes."""
        key = known, way.index, count
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = []
            shapes: dict[View, Shape] = {}
            stocks = self._stocks_of.setdefault(known, {})
            for state, _, _ in self._sample:
                shape = shapes.get(state.view)
                if shape is None:
                    shape = shapes[state.view] = shape_of(known.table(state.view, False), way, count)
                claims = 0
                if shape.groups:
                    stock = stocks.get(state)
                    if stock is None:
                        stock = stocks[state] = self._stock(known, state)
                    if shape.number >= len(stock.counts):
                        known.table(state.view, False).counting.counted(stock)
                    claims = stock.counts[shape.number]
                found.append((claims, shape.size))
            most = max((shape.size / shape.count for shape in shapes.values() if shape.groups), default=0.0)
            self._sizes[known, way.index] = most or 1.0
        return found

    def _stock(self, known: Known, state: State) -> Stock:
        """What is free and left of a state's devices. Plans that look at the same devices see the same."""
        table = known.table(state.view, False)
        key = state, table.order, table.multi
        found = self._stocks.get(key)
        if found is None:
            start = make_start(table, state.used, state.shares, self._inventory.usage.by_device, frozenset(), 0)
            left = {table.order[bit]: amounts for bit, amounts in start.left}
            found = self._stocks[key] = table.counting.stock(positions(table, start.free), left)
        return found

    def _take_sample(self) -> None:
        inventory = self._inventory
        self._due = inventory.version + max(64, inventory.device_count // _PATIENCE)
        self._counted.clear()
        self._stocks.clear()
        self._stocks_of.clear()
        found: list[tuple[State, Room | None, int]]
        if self.situations is None:
            found = [(state, None, len(state.nodes)) for state in inventory.states.populated()]
        else:
            self.situations.catch_up()
            found = [(item.state, item.room, len(item.nodes)) for item in self.situations.populated()]
        if len(found) <= _SAMPLE:
            self._sample, self._factor = found, 1.0
            return
        self._sample = found[:: len(found) // _SAMPLE]
        self._factor = sum(nodes for _, _, nodes in found) / sum(nodes for _, _, nodes in self._sample)


def _ways(known: Known) -> list[Way]:
    return [item.ways[0] for item in known.plan.requirements if not item.ways[0].all]


def _positions(known: Known, way: Way, view: View) -> int:
    """Which of the view's devices such claims can get, as a mask."""
    table = known.table(view, False)
    return positions(table, table.columns[way.index].usable)


def _classes(known: Known) -> frozenset[str]:
    return frozenset(way.detail.device_class_name for way in known.plan.ways)


def _served(room: Room | None, beside: Beside) -> float:
    """How many pods that take this each have room."""
    if room is None:
        return inf
    cpu = room[0] // beside[0] if beside[0] else inf
    return min(cpu, room[1] // beside[1]) if beside[1] else cpu
