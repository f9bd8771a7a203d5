"""The ground: what the nodes with one view have for a problem, whoever holds it now.

What bears on it: devices that the problem could take, and devices that take shared counters from these.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.allocator import Trial
from dra_operator.allocator.plan import Plan
from dra_operator.allocator.table import Table
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.views import View


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """`usable` and `relevant`: positions of the node's own devices, as bits; `shared`: the same for devices that several nodes see
    (relevant ones, with whether the problem could take them). `open`: how many of the usable shared ones are free.

    `need`: so many different devices the problem takes at the least; 0 where devices can be taken in shares, several of one.
    `hidden`: counters are also taken by devices these nodes do not see.
    """

    table: Table
    usable: int
    relevant: int
    shared: dict[DeviceId, bool]
    open: int
    need: int
    hidden: bool


def ground_of(trial: Trial, view: View, inventory: Inventory) -> Ground | None:
    """None where the problem has no use for any device, or not for enough of them."""
    table = trial.table(view)
    bits = 0
    for column in table.columns:
        bits |= column.usable
    positions = {position for bit, position in enumerate(table.order) if bits >> bit & 1}
    concerned = positions | table.counters.drains.keys() | table.counters.groups.keys()
    shared: dict[DeviceId, bool] = {}
    usable = relevant = 0
    for position in concerned:
        offer = view.offers[position]
        if offer.home is None:
            shared[offer.id] = position in positions
        else:
            relevant |= 1 << position
            if position in positions:
                usable |= 1 << position
    hidden = _add_hidden(view, table, shared)
    need = 0 if table.multi & bits else _needed(trial.plan, table)
    if len(positions) < need:
        return None
    occupied = inventory.usage.by_device
    free = sum(taken and device not in occupied and device not in trial.homeless for device, taken in shared.items())
    return Ground(table, usable, relevant, shared, free, need, hidden)


def _needed(plan: Plan, table: Table) -> int:
    """Different devices at the least, with the cheapest way of each request. Admin access takes none."""
    return sum(
        min(
            0 if way.admin else table.columns[way.index].every.bit_count() if way.all else way.count
            for way in requirement.ways
        )
        for requirement in plan.requirements
    )


def _add_hidden(view: View, table: Table, shared: dict[DeviceId, bool]) -> bool:
    """Devices that take counters of a pool these nodes share, but are for other nodes."""
    hidden = False
    for index in {*table.counters.sections, *(index for index, _ in table.counters.set_names)}:
        section = view.sections[index]
        if section.local:
            continue
        for offer in section.pool.content.offers:
            if offer.device.consumes and offer.id not in shared:
                shared[offer.id] = False
                hidden = True
    return hidden
