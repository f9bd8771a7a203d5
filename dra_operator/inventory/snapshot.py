"""A snapshot: inventory and usage at one instant, and what-if on top of it.

A snapshot does not copy: it is valid until the inventory changes by other means than the snapshot itself, and says so when used
after that. Readers never change it; simulations do, and take every change back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from dra_operator.api.claims import Allocation, DeviceClass
from dra_operator.inventory.features import Features
from dra_operator.inventory.identity import DeviceId

if TYPE_CHECKING:
    from dra_operator.inventory.inventory import Inventory

Revert = Callable[[], None]


class StaleSnapshot(RuntimeError):
    """The inventory changed after the snapshot was taken."""


class Snapshot:
    """Use as a context manager to have what is left of a simulation taken back at the end."""

    __slots__ = ("_inventory", "_open", "_version")

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._version = inventory.version
        self._open: list[Revert] = []

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.revert()

    @property
    def inventory(self) -> Inventory:
        """What the snapshot shows. Raises StaleSnapshot."""
        if self._version != self._inventory.version:
            raise StaleSnapshot("the inventory changed since this snapshot was taken; take a new one")
        return self._inventory

    @property
    def version(self) -> int:
        return self._version

    @property
    def features(self) -> Features:
        return self._inventory.features

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self.inventory.classes

    def use(self, uid: str, allocation: Allocation) -> Revert:
        """As if the claim had this allocation, until the returned function is called. Reverts must be called last first."""
        inventory = self.inventory
        before = inventory.usage.by_claim.get(uid)
        inventory.use(uid, allocation)
        return self._changed(uid, before)

    def release(self, uid: str) -> Revert:
        """As if the claim had no allocation, until the returned function is called."""
        inventory = self.inventory
        before = inventory.usage.by_claim.get(uid)
        inventory.release(uid)
        return self._changed(uid, before)

    def users(self, device: DeviceId) -> tuple[str, ...]:
        return self.inventory.users(device)

    def revert(self) -> None:
        """Take back everything not reverted yet."""
        while self._open:
            self._open[-1]()

    def _changed(self, uid: str, before: tuple[object, ...] | None) -> Revert:
        self._version = self._inventory.version

        def revert() -> None:
            if revert not in self._open:
                return
            inventory = self.inventory
            self._open.remove(revert)
            if before is None:
                inventory.release(uid)
            else:
                inventory.use_devices(uid, before)  # type: ignore[arg-type]
            self._version = inventory.version

        self._open.append(revert)
        return revert
