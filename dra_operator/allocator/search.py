"""The search: which devices satisfy a plan, on one table from one start.

Depth first over requests, their ways, and devices, in the order of the bits; complete. What keeps it short: of devices that are alike
one is tried (`picking`), sub-problems that failed are remembered by all that later choices depend on, and what cannot be enough
is left at once (`picking`, `bounds`). Positions never change, so giving up a choice is forgetting it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

from dra_operator.allocator.bounds import Bounds
from dra_operator.allocator.masks import bits_of, lowest
from dra_operator.allocator.picking import Picking
from dra_operator.allocator.plan import Way
from dra_operator.allocator.position import Position, Taking, first_position
from dra_operator.allocator.selection import Broken
from dra_operator.allocator.start import Start
from dra_operator.allocator.symmetry import Twins
from dra_operator.allocator.table import Table
from dra_operator.api.claims import MAX_RESULTS

#: What was picked so far: what was picked before, the way, and its bits.
Picked = tuple[Any, Way, tuple[int, ...]]

#: Per requirement: the way taken and the bits, in the order they were picked.
Choice = tuple[tuple[Way, tuple[int, ...]], ...]


#: A search that takes no more steps than this needs no further help.
_EASY = 64


class Work:
    """What one `solve` may still spend; shared by all searches of the call."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


class Stopped(Exception):
    """The work budget is spent."""


class OverLimit(NamedTuple):
    """The `request`-th request of a claim asks for more devices than are left of the limit, all matching ones counted for mode All."""

    request: int
    adding: int
    before: int


class Trouble(NamedTuple):
    """An error met on the way: on which way, at which bit (-1: none in particular), and why."""

    way: Way
    bit: int
    broken: Broken | OverLimit | str


class Frame:
    """A choice point. `way` None: which way of requirement `at`; else which device is its `taken`-th."""

    __slots__ = ("at", "last", "picked", "position", "remaining", "taken", "way", "worked")

    def __init__(
        self, at: int, way: Way | None, taken: int, last: int, position: Position, picked: Picked | None
    ) -> None:
        self.at, self.way, self.taken, self.last, self.position, self.picked = at, way, taken, last, position, picked
        self.remaining: list[int] = []
        self.worked = False


