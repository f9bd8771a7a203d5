"""Statistics of a failed attempt: at which step each device fell out, summed over states instead of nodes.

Only counting; the explanation in words is made elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dra_operator.allocator.masks import bits_of, mask_of
from dra_operator.allocator.memory import NOTHING, Known
from dra_operator.allocator.plan import Way
from dra_operator.allocator.problem import Problem, RequestStats, SelectorWarning, Strategy, Unsolved
from dra_operator.allocator.selection import Rejected
from dra_operator.allocator.start import make_start
from dra_operator.allocator.table import Table
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.views import State


class Survey:
    """One look at everything the plan could not use."""

    def __init__(
        self,
        problem: Problem,
        inventory: Inventory,
        known: Known,
        held: Mapping[str, int],
        homeless: frozenset[DeviceId],
        unfit: frozenset[str],
    ) -> None:
        self.problem, self.inventory, self.known = problem, inventory, known
        self.held, self.homeless, self.unfit = held, homeless, unfit
        #: Devices of several nodes are counted once, at the first state whose nodes may be used, else at the first that has them.
        self.counted: set[DeviceId] = set()

    def unsolved(self) -> Unsolved:
        """The attempt in numbers."""
        plan = self.known.plan
        stats = [
            RequestStats(way.claim, way.name, way.detail.device_class_name, None if way.all else way.count)
            for way in plan.ways
        ]
        tried = excluded = 0
        broken_pools: dict[str, None] = {}
        candidates = None if self.problem.nodes is None else frozenset(self.problem.nodes)
        left_out: list[State] = []
        for state in self.inventory.states.populated():
            names = state.nodes if candidates is None else [name for name in state.nodes if name in candidates]
            allowed = [name for name in names if name not in self.unfit] if self.unfit else names
            table = self.known.table(state.view, self.problem.strategy is Strategy.FirstFit)
            out = len(state.nodes) - len(allowed)
            tried += len(allowed)
            excluded += out
            if not allowed:
                left_out.append(state)
            fresh = self._fresh(state) if allowed else frozenset()
            special = [name for name in allowed if name in self.held] if self.held else []
            for way in plan.ways:
                row = stats[way.index]
                self._static(row, table, way, len(allowed), out, fresh)
                if len(allowed) > len(special):
                    self._dynamic(row, table, state, way, 0, len(allowed) - len(special), fresh)
                for number, name in enumerate(special):
                    once = fresh if number == 0 and len(allowed) == len(special) else frozenset()
                    self._dynamic(row, table, state, way, self.held[name], 1, once)
            if state.view.broken and allowed:
                for name in allowed:
                    for section in self.inventory.nodes[name].sections:
                        content = section.pool.content
                        reason = content.incomplete or content.invalid
                        if reason is not None:
                            broken_pools.setdefault(f"{section.pool.id}: {reason}")
        for state in left_out:
            for row in stats if (fresh := self._fresh(state)) else ():
                row.seen += len(fresh)
                row.node += len(fresh)
        return Unsolved(
            tuple(stats), tried, excluded, tuple(broken_pools), warnings_of(self.known, self.inventory, self.problem)
        )

    def _fresh(self, state: State) -> frozenset[int]:
        """Positions of the devices of several nodes that no state before this one had."""
        view = state.view
        fresh = frozenset(
            position
            for position, offer in enumerate(view.offers if view.shared_pools else ())
            if offer.home is None and offer.id not in self.counted
        )
        self.counted.update(view.offers[position].id for position in fresh)
        return fresh

    def _static(self, row: RequestStats, table: Table, way: Way, nodes: int, out: int, fresh: frozenset[int]) -> None:
        column = table.columns[way.index]
        own = column.rejected["seen"]
        row.seen += own * (nodes + out) + len(fresh)
        row.node += own * out
        if not nodes:
            return
        found = Counter({reason: count * nodes for reason, count in column.rejected.items()})
        found.update(reason for position, reason in column.abroad.items() if position in fresh)
        for reason, count in found.items():
            if isinstance(reason, Rejected):
                counted = row.class_selectors if reason.by_class else row.request_selectors
                counted[reason.index] = counted.get(reason.index, 0) + count
        row.selector_errors += found["broken"]
        row.unsupported += found["unsupported"]
        row.tainted += found["tainted"]
        row.capacity += found["capacity"]
        row.constraint += found["constraint"]

    def _dynamic(
        self, row: RequestStats, table: Table, state: State, way: Way, held: int, nodes: int, fresh: frozenset[int]
    ) -> None:
        usable = table.columns[way.index].usable
        if not usable:
            return
        once = mask_of([bit for bit, position in enumerate(table.order) if position in fresh], len(table.order))

        def count(mask: int) -> int:
            return (mask & ~table.shared).bit_count() * nodes + (mask & once).bit_count()

        empty = self.problem.ignore_usage
        start = make_start(
            table,
            0 if empty else state.used,
            () if empty else state.shares,
            NOTHING if empty else self.inventory.usage.by_device,
            self.homeless,
            held,
        )
        if way.admin:
            row.available += count(usable)
            row.most_on_a_node = max(row.most_on_a_node, usable.bit_count())
            return
        row.held += count(usable & start.held)
        row.allocated += count(usable & ~start.free & ~start.held)
        left = dict(start.left)
        small = drained = 0
        for bit in bits_of(usable & start.free):
            takes = table.columns[way.index].takes.get(bit, ())
            if bit in left and any(take > have for take, have in zip(takes, left[bit], strict=True)):
                small |= 1 << bit
            elif not start.running >> bit & 1 and any(
                amount > 0 and amount > start.counters[number]
                for number, amount in table.counters.drains.get(table.order[bit], ())
            ):
                drained |= 1 << bit
        available = usable & start.free & ~small & ~drained
        row.capacity += count(small)
        row.counters += count(drained)
        row.available += count(available)
        row.most_on_a_node = max(row.most_on_a_node, available.bit_count())


def warnings_of(known: Known, inventory: Inventory, problem: Problem) -> tuple[SelectorWarning, ...]:
    """One warning for each selector that fails, with the first device it fails on."""
    if not known.broken:
        return ()
    tables = [table for table in known.tables() if any(column.broken for column in table.columns)]
    states = {state.view: state for state in inventory.states.populated()}
    found: dict[tuple[int, bool, int], SelectorWarning] = {}
    for table in tables:
        state = states.get(table.view)
        if state is None:
            continue
        offers = inventory.nodes[state.nodes[0]].offers
        for way in known.plan.ways:
            for bit, broken in table.columns[way.index].broken.items():
                key = (way.index, broken.by_class, broken.index)
                device = offers[table.order[bit]].id
                if key not in found or device < found[key].device:
                    name = way.detail.device_class_name if broken.by_class else None
                    claim = str(problem.claims[way.claim].key)
                    found[key] = SelectorWarning(claim, way.name, name, broken.index, device, broken.message)
    return tuple(found[key] for key in sorted(found))
