"""Devices in use among those that several nodes see: as masks, which a change of one device changes in one place.

What is in use of a node's own devices is in its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dra_operator.allocator.masks import mask_of
from dra_operator.inventory.identity import DeviceId
from dra_operator.inventory.trail import Trail
from dra_operator.inventory.usage import Occupancy


class InUse:
    """Of one table: `whole` are the bits of devices nobody can take anything of, `running` those that have shares.

    `bits`: of the devices; `multi`: of those that claims can share. `uses`: devices as they were taken or given back.
    """

    def __init__(self, bits: Mapping[DeviceId, int], multi: int, width: int, uses: Trail[DeviceId]) -> None:
        self.whole = self.running = 0
        #: How many devices were looked at.
        self.looked_at = 0
        self._bits, self._multi, self._width, self._uses = bits, multi, width, uses
        self._read = -1

    def catch_up(self, occupied: Mapping[DeviceId, Occupancy]) -> None:
        """Take in what changed since the last call."""
        uses = self._uses
        if self._read == uses.end:
            return
        changed = uses.since(self._read)
        self._read = uses.end
        if changed is None:
            self._look_at_all(occupied)
            return
        for device in changed:
            bit = self._bits.get(device)
            if bit is not None:
                self._look_at(1 << bit, occupied.get(device))

    def mask_of(self, devices: Iterable[DeviceId]) -> int:
        """The bits of those that are in the table."""
        return mask_of([self._bits[device] for device in devices if device in self._bits], self._width)

    def _look_at(self, mask: int, occupancy: Occupancy | None) -> None:
        self.looked_at += 1
        self.whole &= ~mask
        self.running &= ~mask
        if occupancy is None:
            return
        if occupancy.whole or not self._multi & mask:
            self.whole |= mask
        if occupancy.shares:
            self.running |= mask

    def _look_at_all(self, occupied: Mapping[DeviceId, Occupancy]) -> None:
        found = [(self._bits[device], occupied[device]) for device in self._bits.keys() & occupied.keys()]
        self.looked_at += len(found)
        self.running = mask_of([bit for bit, occupancy in found if occupancy.shares], self._width)
        whole = mask_of([bit for bit, occupancy in found if occupancy.whole], self._width)
        every = mask_of([bit for bit, _ in found], self._width)
        self.whole = whole | every & ~self._multi
