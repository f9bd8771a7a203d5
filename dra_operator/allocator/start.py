"""Where a search starts: what is free on a node in some state, in the terms of a table.

Two states that start alike get one answer, however much they differ in devices the plan has no use for.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_operator.allocator.masks import bits_of, mask_of
from dra_operator.allocator.table import Table
from dra_operator.api.records import record
from dra_operator.inventory.identity import DeviceId
from dra_operator.inventory.usage import Occupancy
from dra_operator.inventory.views import Shares

#: Compatibility groups of what uses a counter set: None = unused, empty = used by devices without groups.
Groups = tuple[frozenset[str] | None, ...]


@record
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
    if not table.local:
        return _work_out(table, used, shares, occupied, forbidden, held_positions)
    if table.plain and shares:
        for position, _ in shares:
            # Shares of a device that does not allow any: it is in use.
            used |= 1 << position
        shares = ()
    known = table.starts.get((used, shares, held_positions))
    if known is None:
        if len(table.starts) > (_PLAIN_KEPT if table.plain else _KEPT):
            table.starts.clear()
        known = _work_out(table, used, shares, occupied, forbidden, held_positions)
        table.starts[used, shares, held_positions] = known
    assert isinstance(known, Start)
    return known


#: Starts that are remembered of one table; those with shares are larger.
_PLAIN_KEPT = 16_384
_KEPT = 1024


def _work_out(
    table: Table,
    used: int,
    shares: Shares,
    occupied: Mapping[DeviceId, Occupancy],
    forbidden: frozenset[DeviceId],
    held_positions: int,
) -> Start:
    shared_out = mask_of([position for position, _ in shares], len(table.view.offers)) if shares else 0
    whole, running, held = table.own_bits(used), table.own_bits(shared_out), table.own_bits(held_positions)
    in_use = table.in_use
    if in_use is not None:
        if occupied:
            in_use.catch_up(occupied)
            whole |= in_use.whole
            running |= in_use.running
        if forbidden:
            held |= in_use.mask_of(forbidden)
    # A device that cannot be shared, or not any more, and has shares all the same.
    whole |= running & ~table.multi
    free = table.bits & ~(whole | held)
    left = _left(table, free, dict(shares), occupied) if table.multi else ()
    counters, groups = _counters(table, used | held_positions | shared_out, occupied, forbidden)
    return Start(free, running, left, counters, groups, held)


def _left(
    table: Table,
    free: int,
    share_of: dict[int, tuple[tuple[str, int], ...]],
    occupied: Mapping[DeviceId, Occupancy],
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """What is left of each shareable device, by bit."""
    view = table.view
    left: list[tuple[int, tuple[int, ...]]] = []
    for bit in bits_of(table.multi & free):
        position, limits = table.order[bit], table.limits[bit]
        if table.shared >> bit & 1:
            occupancy = occupied.get(view.offers[position].id)
            consumed = None if occupancy is None else occupancy.key
        else:
            consumed = share_of.get(position)
        if consumed:
            taken = dict(consumed)
            names = view.kinds[position].sizes
            limits = tuple([limit - taken.get(name, 0) for (name, _), limit in zip(names, limits, strict=True)])
        left.append((bit, limits))
    return tuple(left)


def _counters(
    table: Table, taken: int, occupied: Mapping[DeviceId, Occupancy], forbidden: frozenset[DeviceId]
) -> tuple[tuple[int, ...], Groups]:
    """What is left of the counters, and the groups of what uses the counter sets.

    `taken`: positions of the node's own devices in use or held. Held devices count as used: what overlaps with them would take their
    counters away.
    """
    numbers = table.counters
    if not numbers.total and not numbers.groups:
        return (), ()
    view = table.view
    left = list(numbers.total)
    groups: list[frozenset[str] | None] = [None] * numbers.sets
    drained = bits_of(taken & numbers.own)
    for position in numbers.shared:
        device = view.offers[position].id
        if device in occupied or device in forbidden:
            drained.append(position)
    for position in drained:
        for number, amount in numbers.drains[position]:
            left[number] -= amount
        for number, names in numbers.groups.get(position, ()):
            groups[number] = joined(groups[number], names)
    if numbers.abroad:
        seen = {view.offers[position].id for position in numbers.shared}
        for index in numbers.abroad:
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
