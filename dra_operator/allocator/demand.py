"""Expected demand: what is asked for, and how much of it a node could still take.

The strategy Fragmentation asks how much of what is typically asked for stops fitting (after fragmentation gradient descent, Weng et
al., USENIX ATC 2023, but counted in claims that fit instead of in GPUs that do not); `outlook` weighs the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dra_operator.allocator.counting import Shape, Stock
from dra_operator.allocator.masks import bits_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Demand, Expected, Room
from dra_operator.allocator.table import Table, positions
from dra_operator.api.claims import ClaimSpec

#: Claims of so many devices are taken to be usual where nothing is known.
TYPICAL_COUNTS = (1, 2, 4, 8)

#: How many different claims an expectation distinguishes.
_KINDS_EXPECTED = 32


class Part(NamedTuple):
    """A kind of claim on one view: what one device of it weighs, and what its pods take beside the devices of one claim."""

    shape: Shape
    weight: float
    beside: tuple[float, float] = (0.0, 0.0)


#: A kind of which something fits: what one claim weighs, how many get their devices, the CPU and memory that each takes, and whether
#: only whole claims count.
_Row = tuple[float, int, float, float, bool]


class Serving:
    """What some free devices serve of what is expected, by the CPU and memory beside them."""

    __slots__ = ("_at", "_cpu", "_memory", "_rows", "_total")

    def __init__(self, rows: list[_Row]) -> None:
        self._rows = rows
        #: With room enough, and what that is.
        self._total = sum([weight * count for weight, count, _, _, _ in rows])
        self._cpu = max([cpu * count for _, count, cpu, _, _ in rows], default=0.0)
        self._memory = max([memory * count for _, count, _, memory, _ in rows], default=0.0)
        self._at: dict[Room, float] = {}

    def at(self, room: Room) -> float:
        """Each kind by itself as far as its devices, the CPU and the memory suffice, weighted."""
        cpu, memory = room
        if cpu >= self._cpu and memory >= self._memory:
            return self._total
        total = self._at.get(room)
        if total is None:
            total = 0.0
            for weight, most, each_cpu, each_memory, whole in self._rows:
                count: float = most
                if each_cpu * count > cpu:
                    count = cpu / each_cpu
                if each_memory * count > memory:
                    count = memory / each_memory
                total += weight * (int(count + _ROUNDING) if whole else count)
            if len(self._at) >= _ROOMS_KEPT:
                self._at.clear()
            self._at[room] = total
        return total


class Supply(NamedTuple):
    """What free devices serve of what is expected. `devices`: how many there are like those a plan asks for."""

    servings: tuple[Serving, ...]
    devices: float


class Expectation:
    """Kinds of claims expected on one view. Devices are counted once for kinds that are alike there."""

    __slots__ = ("_kinds", "_known", "_servings", "_shapes")

    def __init__(self, parts: Iterable[Part]) -> None:
        weights: dict[Shape, float] = {}
        #: The number of its shape, what one claim weighs, what is taken beside its devices, and whether only whole claims count: of
        #: claims for one device a fraction counts, as the CPU that is left of it serves a smaller one.
        self._kinds: list[tuple[int, float, float, float, bool]] = []
        for shape, weight, (cpu, memory) in parts:
            weights[shape] = weights.get(shape, 0.0) + weight
            self._kinds.append((shape.number, weight * shape.size, cpu, memory, shape.count > 1))
        #: The number of each shape, how many devices a claim takes, and what one of them weighs.
        self._shapes = [(shape.number, shape.size, weight) for shape, weight in weights.items()]
        # The same stocks come up for every plan, so what is worked out for one serves the others.
        self._known: dict[Stock, float] = {}
        self._servings: dict[Stock, Serving] = {}

    def fitting(self, stock: Stock) -> float:
        """How much of it can still get its devices, each kind by itself, weighted."""
        total = self._known.get(stock)
        if total is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            counts = stock.counts
            total = sum([counts[number] * size * weight for number, size, weight in self._shapes])
            self._known[stock] = total
        return total

    def serving(self, stock: Stock) -> Serving:
        """As `fitting`, for whoever knows what is left beside the devices."""
        known = self._servings.get(stock)
        if known is None:
            if len(self._servings) >= _KEPT:
                self._servings.clear()
            counts = stock.counts
            rows = [
                (weight, counts[number], cpu, memory, whole)
                for number, weight, cpu, memory, whole in self._kinds
                if counts[number]
            ]
            known = self._servings[stock] = Serving(rows)
        return known


_KEPT = 4096
_ROOMS_KEPT = 64
_ROUNDING = 1e-9


#: What is expected on one view, in parts that are shared between plans.
Expectations = tuple[Expectation, ...]


def fitting(expected: Expectations, stock: Stock) -> float:
    """How much of what is expected can still be served."""
    total = 0.0
    for part in expected:
        total += part.fitting(stock)
    return total


#: What pods with claims of one kind take beside their devices, and how often.
Besides = dict[Room, float]


def kinds_of(claims: Iterable[tuple[ClaimSpec, Besides]]) -> tuple[Expected, ...]:
    """The most frequent claims, the first of equals, as parts of all. Pods take unequal amounts beside equal claims: of each kind of
    claim, the half that takes less CPU and the half that takes more count by themselves, each by its average."""
    weighed = [(spec, besides, sum(besides.values())) for spec, besides in claims]
    total = sum(weight for _, _, weight in weighed)
    kept = sorted(weighed, key=lambda item: -item[2])[:_KINDS_EXPECTED]
    return tuple(Expected(spec, part / total, beside) for spec, besides, _ in kept for part, beside in _halves(besides))


def _halves(besides: Besides) -> list[tuple[float, Room]]:
    """The lighter and the heavier half; an amount in the middle belongs to the half with more of it."""
    middle = sum(besides.values()) / 2
    halves: tuple[list[tuple[Room, float]], list[tuple[Room, float]]] = ([], [])
    before = 0.0
    for room, weight in sorted(besides.items()):
        halves[bool(halves[0]) and before + weight / 2 >= middle].append((room, weight))
        before += weight
    return [(sum(weight for _, weight in half), _average(half)) for half in halves if half]


def _average(amounts: list[tuple[Room, float]]) -> Room:
    total = sum(weight for _, weight in amounts)
    cpu = sum(room[0] * weight for room, weight in amounts) / total
    return round(cpu), round(sum(room[1] * weight for room, weight in amounts) / total)


def by_spec(items: Iterable[Expected]) -> dict[int, float]:
    """How often each claim is asked for, by the id of its spec."""
    found: dict[int, float] = {}
    for item in items:
        found[id(item.spec)] = found.get(id(item.spec), 0.0) + item.weight
    return found


class RecentDemand:
    """What was asked for lately, as a `Demand` that stays the same object for as long as it describes that well enough.

    Looked at after 64 and 512 claims and then every 1,024, and replaced if more than a fifth of it would change; what was counted
    before a look counts half after it.
    """

    _LONGEST = 1024
    _CHANGE = 0.2

    def __init__(self) -> None:
        self.demand: Demand | None = None
        self._weights: dict[int, tuple[ClaimSpec, Besides]] = {}
        self._since = 0
        self._wait = 64

    def note(self, spec: ClaimSpec, beside: Room = (0, 0)) -> None:
        """Count one claim, of a pod that takes this beside its devices."""
        known = self._weights.get(id(spec))
        if known is None:
            known = self._weights[id(spec)] = spec, {}
        besides = known[1]
        besides[beside] = besides.get(beside, 0.0) + 1.0
        self._since += 1
        if self._since >= self._wait:
            self._refresh()

    def _refresh(self) -> None:
        total = sum(sum(besides.values()) for _, besides in self._weights.values())
        items = kinds_of(self._weights.values())
        shares, old = by_spec(items), by_spec(() if self.demand is None else self.demand.items)
        changed = sum(abs(shares.get(key, 0.0) - old.get(key, 0.0)) for key in shares.keys() | old.keys())
        if changed > 2 * self._CHANGE:
            self.demand = Demand(items, total)
        self._weights = {
            id(spec): (spec, {room: weight / 2 for room, weight in besides.items() if weight > _FORGOTTEN})
            for spec, besides in self._weights.values()
            if id(spec) in shares
        }
        self._since = 0
        self._wait = min(self._wait * 8, self._LONGEST)


#: What counts for less than this is forgotten.
_FORGOTTEN = 0.1


def shape_of(table: Table, way: Way, count: int) -> Shape:
    """The shape of claims for `count` devices as one way of the table's plan asks for them."""
    key = (way.index, count)
    known = table.shapes.get(key)
    if known is None:
        known = table.shapes[key] = _make_shape(table, way, count)
    return known


def _make_shape(table: Table, way: Way, count: int) -> Shape:
    column = table.columns[way.index]
    order = table.order
    groups = [column.usable]
    for rule in way.constraints:
        if not table.plan.rules[rule].distinct:
            # Without the empty ones and doubles: there would be twice as many with each constraint more.
            parts = (group & members for group in groups for members in column.masks.get(rule, {}).values())
            groups = [group for group in dict.fromkeys(parts) if group]
    takes = {order[bit]: column.takes[bit] for bit in bits_of(table.multi & column.usable)}
    limits = {order[bit]: limit for bit, limit in table.limits.items()}
    masks = tuple(positions(table, group) for group in groups if group)
    return table.counting.shape(max(count, 1), masks, takes, limits)
