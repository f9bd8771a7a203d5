"""Picking: which devices to try next for a request, in which order, and which need not be tried.

Of devices that are alike the first one stands for all, and likewise for corresponding devices of twins. A request takes its devices in
ascending order, so a device passed over takes all that are alike with it out of this request.
"""

from __future__ import annotations

from collections.abc import Hashable

from dra_operator.allocator.masks import bits_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.position import Position
from dra_operator.allocator.symmetry import Twins
from dra_operator.allocator.table import Column, Table


class Picking:
    """Of one table. `bounded`: leave out what cannot be enough; without it, devices with errors are tried as well."""

    def __init__(self, table: Table, slots: dict[int, int], twins: Twins, bounded: bool) -> None:
        self._table, self._columns = table, table.columns
        self._slots, self._twins, self._bounded = slots, twins, bounded

    def candidates(self, way: Way, taken: tuple[int, ...], last: int, position: Position) -> list[int]:
        """Bits to try, last first. Of alike devices the first one free, and none if that one was passed over.

        `taken`: what this request has already.
        """
        column = self._columns[way.index]
        open_mask = ~position.mine if way.admin else position.free & ~position.mine
        mask = column.usable & open_mask
        later = -1 << (last + 1)
        if self._bounded:
            need = way.count - len(taken)
            mask = self._within_rules(way, column, mask, position, need)
            if (mask & later).bit_count() < need:
                return []
        if self._twins:
            mask = self._without_twins(way, mask, position)
        found: list[int] = []
        multi = self._table.multi
        for members in self._table.classes:
            alike = members & mask
            if not alike:
                continue
            if not members & multi:
                # To admin access, devices in use are open as well; taking those leaves the free ones to later requests.
                for group in (alike & position.free, alike & ~position.free) if way.admin else (alike,):
                    if group:
                        found.append((group & -group).bit_length() - 1)
                continue
            seen: set[Hashable] = set()
            for bit in bits_of(alike):
                if bit in taken:
                    continue
                signature = (position.left[self._slots[bit]], position.running >> bit & 1) if not way.admin else None
                if signature not in seen:
                    seen.add(signature)
                    found.append(bit)
        found = [bit for bit in found if bit > last]
        if not self._bounded:
            found += [bit for bit in column.broken if bit > last and open_mask >> bit & 1]
        if len(found) > 1:
            found.sort(reverse=True)
        return found

    def _without_twins(self, way: Way, mask: int, position: Position) -> int:
        """The devices without those of twins that are in the condition of an earlier one, passed over or not."""
        free = position.free & ~position.mine
        left = {bit: position.left[slot] for bit, slot in self._slots.items()}
        seen: set[Hashable] = set()
        conditions = self._twins.conditions(mask, free, position.running, left, position.counters, position.groups)
        for component, condition in conditions:
            if way.admin:
                # It may take what is in use, but not what it has itself; neither is free.
                condition = condition, component.local(mask)
            if condition in seen:
                mask &= ~component.mask
            else:
                seen.add(condition)
        return mask

    def _within_rules(self, way: Way, column: Column, mask: int, position: Position, need: int) -> int:
        """The candidates that the constraints' values so far admit, or 0 where these cannot be the `need` more."""
        for rule in way.constraints:
            masks = column.masks.get(rule)
            if masks is None:
                return 0
            bound = position.bound[rule]
            if self._table.plan.rules[rule].distinct:
                mask = self._distinct(masks, bound, mask, need, rule)
            elif bound is None:
                admitted = 0
                for members in masks.values():
                    alike = members & mask
                    if alike.bit_count() >= need:
                        admitted |= alike
                mask = admitted
            elif isinstance(bound, frozenset) and rule in self._table.set_rules:
                admitted = 0
                for item in bound:
                    alike = masks.get(item, 0) & mask
                    if alike.bit_count() >= need:
                        admitted |= alike
                mask = admitted
            else:
                mask &= masks.get(bound, 0)
            if not mask:
                return 0
        return mask

    def _distinct(self, masks: dict[Hashable, int], bound: Hashable, mask: int, need: int, rule: int) -> int:
        used = bound if isinstance(bound, frozenset) else frozenset()
        admitted = values = 0
        for item, members in masks.items():
            if item in used:
                mask &= ~members
        for members in masks.values():
            alike = members & mask
            if alike:
                values += 1
                admitted |= alike
        # A device with several values uses them up together, so values bound the number of devices either way.
        return admitted if values >= need else 0