class Search:
    """One run. `exact`: errors of selectors end the search where the in-tree allocator would meet them, hence no bounds."""

    def __init__(self, table: Table, start: Start, work: Work, exact: bool) -> None:
        self.table, self.plan, self.start, self.work = table, table.plan, start, work
        self.columns = table.columns
        #: A selector error that ended the search.
        self.trouble: Trouble | None = None
        #: An error if nothing else works: mode All met a device its constraint excludes, or too many devices.
        self.excluded: Trouble | None = None
        self._bounded = not (exact and any(column.broken for column in table.columns))
        self._exact = exact
        self._failed: set[Hashable] = set()
        self._variable = any(way.all or len(item.ways) > 1 for item in self.plan.requirements for way in item.ways)
        self._admin = any(way.admin for way in self.plan.ways)
        self._chosen: tuple[Way, ...] | None = None
        self._steps = 0
        self._bounds: Bounds | None = None
        self._twins = twins_of(table)
        self._taking = Taking(table, start)
        self._picking = Picking(table, self._taking.slots, self._twins, self._bounded)

    def run(self, limit: int = 1) -> list[Choice]:
        """Up to `limit` solutions, the first in order first; further ones take the same ways. Raises Stopped."""
        if self._exact and not self._precheck():
            return []
        try:
            return self._search(limit)
        except RecursionError:
            # Hundreds of requests in mode All, one within the other.
            raise Stopped from None

    def _search(self, limit: int) -> list[Choice]:
        solutions: list[Choice] = []
        position = first_position(self.start, len(self.plan.rules))
        stack: list[Frame] = []
        solved = self._enter(stack, 0, position, None)
        while True:
            if solved is not None:
                solutions.append(solved)
                if len(solutions) >= limit:
                    return solutions
                self._chosen = tuple(way for way, _ in solved)
                for frame in stack:
                    frame.worked = True
                solved = None
            if not stack or self.trouble is not None:
                return solutions
            frame = stack[-1]
            if not frame.remaining:
                stack.pop()
                if not frame.worked:
                    self._fail(stack, frame)
                continue
            self.work.left -= 1
            self._steps += 1
            if self._steps == _EASY and self._bounded:
                # It is not easy: counting what there is pays from here on, and may show that it is hopeless.
                self._bounds = bounds_of(self.table)
                if not solutions and not self._bounds.possible(0, position.free, position.bound, position.counters):
                    return []
            if self.work.left < 0:
                if solutions:
                    return solutions
                raise Stopped
            choice = frame.remaining.pop()
            if frame.way is None:
                way = self.plan.requirements[frame.at].ways[choice]
                if self._chosen is not None and self._chosen[frame.at] is not way:
                    continue
                solved = self._take_way(stack, frame.at, way, frame.position, frame.picked)
            else:
                solved = self._take_device(stack, frame, choice)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _precheck(self) -> bool:
        """Mode All looks at every device before anything is chosen, pool after pool, and fails on the first error. A pool that cannot
        be used ends the looking: then the way is no way, and where there is no other nothing else is looked at."""
        view = self.table.view
        end = min((section.start for section in view.broken), default=len(view.kinds))
        claim, request, before = -1, -1, 0
        for requirement in self.plan.requirements:
            request += 1
            if requirement.claim != claim:
                claim, request, before = requirement.claim, 0, 0
            for way in requirement.ways:
                broken = self.columns[way.index].broken
                if way.all and broken:
                    bit = min(broken)
                    if self.table.order[bit] < end:
                        self.trouble = Trouble(way, bit, broken[bit])
                        return False
                if way.all and view.broken and len(requirement.ways) == 1:
                    return False
            adding = min(
                self.columns[way.index].every.bit_count() if way.all else way.count for way in requirement.ways
            )
            if before + adding > MAX_RESULTS:
                self.excluded = Trouble(requirement.ways[0], -1, OverLimit(request, adding, before))
                return False
            before += adding
        return True

    def _enter(self, stack: list[Frame], at: int, position: Position, picked: Picked | None) -> Choice | None:
        """Begin requirement `at`."""
        requirements = self.plan.requirements
        if at == len(requirements):
            return _unroll(picked)
        if at and requirements[at - 1].claim != requirements[at].claim:
            # Constraints within a claim end with it, and so does the rule that it has a device once.
            bound = tuple(
                value if rule.claim is None or rule.claim >= requirements[at].claim else None
                for rule, value in zip(self.plan.rules, position.bound, strict=True)
            )
            position = position._replace(mine=0, results=0, bound=bound)
        if self._bounds is not None and not self._bounds.possible(at, position.free, position.bound, position.counters):
            return None
        ways = requirements[at].ways
        if len(ways) == 1:
            return self._take_way(stack, at, ways[0], position, picked)
        frame = Frame(at, None, 0, -1, position, picked)
        if self._has_failed(frame):
            return None
        frame.remaining = list(range(len(ways) - 1, -1, -1))
        stack.append(frame)
        return None

    def _take_way(
        self, stack: list[Frame], at: int, way: Way, position: Position, picked: Picked | None
    ) -> Choice | None:
        if way.all:
            return self._take_all(stack, at, way, position, picked)
        if way.count <= 0:
            return self._enter(stack, at + 1, position, (picked, way, ()))
        if position.results + way.count > MAX_RESULTS:
            return None
        self._push(stack, at, way, 0, -1, position, (picked, way, ()))
        return None

    def _take_all(
        self, stack: list[Frame], at: int, way: Way, position: Position, picked: Picked | None
    ) -> Choice | None:
        """Mode All: every matching device or nothing; there is nothing to choose."""
        column = self.columns[way.index]
        if any(section.status is not None for section in self.table.view.sections):
            return None
        wanted = column.every
        if not wanted or position.results + wanted.bit_count() > MAX_RESULTS:
            return None
        bits = []
        for bit in bits_of(wanted):
            mask = 1 << bit
            if not (column.usable | column.lacking) & mask or not self._taking.may_take(way, mask, position):
                return None
            after = self._taking.after(way, bit, position) if column.usable & mask else None
            if after is None:
                if self._excluded_by_rule(way, bit, position):
                    self._exclude(way, bit)
                return None
            position = after
            bits.append(bit)
        return self._enter(stack, at + 1, position, (picked, way, tuple(bits)))

    def _take_device(self, stack: list[Frame], frame: Frame, bit: int) -> Choice | None:
        way = frame.way
        assert way is not None
        broken = self.columns[way.index].broken
        if self._exact and bit in broken:
            self.trouble = Trouble(way, bit, broken[bit])
            return None
        position = self._taking.after(way, bit, frame.position)
        if position is None:
            return None
        assert frame.picked is not None
        before, _, bits = frame.picked
        picked = (before, way, (*bits, bit))
        if frame.taken + 1 == way.count:
            return self._enter(stack, frame.at + 1, position, picked)
        self._push(stack, frame.at, way, frame.taken + 1, bit, position, picked)
        return None

    def _push(
        self, stack: list[Frame], at: int, way: Way, taken: int, last: int, position: Position, picked: Picked
    ) -> None:
        frame = Frame(at, way, taken, last, position, picked)
        if self._has_failed(frame):
            return
        if self._bounds is not None and not way.admin:
            open_mask = self.columns[way.index].usable & position.free & ~position.mine & (-1 << (last + 1))
            if not self._bounds.enough(open_mask, way.count - taken, position.counters):
                self._fail(stack, frame)
                return
        frame.remaining = self._picking.candidates(way, picked[2], last, position)
        if frame.remaining:
            stack.append(frame)
        else:
            self._fail(stack, frame)

    # -- errors and memory -----------------------------------------------------------------------------------------

    def _excluded_by_rule(self, way: Way, bit: int, position: Position) -> bool:
        """Is it a constraint that keeps a device out, and not the counters, which come first?"""
        if not way.constraints:
            return False
        charged = not way.admin and not position.running >> bit & 1
        if charged and position.counters and self._taking.drained(bit, position.counters, position.groups) is None:
            return False
        if self.columns[way.index].lacking >> bit & 1:
            return True
        return self._taking.bound_after(way, bit, position.bound) is None

    def _exclude(self, way: Way, bit: int) -> None:
        if self.excluded is None:
            self.excluded = Trouble(way, bit, "a claim constraint would not be satisfied")

    def _fail(self, stack: list[Frame], frame: Frame) -> None:
        """There is no way on from here. Without choices left before it nobody will come here again."""
        if stack:
            self._failed.add(self._key(frame))

    def _has_failed(self, frame: Frame) -> bool:
        """Did the same fail before? Most searches never fail, and need no keys."""
        return bool(self._failed) and self._key(frame) in self._failed

    def _key(self, frame: Frame) -> Hashable:
        """All that decides whether the rest can succeed from here."""
        at, way, position = frame.at, frame.way, frame.position
        free = position.free & self.table.future[at]
        common = (
            at,
            None if way is None else way.index,
            frame.taken,
            position.mine if self._admin else 0,
            position.results if self._variable else 0,
            position.bound,
        )
        if not self._twins or self._admin:
            return (*common, frame.last, free, position.running, position.left, position.counters, position.groups)
        # Twins are told by their condition and by how many of their devices come before the last one taken, in no order.
        twins = self._twins
        left = {bit: position.left[slot] for bit, slot in self._taking.slots.items()}
        before = (1 << (frame.last + 1)) - 1
        conditions = [
            (condition, (component.mask & before).bit_count())
            for component, condition in twins.conditions(
                -1, free, position.running, left, position.counters, position.groups
            )
        ]
        rest = ~twins.mask
        return (
            *common,
            (before & rest & self.table.future[at]).bit_count(),
            free & rest,
            position.running & rest,
            tuple([amounts for bit, amounts in left.items() if rest >> bit & 1]),
            tuple([position.counters[number] for number in twins.other_counters]),
            tuple([position.groups[number] for number in twins.other_sets]),
            frozenset(Counter(conditions).items()),
        )


def of_alike(table: Table, start: Start, exact: bool) -> list[Choice] | None:
    """Where one request is for devices that are all alike: the first ones, or no solution. None: it takes a search."""
    if not table.plain or len(table.classes) != 1 or len(table.plan.ways) != 1:
        return None
    way, column = table.plan.ways[0], table.columns[0]
    if way.all or way.admin or way.constraints or not 0 < way.count <= MAX_RESULTS or (exact and column.broken):
        return None
    free = column.usable & start.free
    if free.bit_count() < way.count:
        return []
    return [((way, lowest(free, way.count)),)]


def bounds_of(table: Table) -> Bounds:
    """The bounds of a table, made once."""
    if table.bounds is None:
        table.bounds = Bounds(table)
    assert isinstance(table.bounds, Bounds)
    return table.bounds


def twins_of(table: Table) -> Twins:
    """The twins of a table, found once."""
    if table.twins is None:
        table.twins = Twins(table)
    assert isinstance(table.twins, Twins)
    return table.twins


def _unroll(picked: Picked | None) -> Choice:
    found: list[tuple[Way, tuple[int, ...]]] = []
    while picked is not None:
        picked, way, bits = picked
        found.append((way, bits))
    return tuple(reversed(found))
