"""What claims take, as seen or as being written: one door to the inventory's usage, so that everything that follows it stays in step.

Follows along: who holds how much (fair share), whose devices are on which node (victims), and what came free (wake-ups).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dra_operator.api.claims import Allocation, ClaimSpec
from dra_operator.api.meta import Key
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.queue.fairness import Holdings


class Usage:
    """`freed_total` counts devices that came free, ever, and `taken_total` how often some were taken. `touched`: claims (by UID) whose
    use may have changed, for whoever keeps account of them to look at and to clear; a claim seen again may have other labels."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.holdings = Holdings()
        self.freed_total = 0
        self.taken_total = 0
        self.touched: dict[str, frozenset[DeviceId]] = {}
        self._freed: dict[Kind, None] = {}
        self._all_freed = False
        #: Claims with admin access to a device: they take nothing of it, and what becomes of it concerns them all the same.
        self._admins: dict[DeviceId, dict[str, None]] = {}
        self._overseen: dict[str, tuple[DeviceId, ...]] = {}

    def concerned(self, device: DeviceId) -> tuple[str, ...]:
        """UIDs of the claims that have the device in their allocation."""
        return (*self._inventory.users(device), *self._admins.get(device, ()))

    def devices(self) -> list[DeviceId]:
        """Those that claims have in their allocations."""
        taken = self._inventory.usage.by_device
        return [*taken, *(device for device in self._admins if device not in taken)]

    def take(self, uid: str, key: Key, spec: ClaimSpec, allocation: Allocation) -> None:
        """The claim takes these devices, instead of what it took before."""
        self.touch(uid)
        taken = {tuple(device) for device in self._devices(uid)}
        now = {(item.driver, item.pool, item.device) for item in allocation.results if not item.admin_access}
        if taken - now:
            self._note_freed(device for device in self._devices(uid) if tuple(device) not in now)
        self._inventory.use(uid, allocation)
        self._oversee(uid, allocation)
        if now - taken:
            self.taken_total += 1
        if taken != now:
            self.holdings.hold(uid, key.namespace, by_class(spec, allocation))

    def give_back(self, uid: str) -> bool:
        """The claim takes nothing any more; returns whether it did."""
        self.touch(uid)
        devices = self._devices(uid)
        self._note_freed(devices)
        self._inventory.release(uid)
        self._oversee(uid, None)
        self.holdings.release(uid)
        return bool(devices)

    def wakes(self) -> tuple[bool, tuple[Kind, ...]]:
        """The kinds of devices that came free since the last call; first whether it may have been any."""
        everything, kinds = self._all_freed, tuple(self._freed)
        self._all_freed, self._freed = False, {}
        return everything, kinds

    def touch(self, uid: str) -> None:
        """The claim's use may have changed, or what it uses may be something else. Remembers what it had when it was touched first."""
        if uid not in self.touched:
            self.touched[uid] = frozenset(self._devices(uid))

    def _oversee(self, uid: str, allocation: Allocation | None) -> None:
        for device in self._overseen.pop(uid, ()):
            self._admins[device].pop(uid, None)
            if not self._admins[device]:
                del self._admins[device]
        results = () if allocation is None else allocation.results
        found = [DeviceId(item.driver, item.pool, item.device) for item in results if item.admin_access]
        if found:
            self._overseen[uid] = tuple(dict.fromkeys(found))
            for device in self._overseen[uid]:
                self._admins.setdefault(device, {})[uid] = None

    def _devices(self, uid: str) -> tuple[DeviceId, ...]:
        return tuple(use.device for use in self._inventory.usage.by_claim.get(uid, ()))

    def _note_freed(self, devices: Iterable[DeviceId]) -> None:
        for device in devices:
            self.freed_total += 1
            offer = self._inventory.offer(device)
            if offer is None or offer.kind is None:
                self._all_freed = True
                continue
            self._freed[offer.kind] = None
            if offer.device.consumes:
                # Its counters serve other devices of the pool.
                for other in offer.pool.content.offers:
                    if other.kind is not None:
                        self._freed[other.kind] = None


def by_class(spec: ClaimSpec, allocation: Allocation) -> dict[str, int]:
    """Devices of an allocation by the class they were asked for with; admin access takes nothing away."""
    names = {}
    for request in spec.requests:
        for detail in request.details:
            label = request.name if request.exactly is not None else f"{request.name}/{detail.name}"
            names[label] = detail.device_class_name
    counts = Counter(
        names[result.request] for result in allocation.results if result.request in names and not result.admin_access
    )
    return dict(counts)
