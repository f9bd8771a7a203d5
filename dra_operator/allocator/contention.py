"""Contention: how much the devices of a view are wanted, against all those that somebody could have instead.

The devices of a scarce model serve whoever takes any model as well as those who need that one. Counted in full for both, they look more
plentiful than they are to those who have nothing else. So devices that are wanted more than the average count less for everybody who
can have them, and others more: what is left for a kind of claim once everybody has gone where there is most.

Only devices are looked at: where CPU or memory run out first, nobody is the better for leaving devices to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dra_operator.inventory.views import View


class Share(NamedTuple):
    """What a kind of claim can get on all nodes of a view. `positions`: which of the view's devices these are, as a mask."""

    positions: int
    devices: float


class Stake(NamedTuple):
    """A kind of claim: how often it is asked for, and what of each view it can get."""

    weight: float
    shares: Mapping[View, Share]


class _Cell:
    """Devices of a view that compete for the same claims. `wanted`: by how much of all claims; `devices`: how many of them are left."""

    __slots__ = ("devices", "ease", "positions", "wanted")

    def __init__(self, positions: int) -> None:
        self.positions, self.wanted, self.devices, self.ease = positions, 0.0, 0.0, 1.0


class Contention:
    """`unknown`: claims that are not known yet and may take anything, as a part of those that are."""

    def __init__(self, stakes: Sequence[Stake], unknown: float) -> None:
        self._cells: dict[View, list[_Cell]] = {}
        for stake in stakes:
            for view, share in stake.shares.items():
                self._add(view, share.positions)
        for pool in _pools([self._demand(stake) for stake in stakes]):
            devices = sum(cell.devices for cell in pool)
            average = (sum(cell.wanted for cell in pool) + unknown) / devices
            for cell in pool:
                cell.ease = average / (cell.wanted / cell.devices + unknown / devices)

    def ease(self, view: View, positions: int) -> float:
        """What one of these devices counts: less than 1 where they are wanted more than those that could be had instead."""
        for cell in self._cells.get(view, ()):
            if cell.positions & positions:
                return cell.ease
        return 1.0

    def _add(self, view: View, positions: int) -> None:
        apart = []
        for cell in self._cells.get(view, ()):
            if cell.positions & positions:
                positions |= cell.positions
            else:
                apart.append(cell)
        self._cells[view] = [*apart, _Cell(positions)]

    def _demand(self, stake: Stake) -> dict[_Cell, None]:
        """Spread a kind of claim over what it can get; the cells where that is."""
        total = sum(share.devices for share in stake.shares.values())
        found: dict[_Cell, None] = {}
        for view, (positions, devices) in stake.shares.items():
            if devices:
                cell = next(cell for cell in self._cells[view] if cell.positions & positions)
                cell.wanted += stake.weight * devices / total
                cell.devices = max(cell.devices, devices)
                found[cell] = None
        return found


def _pools(groups: Sequence[dict[_Cell, None]]) -> list[dict[_Cell, None]]:
    """Cells that somebody can have instead of each other, directly or by way of others who would make room.

    Dictionaries for their order: sums over sets of objects would differ from run to run in their last digits.
    """
    pools: list[dict[_Cell, None]] = []
    for group in filter(None, groups):
        joined, apart = dict(group), []
        for pool in pools:
            if pool.keys().isdisjoint(group):
                apart.append(pool)
            else:
                joined |= pool
        pools = [*apart, joined]
    return pools
