"""Where a search starts: what is free on a node in some state, in the terms of a table.

Two states that start alike get one answer, however much they differ in devices the plan has no use for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dra_operator.allocator.masks import SHORT, mask_of
from dra_operator.allocator.table import Table
from dra_operator.inventory.identity import DeviceId
from dra_operator.inventory.usage import Occupancy
from dra_operator.inventory.views import Shares

#: Compatibility groups of what uses a counter set: None = unused, empty = used by devices without groups.
Groups = tuple[frozenset[str] | None, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """`free`: bits of devices nobody uses whole. `running`: bits of devices that have shares already. `left`: what is left of each
    shareable device, by bit. `counters`: what is left of them. `held` bits are not free and used by nobody."""

    free: int
    running: int
    left: tuple[tuple[int, tuple[int, ...]], ...]
    counters: tuple[int, ...]
    groups: Groups
    held: int


def make_start(
    table: Table,
    used: int,
    shares: Shares,
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
    held_positions: int,
) -> Start:
    """`used`, `shares` and `held_positions` are of the node's own devices; shared devices are looked up in `occupied`."""
    if not table.plain:
        return _work_out(table, used, shares, occupied, forbidden, held_positions)
    for position, _ in shares:
        # Shares of a device that does not allow any: it is in use.
        used |= 1 << position
    known = table.starts.get((used, held_positions))
    if known is None:
        if len(table.starts) > _STARTS_KEPT:
            table.starts.clear()
        known = table.starts[used, held_positions] = _work_out(table, used, (), occupied, forbidden, held_positions)
    assert isinstance(known, Start)
    return known


_STARTS_KEPT = 16_384


def _work_out(
    table: Table,
    used: int,
    shares: Shares,
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
    held_positions: int,
) -> Start:
    if len(table.order) > SHORT and not table.multi and table.shared.bit_count() == len(table.order):
        return _of_shared(table, used | held_positions, shares, occupied, forbidden)
    view = table.view
    share_of = dict(shares)
    free = running = held = 0
    left: list[tuple[int, tuple[int, ...]]] = []
    for bit, position in enumerate(table.order):
        mask = 1 << bit
        if not table.shared & mask:
            whole = bool(used >> position & 1)
            consumed = share_of.get(position)
            is_held = bool(held_positions >> position & 1)
        else:
            offer = view.offers[position]
            occupancy = occupied.get(offer.id)
            whole = occupancy is not None and bool(occupancy.whole or not offer.device.allow_multiple)
            consumed = None if occupancy is None else occupancy.key
            is_held = offer.id in forbidden
        if not table.multi & mask:
            whole = whole or consumed is not None
        elif not whole and not is_held:
            taken = dict(consumed or ())
            left.append(
                (
                    bit,
                    tuple(
                        limit - taken.get(name, 0)
                        for (name, _), limit in zip(view.kinds[position].sizes, table.limits[bit], strict=True)
                    ),
                )
            )
        if consumed is not None:
            running |= mask
        if is_held:
            held |= mask
        elif not whole:
            free |= mask
    counters, groups = _counters(table, used | held_positions, share_of, occupied, forbidden)
    return Start(free, running, tuple(left), counters, groups, held)


def _of_shared(
    table: Table,
    used: int,
    shares: Shares,
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
) -> Start:
    """As `_work_out`, where all devices are seen by several nodes and none can be shared by claims: looks at those in use alone."""
    width = len(table.order)
    bits = table.shared_bits
    if bits is None:
        offers = table.view.offers
        bits = table.shared_bits = {offers[position].id: bit for bit, position in enumerate(table.order)}
    whole, running = [], []
    for device in bits.keys() & occupied.keys():
        occupancy, bit = occupied[device], bits[device]
        if occupancy.shares:
            running.append(bit)
            whole.append(bit)
        elif occupancy.whole or not table.view.offers[table.order[bit]].device.allow_multiple:
            whole.append(bit)
    held = mask_of((bits[device] for device in forbidden if device in bits), width)
    free = (1 << width) - 1 & ~mask_of(whole, width) & ~held
    counters, groups = _counters(table, used, dict(shares), occupied, forbidden)
    return Start(free, mask_of(running, width), (), counters, groups, held)


def _counters(
    table: Table,
    used: int,
    share_of: dict[int, tuple[tuple[str, int], ...]],
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
) -> tuple[tuple[int, ...], Groups]:
    """What is left of the counters, and the groups of what uses the counter sets. Held devices count as used: what overlaps with
    them would take their counters away."""
    numbers = table.counters
    if not numbers.total and not numbers.groups:
        return (), ()
    view = table.view
    left = list(numbers.total)
    groups: list[frozenset[str] | None] = [None] * numbers.sets
    seen: set[DeviceId] = set()
    for position, drains in numbers.drains.items():
        offer = view.offers[position]
        if offer.home is None:
            seen.add(offer.id)
            taken = offer.id in occupied or offer.id in forbidden
        else:
            taken = bool(used >> position & 1) or position in share_of
        if taken:
            for number, amount in drains:
                left[number] -= amount
            for number, names in numbers.groups.get(position, ()):
                groups[number] = joined(groups[number], names)
    for index in dict.fromkeys(numbers.sections):
        section = view.sections[index]
        if not section.local:
            _elsewhere(table, index, seen, occupied, forbidden, left, groups)
    return tuple(left), tuple(groups)


def _elsewhere(
    table: Table,
    index: int,
    seen: set[DeviceId],
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
    left: list[int],
    groups: list[frozenset[str] | None],
) -> None:
    """Subtract what devices of the pool take that this node does not see."""
    numbers = table.counters
    by_name = {
        name: number
        for number, (section, name) in enumerate(zip(numbers.sections, numbers.names, strict=True))
        if section == index
    }
    set_numbers = {name: number for number, (section, name) in enumerate(numbers.set_names) if section == index}
    for offer in table.view.sections[index].pool.content.offers:
        if offer.id in seen or not offer.device.consumes:
            continue
        if offer.id not in occupied and offer.id not in forbidden:
            continue
        for use in offer.device.consumes:
            for name, amount in use.counters.items():
                number = by_name.get((use.counter_set, name))
                if number is not None:
                    left[number] -= amount.nano
            member = set_numbers.get(use.counter_set)
            if member is not None and numbers.sets:
                groups[member] = joined(groups[member], frozenset(use.compatibility_groups))


#: Groups that go with nothing: the users of the set have none in common (the slices changed under them).
_DEAD = frozenset(("",))


def joined(running: frozenset[str] | None, names: frozenset[str]) -> frozenset[str]:
    """The groups in common once a device with `names` uses the set as well."""
    if running is None:
        return names
    if not running or not names:
        return running
    return running & names or _DEAD


def admits(running: frozenset[str] | None, names: frozenset[str]) -> bool:
    """May a device with these groups join? Devices without groups only go with others without."""
    if running is None:
        return True
    if not names or not running:
        return not names and not running
    return bool(running & names)
