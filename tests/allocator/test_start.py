"""What is free on a node is worked out from masks that follow every change; here it is looked up device by device."""

from __future__ import annotations

from random import Random

import pytest

from dra_operator.allocator import Failed, Problem
from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.start import Start, joined, make_start
from dra_operator.allocator.table import Table
from dra_operator.api.claims import Allocation, DeviceResult, ResourceClaim
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.views import NodeRecord
from tests.allocator.test_masks import network
from tests.engine.stage import GPU, claim
from tests.inventory.test_incremental import World


def looked_up(
    table: Table, inventory: Inventory, record: NodeRecord, forbidden: frozenset[DeviceId], held: int
) -> Start:
    """The start of a node, from what the inventory says of each of its devices."""
    free = running = kept = 0
    left: list[tuple[int, tuple[int, ...]]] = []
    for bit, position in enumerate(table.order):
        offer = record.offers[position]
        occupancy = inventory.occupancy(offer.id)
        multi = bool(table.multi >> bit & 1)
        is_held = offer.id in forbidden if offer.home is None else bool(held >> position & 1)
        whole = occupancy is not None and bool(occupancy.whole or not multi)
        if occupancy is not None and occupancy.shares and not table.plain:
            running |= 1 << bit
        if is_held:
            kept |= 1 << bit
        elif not whole:
            free |= 1 << bit
            if multi:
                consumed = {} if occupancy is None else occupancy.consumed
                sizes = record.offers[position].device.capacity
                left.append((bit, tuple(sizes[name].nano - consumed.get(name, 0) for name in sorted(sizes))))
    counters = list(table.counters.total)
    sets: list[frozenset[str] | None] = [None] * table.counters.sets
    for index, section in enumerate(table.view.sections):
        numbers = {
            name: number
            for number, (at, name) in enumerate(zip(table.counters.sections, table.counters.names, strict=True))
            if at == index
        }
        members = {name: number for number, (at, name) in enumerate(table.counters.set_names) if at == index}
        pool = record.sections[index].pool
        here = {offer.id: position for position, offer in enumerate(record.offers)}
        for offer in pool.content.offers:
            position = here.get(offer.id, -1)
            own_held = offer.home == record.name and position >= 0 and bool(held >> position & 1)
            if inventory.occupancy(offer.id) is None and offer.id not in forbidden and not own_held:
                continue
            if section.local and position < 0:
                continue
            for use in offer.device.consumes:
                for name, amount in use.counters.items():
                    if (use.counter_set, name) in numbers:
                        counters[numbers[use.counter_set, name]] -= amount.nano
                if use.counter_set in members and table.counters.sets:
                    number = members[use.counter_set]
                    sets[number] = joined(sets[number], frozenset(use.compatibility_groups))
    return Start(free, running, tuple(left), tuple(counters), tuple(sets), kept)


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_a_start_is_what_the_devices_say(first: int) -> None:
    assert sum(compared(seed) for seed in range(first, first + 10)) > 300


def compared(seed: int) -> int:
    """Compare the starts of all nodes after each change of a random cluster; how many these were."""
    world, random = World(seed), Random(seed)
    claims = tuple(ResourceClaim.from_dict(raw) for raw in world.problem["claims"])
    count = 0
    for _ in range(60):
        world.step()
        inventory = world.live
        known = memory_of(inventory).known(Problem(claims))
        inventory.refresh()
        if isinstance(known, Failed):
            continue
        shared = [offer.id for offer in inventory.offers() if offer.home is None]
        forbidden = frozenset(device for device in shared if random.random() < 0.1)
        for name in inventory.node_names:
            record = inventory.nodes[name]
            assert record.state is not None
            state, held = record.state, random.getrandbits(6) if random.random() < 0.3 else 0
            held &= sum(1 << at for at, offer in enumerate(record.offers) if offer.home is not None)
            for as_published in (False, True):
                table = known.table(state.view, as_published)
                occupied = inventory.usage.by_device
                start = make_start(table, state.used, state.shares, occupied, forbidden, held)
                assert start == looked_up(table, inventory, record, forbidden, held)
                count += 1
    return count


def test_a_claim_of_devices_in_the_network_costs_a_look_at_those_that_changed() -> None:
    inventory = network(3, 2_000)
    known = memory_of(inventory).known(Problem((ResourceClaim.from_dict(claim("c", 1)),)))
    assert not isinstance(known, Failed)
    inventory.refresh()
    state = inventory.states.populated()[0]
    table = known.table(state.view, False)

    def start() -> Start:
        return make_start(table, state.used, state.shares, inventory.usage.by_device, frozenset(), 0)

    for number in range(1_000):
        inventory.use(f"u{number}", Allocation((DeviceResult("r", GPU, f"pool-{number % 20}", f"gpu-{number // 20}"),)))
    assert start().free.bit_count() == 1_000
    assert table.in_use is not None
    for number in range(100):
        before = table.in_use.looked_at
        inventory.release(f"u{number}")
        inventory.use(f"v{number}", Allocation((DeviceResult("r", GPU, "pool-1", f"gpu-{number}"),)))
        assert start() == looked_up(table, inventory, inventory.nodes["n0"], frozenset(), 0)
        assert table.in_use.looked_at - before == 2
