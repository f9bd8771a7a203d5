"""Layout: which devices of a pool are at one node, and in which order a node sees those of all its pools.

Worked out from what a pool offers and who is reached; what is taken, and which nodes are alike, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.inventory.pools import Offer, Pool, source_of
from dra_operator.inventory.reach import Reach
from dra_operator.inventory.views import NodeRecord, Section


def settle(pool: Pool) -> None:
    """Sort what the pool offers into devices at one node by name (`here`) and the rest (`shared`), and give the former their `home`."""
    content = pool.content
    pool.here, pool.shared = {}, []
    pool.binding = {
        resource_slice.name
        for resource_slice in content.slices
        if any(device.binding_conditions for device in resource_slice.devices)
    }
    tied = bool(content.counter_sets)
    seen_at: set[str | None] = set()
    for offer in content.offers:
        name = offer.device.node_name if offer.slice.per_device_node_selection else offer.slice.node_name
        seen_at.add(name)
        if name is None:
            pool.shared.append(offer)
        else:
            pool.here.setdefault(name, []).append(offer)
            offer.home = name
    if tied and len(seen_at) > 1:
        for offer in content.offers:
            offer.home = None
    pool.common = not pool.here and all(source_of(offer).all_nodes for offer in pool.shared)


def lay_out(record: NodeRecord, pools: Iterable[Pool], reach: Reach) -> None:
    """Put the devices of these pools that the node can use in its order: `offers` and `sections` of the record."""
    parts: list[tuple[tuple[bool, str, str], Pool, list[Offer]]] = []
    for pool in pools:
        offers = pool.here.get(record.name, [])
        if pool.shared:
            offers = [*offers, *(offer for offer in pool.shared if reach.selects(source_of(offer), record))]
            offers.sort(key=lambda offer: offer.rank)
        # Pools with any device that has binding conditions come last, as in the in-tree allocator: also if that
        # device of the slice is for other nodes.
        later = bool(pool.binding) and any(offer.slice.name in pool.binding for offer in offers)
        parts.append(((later, pool.id.driver, pool.id.pool), pool, offers))
    parts.sort(key=lambda part: part[0])
    record.offers = []
    sections: list[Section] = []
    for _, pool, offers in parts:
        start = len(record.offers)
        record.offers += offers
        local = all(offer.home is not None for offer in offers)
        sections.append(Section(pool, start, len(record.offers), local))
    record.sections = tuple(sections)
