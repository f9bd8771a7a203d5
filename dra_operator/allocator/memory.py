"""What is remembered between calls: compiled selectors, plans, tables and answers.

Kept with the inventory and for as long as that lives; bounded, and forgotten with the classes and views it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple
from weakref import WeakValueDictionary

from dra_operator.allocator.counting import Counting
from dra_operator.allocator.demand import Expectations
from dra_operator.allocator.inuse import InUse
from dra_operator.allocator.masks import bits_of
from dra_operator.allocator.outlook import Outlook, Wanted
from dra_operator.allocator.plan import Plan, make_plan
from dra_operator.allocator.problem import Demand, Failed, Problem, Rooms, Strategy, UnitConstraint
from dra_operator.allocator.results import Assembler
from dra_operator.allocator.scoring import Condition, Option, Options, Score, best, options_of
from dra_operator.allocator.search import Choice, Search, Stopped, Trouble, Work, of_alike
from dra_operator.allocator.selection import Filter, Selectors
from dra_operator.allocator.situations import Situations
from dra_operator.allocator.start import Start, make_start
from dra_operator.allocator.table import Table
from dra_operator.allocator.tabulating import make_table
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.meta import ObjectMeta
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Attribute
from dra_operator.inventory.pools import Pool
from dra_operator.inventory.usage import Occupancy
from dra_operator.inventory.views import Shares, View

_PLANS_KEPT = 2048
_FILTERS_KEPT = 8192
_ANSWERS_KEPT = 1024
#: Indexes of one plan, and answers of all indexes.
_INDEXES_KEPT = 4
_REMEMBERED = 200_000
_TABLES_KEPT = 16_384
#: Solutions on one node that are compared; there are rarely more that differ.
_COMPARED = 16

#: Of up to so many preferred constraints all combinations are tried.
_COMBINED = 4

NOTHING: Mapping[DeviceId, Occupancy] = {}
_NO_META = ObjectMeta.from_dict({})


@dataclass(slots=True)
class Found:
    """What the search says about one start: solutions, or the error it ended with, or the device that mode All could not take."""

    choices: tuple[Choice, ...]
    trouble: Trouble | None
    excluded: Trouble | None
    #: By preferred constraints.
    _options: dict[tuple[UnitConstraint, ...], Options] = field(default_factory=dict)

    def options(self, table: Table, start: Start, preferred: tuple[UnitConstraint, ...]) -> Options:
        """The solutions, from the start they were found from, as far as they can be judged without knowing what is expected."""
        known = self._options.get(preferred)
        if known is None:
            known = self._options[preferred] = options_of(table, start, self.choices, preferred)
        return known


class Verdict(NamedTuple):
    """What one state says to a plan: without solutions, nothing is best. `before`: what its devices are like now."""

    table: Table
    found: Found
    before: Condition | None = None
    best: Option | None = None
    score: Score | None = None


class Known:
    """Everything derived from one plan."""

    def __init__(self, plan: Plan, memory: Memory, problem: Problem) -> None:
        self.plan, self.memory = plan, memory
        #: The claims and constraints the plan was made from; of equal claims the first.
        self.claims, self.constraints = problem.claims, problem.constraints
        self.assembler = Assembler(plan, memory.inventory.features)
        #: Pools of which some device without a home matters to this plan.
        self.shared_pools: set[Pool] = set()
        #: Does a selector fail on some device?
        self.broken = False
        #: The inventory's `class_version` at which the plan was last found to be current.
        self.checked = memory.inventory.class_version
        #: `index.Index` by what it was made for, and the one asked last.
        self.indexes: dict[object, object] = {}
        self.index: object = None
        #: `candidates.Candidates`, with the inventory's `published` it was made at.
        self.candidates: tuple[int, object] | None = None
        self._strict: tuple[Known, ...] | None = None
        self._tables: dict[tuple[View, bool], Table] = {}

    def table(self, view: View, as_published: bool) -> Table:
        key = (view, as_published)
        table = self._tables.get(key)
        if table is None:
            memory = self.memory
            table = self._tables[key] = make_table(
                self.plan, view, memory.inventory.features, memory.selectors, as_published
            )
            table.counting = memory.counting(view)
            if table.shared:
                self.shared_pools.update(view.shared_pools)
                devices = {view.offers[table.order[bit]].id: bit for bit in bits_of(table.shared)}
                table.in_use = InUse(devices, table.multi, len(table.order), memory.inventory.states.shared_uses)
            if any(column.broken for column in table.columns):
                self.broken = True
            if len(self._tables) > _TABLES_KEPT:
                self._forget_tables()
        return table

    def _forget_tables(self) -> None:
        """Drop tables of views that no node has any more."""
        live = {state.view for state in self.memory.inventory.states.populated()}
        self._tables = {key: table for key, table in self._tables.items() if key[0] in live}

    def find(self, table: Table, start: Start, work: Work, exact: bool) -> Found:
        """Solutions from a start, remembered. Raises Stopped."""
        found = table.answers.get(start)
        if found is None:
            alike = of_alike(table, start, exact)
            if alike is not None:
                found = Found(tuple(alike), None, None)
            else:
                search = Search(table, start, work, exact)
                choices = search.run(1 if exact else _COMPARED)
                found = Found(tuple(choices), search.trouble, search.excluded)
            if len(table.answers) >= _ANSWERS_KEPT:
                table.answers.clear()
            table.answers[start] = found
        assert isinstance(found, Found)
        return found

    def judge(
        self,
        view: View,
        used: int,
        shares: Shares,
        held: int,
        forbidden: frozenset[DeviceId],
        strategy: Strategy,
        outlook: Outlook | None,
        work: Work,
        ignore_usage: bool = False,
    ) -> Verdict:
        """The best solution on one state, and how good it is. Raises Stopped."""
        exact = strategy is Strategy.FirstFit
        occupied = NOTHING if ignore_usage else self.memory.inventory.usage.by_device
        verdict: Verdict | None = None
        preferred = () if exact else self.plan.preferred
        for known in self._variants() if preferred else (self,):
            table = known.table(view, exact)
            start = make_start(table, used, shares, occupied, forbidden, held)
            found = known.find(table, start, work, exact)
            if not found.choices:
                verdict = verdict or Verdict(table, found)
                continue
            expected = () if outlook is None else outlook.expectations(self, view)
            options = found.options(table, start, preferred)
            option, score = best(table, options, strategy, expected)
            if verdict is None or verdict.score is None or score < verdict.score:
                verdict = Verdict(table, found, options.before, option, score)
        assert verdict is not None
        return verdict

    def _variants(self) -> tuple[Known, ...]:
        """The plan with preferred constraints as required ones, in all combinations, and as it is."""
        if self._strict is None:
            preferred = self.plan.preferred
            if len(preferred) <= _COMBINED:
                sets = [items for size in range(1, len(preferred) + 1) for items in combinations(preferred, size)]
            else:
                # Too many to combine: give up the least important ones, one after another.
                ordered = sorted(preferred, key=lambda item: -item.weight)
                sets = [tuple(ordered[:size]) for size in range(1, len(ordered) + 1)]
            variants = [self.memory.variant(self, items) for items in sets]
            self._strict = (*(known for known in variants if known is not None), self)
        return self._strict

    def expectations(self, demand: Demand | None, view: View) -> Expectations:
        """What is expected on one view, beside the demand given."""
        return self.memory.outlook(demand).expectations(self, view)

    def tables(self) -> list[Table]:
        return list(self._tables.values())


class Memory:
    """Of one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.selectors = Selectors()
        self._filters: dict[tuple[int, tuple[str | None, ...]], Filter] = {}
        self._known: dict[object, Known] = {}
        #: With what is left beside devices, and without.
        self._outlooks: dict[bool, Outlook] = {}
        self._situations: Situations | None = None
        #: Plans with an index, by when they last got one.
        self._indexed: dict[Known, None] = {}
        #: Those that tables refer to.
        self._countings: WeakValueDictionary[View, Counting] = WeakValueDictionary()
        self._held: tuple[frozenset[DeviceId], int, dict[str, int], frozenset[DeviceId]] | None = None

    def known(self, problem: Problem) -> Known | Failed:
        """What is known of the problem's plan; what is wrong with its claims if it has none."""
        key = _key_of(problem)
        known = self._known.get(key)
        if known is not None:
            if known.checked == self.inventory.class_version:
                return known
            if self._current(known.plan):
                known.checked = self.inventory.class_version
                return known
        return self._learn(key, problem)

    def variant(self, known: Known, strict: tuple[UnitConstraint, ...]) -> Known | None:
        """The same plan with some of its preferred constraints required."""
        constraints = tuple(replace(item, required=True) if item in strict else item for item in known.constraints)
        found = self.known(Problem(known.claims, constraints=constraints))
        return None if isinstance(found, Failed) else found

    def make_room(self, known: Known) -> None:
        """Before a plan gets a new index: drop those nobody will ask again, and the oldest once there is too much of them."""
        current = (None, *self._outlooks.values())
        known.indexes = {
            key: index
            for key, index in list(known.indexes.items())[-_INDEXES_KEPT:]
            if getattr(index, "outlook", None) in current
        }
        self._indexed.pop(known, None)
        self._indexed[known] = None
        remembered = sum(
            len(getattr(index, "answers", ())) for item in self._indexed for index in item.indexes.values()
        )
        while remembered > _REMEMBERED and len(self._indexed) > 1:
            oldest = next(iter(self._indexed))
            del self._indexed[oldest]
            remembered -= sum(len(getattr(index, "answers", ())) for index in oldest.indexes.values())
            oldest.indexes, oldest.index = {}, None

    def forget(self, problem: Problem) -> None:
        """Drop what is known of a problem that was only tried and will not be asked again."""
        self._known.pop(_key_of(problem), None)

    def _learn(self, key: object, problem: Problem) -> Known | Failed:
        inventory = self.inventory
        plan = make_plan(
            problem.claims, problem.constraints, inventory.classes, inventory.features, self, problem.barred
        )
        if isinstance(plan, Failed):
            return plan
        inventory.require(plan.reads, plan.linked)
        if len(self._known) >= _PLANS_KEPT:
            for old in list(self._known)[: _PLANS_KEPT // 2]:
                del self._known[old]
        # The plan keeps the specs, so that their ids stay theirs.
        known = self._known[key] = Known(plan, self, problem)
        return known

    def _current(self, plan: Plan) -> bool:
        classes = self.inventory.classes
        return all(classes.get(name) is device_class for name, device_class in plan.classes.items())

    def filter(self, device_class: DeviceClass, expressions: tuple[str | None, ...]) -> Filter:
        key = (id(device_class), expressions)
        found = self._filters.get(key)
        if found is None or found.device_class is not device_class:
            if len(self._filters) >= _FILTERS_KEPT:
                self._filters.clear()
            found = self._filters[key] = Filter(device_class, expressions, self.selectors)
        return found

    def reads(self, expression: str) -> frozenset[Attribute] | None:
        return self.selectors.derived_reads(expression)

    def outlook(self, demand: Demand | None, rooms: Rooms | None = None) -> Outlook:
        """What to expect, as of now or not long ago."""
        known = self._outlooks.get(rooms is not None)
        situations = None if rooms is None else self.situations(rooms)
        if known is None or known.demand is not demand or known.situations is not situations or not known.current():
            known = Outlook(self.inventory, demand, self._expected(demand), situations)
            self._outlooks[rooms is not None] = known
        return known

    def situations(self, rooms: Rooms) -> Situations:
        """The nodes by what is left beside their devices."""
        if self._situations is None or self._situations.rooms is not rooms:
            self._situations = Situations(self.inventory, rooms)
        return self._situations

    def _expected(self, demand: Demand | None) -> list[Wanted]:
        """Each kind of claim expected; those that cannot be planned are left out."""
        found: list[Wanted] = []
        for spec, weight, beside in () if demand is None else demand.items:
            known = self.known(Problem((ResourceClaim(_NO_META, spec),)))
            if isinstance(known, Failed):
                continue
            for requirement in known.plan.requirements:
                way = requirement.ways[0]
                if not way.all and not way.admin:
                    found.append(Wanted(known, way, weight, beside))
        return found

    def counting(self, view: View) -> Counting:
        """The one that all tables of a view share."""
        found = self._countings.get(view)
        if found is None:
            found = self._countings[view] = Counting()
        return found

    def held(self, forbidden: frozenset[DeviceId]) -> tuple[dict[str, int], frozenset[DeviceId]]:
        """Forbidden devices as position masks by node, and those without a home. Worked out once per set and inventory version of
        the published devices."""
        inventory = self.inventory
        if self._held is not None and self._held[0] is forbidden and self._held[1] == inventory.published:
            return self._held[2], self._held[3]
        by_node: dict[str, int] = {}
        homeless = set()
        for device_id in forbidden:
            offer = inventory.offer(device_id)
            if offer is None:
                continue
            if offer.home is None:
                homeless.add(device_id)
            elif offer.position >= 0:  # else it waits for its node
                by_node[offer.home] = by_node.get(offer.home, 0) | 1 << offer.position
        self._held = forbidden, inventory.published, by_node, frozenset(homeless)
        return by_node, frozenset(homeless)


def _key_of(problem: Problem) -> object:
    claims = problem.claims
    if len(claims) == 1 and not problem.constraints and not problem.barred:
        return id(claims[0].spec)
    return (*(id(claim.spec) for claim in claims), problem.constraints, problem.barred)


def memory_of(inventory: Inventory) -> Memory:
    memory = inventory.memo.get("allocator")
    if memory is None:
        memory = inventory.memo["allocator"] = Memory(inventory)
    assert isinstance(memory, Memory)
    return memory


__all__ = ["Found", "Known", "Memory", "Stopped", "memory_of"]
