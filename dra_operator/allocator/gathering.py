"""Members of a gang gathered on one node: what they take there together, as one problem of all their claims.

Knows nothing of which member goes where (`jointsearch`). What members on other nodes leave over comes in as `Limits`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from dra_operator.allocator.memory import NOTHING, Known, memory_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Bar, Failed, Problem, Strategy, UnitConstraint
from dra_operator.allocator.scoring import Score
from dra_operator.allocator.scoring import best as best_option
from dra_operator.allocator.search import Choice, Work
from dra_operator.allocator.start import Start, make_start
from dra_operator.allocator.table import Table
from dra_operator.api.claims import Allocation, ResourceClaim
from dra_operator.inventory import DeviceId, Inventory, Snapshot
from dra_operator.inventory.kinds import attribute_of, typed
from dra_operator.inventory.pools import Offer
from dra_operator.inventory.views import NodeRecord, State

#: Members on one node, by their sorts, in ascending order.
Group = tuple[int, ...]

#: Requests of one member that a constraint across the gang covers: (claim, request); None: it does not concern the member.
Covered = tuple[tuple[int, str], ...] | None

#: More members than any node takes.
ANY_NUMBER = 1 << 20


@dataclass(frozen=True, slots=True)
class Sort:
    """Members that may be exchanged for each other. `problem` is the first one's; `covered` is by constraint across the gang."""

    index: int
    problem: Problem
    members: tuple[int, ...]
    covered: tuple[Covered, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A required constraint across the gang. `present`: devices of members placed before."""

    attributes: tuple[str, ...]
    distinct: bool
    present: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group has to keep to for the sake of others. By link: `values` the one value all have (None: not settled, or distinct),
    `barred` values that others have. `devices` are left to others."""

    values: tuple[Hashable | None, ...]
    barred: tuple[frozenset[Hashable], ...]
    devices: frozenset[DeviceId] = frozenset()

    def without_value(self, link: int, value: Hashable) -> Limits:
        barred = tuple(known | {value} if number == link else known for number, known in enumerate(self.barred))
        return replace(self, barred=barred)

    def without_device(self, device: DeviceId) -> Limits:
        return replace(self, devices=self.devices | {device})


@dataclass(frozen=True, slots=True)
class Spot:
    """A group's devices on one node."""

    record: NodeRecord
    group: Group
    known: Known
    table: Table
    choice: Choice
    score: Score

    def devices(self) -> Iterator[tuple[Way, int, Offer]]:
        for way, bits in self.choice:
            for bit in bits:
                yield way, bit, self.record.offers[self.table.order[bit]]


class Gathering:
    """Answers for one joint problem on one snapshot. `work` is spent by all of them."""

    def __init__(self, sorts: Sequence[Sort], links: Sequence[Link], snapshot: Snapshot, work: Work) -> None:
        self.sorts, self.links, self.work = sorts, links, work
        self.inventory = snapshot.inventory
        self.memory = memory_of(self.inventory)
        problem = sorts[0].problem
        self.strategy, self.demand, self.ignore_usage = problem.strategy, problem.demand, problem.ignore_usage
        self.held, self.homeless = self.memory.held(problem.forbidden) if problem.forbidden else ({}, frozenset())
        self._known: dict[Group, Known | Failed] = {}
        self._restricted: dict[tuple[int, tuple[tuple[int, int], ...]], Table] = {}
        self._found: dict[Hashable, tuple[Table, Choice, Score] | None] = {}
        self._slots: dict[tuple[State, int, int], int] = {}
        self._values = [_remembered(self.inventory, link.attributes) for link in links]
        self._masks: dict[Hashable, tuple[tuple[int, int], ...]] = {}

    # -- plans -----------------------------------------------------------------------------------------------------

    def known(self, group: Group) -> Known | Failed:
        """The plan of all claims of the group; rules across the gang come first among those across claims."""
        found = self._known.get(group)
        if found is None:
            claims: list[ResourceClaim] = []
            own: list[UnitConstraint] = []
            barred: list[tuple[int, Bar]] = []
            covered: list[list[tuple[int, str]]] = [[] for _ in self.links]
            for number in group:
                sort, first = self.sorts[number], len(claims)
                claims += sort.problem.claims
                own += [_shifted(item, sort.problem, first) for item in sort.problem.constraints]
                barred += [(first + claim, bar) for claim, bar in sort.problem.barred]
                for members, requests in zip(covered, sort.covered, strict=True):
                    members += [(first + claim, request) for claim, request in requests or ()]
            # A link that concerns nobody here is kept with a member that does not exist, so that numbers stay.
            links = [
                UnitConstraint(tuple(members) or ((-1, ""),), link.attributes, link.distinct)
                for members, link in zip(covered, self.links, strict=True)
            ]
            problem = replace(
                self.sorts[0].problem, claims=tuple(claims), constraints=(*links, *own), barred=tuple(barred)
            )
            found = self._known[group] = self.memory.known(problem)
        return found

    def _rule(self, known: Known, link: int) -> int:
        return next(number for number, rule in enumerate(known.plan.rules) if rule.claim is None and rule.index == link)

    # -- answers ---------------------------------------------------------------------------------------------------

    def on(self, name: str, group: Group, limits: Limits) -> Spot | None:
        """Devices for the whole group on one node; None if there are not enough. Raises Stopped."""
        record = self.inventory.nodes.get(name)
        known = self.known(group)
        if record is None or record.state is None or record.view is None or isinstance(known, Failed):
            return None
        exact = self.strategy is Strategy.FirstFit
        table = known.table(record.view, exact)
        masks = self._allowed(known, table, record, group, limits)
        key = (record.state, self.held.get(name, 0), group, masks, limits.devices)
        if key not in self._found:
            start = self._start(table, record, limits.devices)
            narrowed = self._narrowed(table, masks)
            found = known.find(narrowed, start, self.work, exact)
            answer = None
            if found.choices and found.trouble is None:
                terms = known.expectations(self.demand, record.view) if self.strategy is Strategy.Fragmentation else ()
                wished = () if exact else known.plan.preferred
                option, score = best_option(narrowed, found.options(narrowed, start, wished), self.strategy, terms)
                answer = narrowed, option.choice, score
            self._found[key] = answer
        known_answer = self._found[key]
        return None if known_answer is None else Spot(record, group, known, *known_answer)

    def open_to(self, sort: Sort, limits: Limits) -> list[str]:
        """The nodes that may have the devices for one member, by name: without those in states that have not, each asked once."""
        if limits.devices or any(limits.barred) or any(value is not None for value in limits.values):
            return self.inventory.node_names  # nodes in one state differ in these
        found: list[str] = []
        for state in self.inventory.states.populated():
            # Where devices are held for others as well, there is no more than on those where none are.
            plain = next((name for name in state.nodes if name not in self.held), None)
            if plain is None or self.on(plain, (sort.index,), limits) is not None:
                found += state.nodes
        return sorted(found)

    def slots(self, name: str, sort: Sort) -> int:
        """At most so many members of one sort have devices on a node: a quick upper bound."""
        record = self.inventory.nodes[name]
        known = self.known((sort.index,))
        if record.state is None or record.view is None or isinstance(known, Failed):
            return 0
        key = (record.state, self.held.get(name, 0), sort.index)
        found = self._slots.get(key)
        if found is None:
            table = known.table(record.view, self.strategy is Strategy.FirstFit)
            usable = 0
            for column in table.columns:
                usable |= column.usable
            needed = sum(
                min(0 if way.admin else 1 if way.all else way.count for way in requirement.ways)
                for requirement in known.plan.requirements
            )
            found = ANY_NUMBER
            if needed and not usable & table.multi:
                found = (self._start(table, record, frozenset()).free & usable).bit_count() // needed
            self._slots[key] = found
        return found

    def allocations(self, spot: Spot, claims: tuple[ResourceClaim, ...], seed: str) -> tuple[Allocation, ...]:
        """One a claim; `claims` are those of the group's members, in the order of `spot.group`."""
        return spot.known.assembler.allocations(claims, spot.choice, spot.table.order, spot.record, seed)

    def _start(self, table: Table, record: NodeRecord, barred: frozenset[DeviceId]) -> Start:
        if self.ignore_usage:
            start = make_start(table, 0, (), NOTHING, frozenset(), 0)
        else:
            shares = tuple(sorted(record.shares.items())) if record.shares else ()
            held = self.held.get(record.name, 0)
            usage = self.inventory.usage.by_device
            start = make_start(table, record.used, shares, usage, self.homeless, held)
        if not barred:
            return start
        free = start.free
        for bit, position in enumerate(table.order):
            if record.offers[position].id in barred:
                free &= ~(1 << bit)
        return replace(start, free=free)

    # -- values of links -------------------------------------------------------------------------------------------

    def values_of(self, link: int, devices: Sequence[DeviceId]) -> list[frozenset[Hashable]]:
        """What published devices have for a link; devices that are gone or lack it are left out."""
        found = []
        for device in devices:
            offer = self.inventory.offer(device)
            values = None if offer is None else self._value(link, offer)
            if values is not None:
                found.append(values)
        return found

    def values_in(self, spot: Spot, link: int) -> list[frozenset[Hashable]]:
        """What a group's devices have for a link, by device."""
        rule = self._rule(spot.known, link)
        found = []
        for way, bit, offer in spot.devices():
            if rule in way.constraints:
                found.append(self._value_for(way, link, rule, bit, offer, spot.table) or frozenset())
        return found

    def offered(self, name: str, sort: Sort, link: int) -> Iterator[frozenset[Hashable]]:
        """The values of free devices on a node that the link would cover for a member, each device once."""
        record, known = self.inventory.nodes.get(name), self.known((sort.index,))
        if record is None or record.view is None or isinstance(known, Failed):
            return
        table = known.table(record.view, self.strategy is Strategy.FirstFit)
        rule = self._rule(known, link)
        free = self._start(table, record, frozenset()).free
        seen = 0
        for way in known.plan.ways:
            if rule not in way.constraints:
                continue
            usable = table.columns[way.index].usable & (-1 if way.admin else free) & ~seen
            seen |= usable
            for bit, position in enumerate(table.order):
                if usable >> bit & 1:
                    yield self._value_for(way, link, rule, bit, record.offers[position], table) or frozenset()

    def least(self, sort: Sort, link: int) -> int:
        """So many different devices of one member are under a link at the least."""
        known = self.known((sort.index,))
        if isinstance(known, Failed):
            return 0
        rule = self._rule(known, link)
        return sum(
            min(
                0 if rule not in way.constraints or way.admin else 1 if way.all else way.count
                for way in requirement.ways
            )
            for requirement in known.plan.requirements
        )

    def _value(self, link: int, offer: Offer) -> frozenset[Hashable] | None:
        """None without the attribute; empty for a list whose feature is off, which is equal to nothing."""
        known = self._values[link]
        if offer.id not in known:
            known[offer.id] = self._read(link, offer)
        return known[offer.id]

    def _read(self, link: int, offer: Offer) -> frozenset[Hashable] | None:
        for name in self.links[link].attributes:
            found = attribute_of(offer.device, offer.id.driver, name)
            if found is None:
                continue
            if not isinstance(found, tuple):
                return frozenset((typed(found),))
            # These constraints are ours and not the API's: a list is a list, whether the feature is on or not.
            return frozenset(map(typed, found)) or None
        return None

    def _value_for(
        self, way: Way, link: int, rule: int, bit: int, offer: Offer, table: Table
    ) -> frozenset[Hashable] | None:
        """Values differ between nodes of one view, so they are read off the node's own devices; only derived ones do not."""
        if self.links[link].attributes[0] not in way.derived:
            return self._value(link, offer)
        value = table.columns[way.index].values.get(rule, {}).get(bit)
        return value if isinstance(value, frozenset) or value is None else frozenset((value,))

    def _allowed(
        self, known: Known, table: Table, record: NodeRecord, group: Group, limits: Limits
    ) -> tuple[tuple[int, int], ...]:
        """Per way that a link restricts, the bits it may take."""
        concerned = [link for link in range(len(self.links)) if limits.values[link] is not None or limits.barred[link]]
        if not concerned:
            return ()
        key = (record.name, group, limits.values, limits.barred)
        masks = self._masks.get(key)
        if masks is None:
            rules = [(link, self._rule(known, link)) for link in concerned]
            found = []
            for way in known.plan.ways:
                mine = [(link, rule) for link, rule in rules if rule in way.constraints]
                if mine:
                    found.append((way.index, self._mask(way, mine, table, record, limits)))
            masks = self._masks[key] = tuple(found)
        return masks

    def _mask(self, way: Way, links: list[tuple[int, int]], table: Table, record: NodeRecord, limits: Limits) -> int:
        mask = 0
        for bit, position in enumerate(table.order):
            for link, rule in links:
                values = self._value_for(way, link, rule, bit, record.offers[position], table)
                wanted, barred = limits.values[link], limits.barred[link]
                if values is None or (wanted is not None and wanted not in values) or values & barred:
                    break
            else:
                mask |= 1 << bit
        return mask

    def _narrowed(self, table: Table, masks: tuple[tuple[int, int], ...]) -> Table:
        """The table with fewer usable devices; nodes whose values have the same pattern share it."""
        if not masks:
            return table
        key = (id(table), masks)
        narrowed = self._restricted.get(key)
        if narrowed is None:
            narrowed = Table(table.plan, table.view)
            for name in Table.__slots__:
                if name != "answers":
                    setattr(narrowed, name, getattr(table, name))
            columns = list(table.columns)
            for way, mask in masks:
                column = columns[way]
                columns[way] = replace(
                    column,
                    usable=column.usable & mask,
                    lacking=column.lacking | column.every & ~mask,
                    masks={
                        rule: {value: bits & mask for value, bits in by_value.items() if bits & mask}
                        for rule, by_value in column.masks.items()
                    },
                )
            narrowed.columns = columns
            self._restricted[key] = narrowed
        return narrowed


#: Values of devices by attribute names.
_Values = dict[DeviceId, frozenset[Hashable] | None]


def _remembered(inventory: Inventory, attributes: tuple[str, ...]) -> _Values:
    """What was read of devices for these attributes, kept as long as nothing is published anew."""
    kept = inventory.memo.get("gathering")
    if not isinstance(kept, tuple) or kept[0] != inventory.published:
        kept = inventory.memo["gathering"] = (inventory.published, {})
    values: dict[tuple[str, ...], _Values] = kept[1]
    return values.setdefault(attributes, {})


def _shifted(item: UnitConstraint, problem: Problem, first: int) -> UnitConstraint:
    """A member's own constraint in the numbering of the group."""
    members = item.members or tuple(
        (claim, request.name)
        for claim, spec in enumerate(claim.spec for claim in problem.claims)
        for request in spec.requests
    )
    return replace(item, members=tuple((first + claim, request) for claim, request in members))
