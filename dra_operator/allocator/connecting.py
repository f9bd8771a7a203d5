"""Better connected sets of devices: exchanges devices of a solution for equal ones, as preferred constraints would have it.

The search takes devices that no rule tells apart as it finds them. Where a preferred constraint cannot be kept to as a whole, such as six
devices on one of two halves of four, this makes four and two of three and three. Exchanges only what the solution leaves free, for devices
that the request accepts as well and that share no counters and no capacity with others, so that a solution stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import UnitConstraint
from dra_operator.allocator.search import Choice
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table
from dra_operator.inventory.kinds import attribute_of, typed

Values = frozenset[Hashable]


def values_of(table: Table, constraint: UnitConstraint, bit: int) -> Values:
    """What a device has for the constraint: one value or, of a list, several; none without the attribute."""
    offer = table.view.offers[table.order[bit]]
    found = (attribute_of(offer.device, offer.id.driver, name) for name in constraint.attributes)
    value = next((item for item in found if item is not None), None)
    if value is None:
        return frozenset()
    return frozenset(map(typed, value)) if isinstance(value, tuple) else frozenset((typed(value),))


def covers(constraint: UnitConstraint, way: Way) -> bool:
    request = way.name.partition("/")[0]
    members = constraint.members
    return not members or (way.claim, request) in members or (way.claim, way.name) in members


def connected(table: Table, start: Start, choice: Choice, preferred: Sequence[UnitConstraint]) -> Iterator[Choice]:
    """The choice with one preferred matchAttribute after the other seen to, the heaviest first."""
    for constraint in sorted(preferred, key=lambda item: -item.weight):
        if constraint.distinct:
            continue
        better = _exchanged(table, start, choice, constraint)
        if better is not None:
            choice = better
            yield choice


def _exchanged(table: Table, start: Start, choice: Choice, constraint: UnitConstraint) -> Choice | None:
    """As many of the constraint's devices as possible with one value; None where nothing can be exchanged."""
    covered = [number for number, (way, _) in enumerate(choice) if covers(constraint, way)]
    open_ways = [number for number in covered if _is_open(choice[number][0])]
    if not open_ways:
        return None
    known: dict[int, Values] = {}

    def values(bit: int) -> Values:
        if bit not in known:
            known[bit] = values_of(table, constraint, bit)
        return known[bit]

    taken = 0
    for way, bits in choice:
        if not way.admin:
            for bit in bits:
                taken |= 1 << bit
    movable = {number: [bit for bit in choice[number][1] if _is_simple(table, bit)] for number in open_ways}
    freed = sum(1 << bit for bits in movable.values() for bit in bits)
    room = (start.free & ~taken) | freed
    options: dict[Hashable, None] = {}
    for number in covered:
        column = table.columns[choice[number][0].index]
        for bit in range(len(table.order)):
            if column.usable >> bit & 1 and (room | taken) >> bit & 1:
                options.update(dict.fromkeys(values(bit)))
    best: tuple[int, Choice] | None = None
    for value in options:
        found = _with_value(table, choice, value, movable, room, values)
        alike = sum(1 for number in covered for bit in found[number][1] if value in values(bit))
        if best is None or alike > best[0]:
            best = alike, found
    return None if best is None or best[1] == choice else best[1]


def _with_value(
    table: Table,
    choice: Choice,
    value: Hashable,
    movable: dict[int, list[int]],
    room: int,
    values: Callable[[int], Values],
) -> Choice:
    """The movable devices replaced by such with the value as far as there are any, then by those there were."""
    left = room
    entries = list(choice)
    for number, bits in movable.items():
        way, picked = entries[number]
        usable = table.columns[way.index].usable & ~table.binding
        wanted = [
            bit
            for bit in range(len(table.order))
            if left >> bit & usable >> bit & 1 and value in values(bit) and _is_simple(table, bit)
        ][: len(bits)]
        for bit in wanted:
            left &= ~(1 << bit)
        entries[number] = way, (*(bit for bit in picked if bit not in bits), *wanted)
    for number, bits in movable.items():
        way, picked = entries[number]
        lacking = len(choice[number][1]) - len(picked)
        usable = table.columns[way.index].usable
        fillers = [bit for bit in bits if left >> bit & 1]
        fillers += [
            bit
            for bit in range(len(table.order))
            if left >> bit & usable >> bit & 1 and bit not in fillers and _is_simple(table, bit)
        ]
        chosen = fillers[:lacking]
        if len(chosen) < lacking:
            return choice
        for bit in chosen:
            left &= ~(1 << bit)
        entries[number] = way, tuple(sorted((*picked, *chosen)))
    return tuple(entries)


def _is_open(way: Way) -> bool:
    """Does nothing but the request itself say which devices it may have?"""
    return not way.all and not way.admin and not way.constraints


def _is_simple(table: Table, bit: int) -> bool:
    """Is the device taken whole, and nothing else with it?"""
    return not table.multi >> bit & 1 and table.order[bit] not in table.counters.drains
