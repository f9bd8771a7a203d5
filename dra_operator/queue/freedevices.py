"""Which free devices reservations can count on, and whether they still can after somebody takes some.

A device is free if it is published, has no taint that blocks, can be reached from a node that takes pods, nobody uses it, and the
counters it consumes are there. Reservations over the same devices do not share them: together they keep the sum.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer, Pool
from dra_operator.queue.budgets import Budget

#: Which reservations a device matches, as bits in the order of the reservations.
Mask = int

_NO_MASKS: Mapping[DeviceId, Mask] = {}


class FreeDevices:
    """Free devices by mask. `rebuild` after changes of what is published, `note` after changes of what is used."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._budgets: tuple[Budget, ...] = ()
        self._masks: dict[Kind, Mask] = {}
        self._usable: Counter[Mask] = Counter()
        self._busy: dict[DeviceId, Mask] = {}
        self._free: Counter[Mask] = Counter()
        self._takes_pods: Callable[[str], bool] = lambda node: True
        self._plugged: Mapping[str, Mapping[int, int]] = {}
        self._by_plugin: dict[str, frozenset[DeviceId]] = {}

    def rebuild(
        self,
        budgets: Sequence[Budget],
        takes_pods: Callable[[str], bool],
        plugged: Mapping[str, Mapping[int, int]],
    ) -> None:
        """`takes_pods`: may pods be started on the node? `plugged`: by node and number of the reservation, how many of its devices
        there pods have from a device plugin; which ones nobody knows."""
        self._budgets, self._takes_pods, self._plugged = tuple(budgets), takes_pods, plugged
        self._masks.clear()
        self._busy.clear()
        self._by_plugin.clear()
        self._usable = self._count_usable()
        self._free = Counter(self._usable)
        if not budgets:
            return
        for device in list(self._inventory.usage.by_device):
            if device not in self._busy:
                self._look_at(device)
        for node in plugged:
            self._mark_plugged(node)

    def note(self, devices: Iterable[DeviceId]) -> None:
        """The use of these devices changed."""
        if not self._budgets:
            return
        nodes: dict[str, None] = {}
        for device in devices:
            self._look_at(device)
            offer = self._inventory.offer(device)
            if offer is not None and offer.home in self._plugged:
                nodes[str(offer.home)] = None
        for node in nodes:
            self._mark_plugged(node)

    def mask(self, device: DeviceId) -> Mask:
        """The reservations a device matches, if it could be free at all; else 0."""
        offer = self._inventory.offer(device)
        return 0 if offer is None else self._mask(offer)

    def is_free(self, device: DeviceId) -> bool:
        return self.mask(device) != 0 and device not in self._busy

    def free(self) -> Counter[Mask]:
        """How many devices are free, by mask; those that match no reservation are left out."""
        return +self._free

    def usable(self, number: int) -> int:
        """How many devices the reservation could count on if nobody used any."""
        return sum(count for mask, count in self._usable.items() if mask >> number & 1)

    def matching(self, number: int) -> list[DeviceId]:
        """The free devices that match a reservation."""
        return [
            offer.id
            for offer in self._inventory.offers()
            if self._mask(offer) >> number & 1 and offer.id not in self._busy
        ]

    def concerns(self, device: DeviceId) -> bool:
        """Can taking the device leave a reservation with less: does it match one, or share counters with what may?"""
        offer = self._inventory.offer(device)
        return offer is not None and (self._mask(offer) != 0 or bool(offer.device.consumes))

    def after(
        self,
        counts: Counter[Mask],
        *,
        without: Collection[str],
        taken: Collection[DeviceId],
        masks: Mapping[DeviceId, Mask] = _NO_MASKS,
    ) -> Counter[Mask]:
        """`counts` as if the claims `without` (UIDs) had given back what they use, and `taken` was used.

        `masks`: devices that `counts` has under other masks than their own. `counts` must be of the present use.
        """
        ids = dict.fromkeys(taken)
        for uid in without:
            ids.update(dict.fromkeys(use.device for use in self._inventory.usage.by_claim.get(uid, ())))
        affected: dict[DeviceId, Offer] = {}
        pools: dict[Pool, None] = {}
        for device in ids:
            offer = self._inventory.offer(device)
            if offer is None:
                continue
            affected[device] = offer
            if offer.device.consumes:
                pools[offer.pool] = None
                affected.update({other.id: other for other in offer.pool.content.offers})

        def used(device: DeviceId) -> bool:
            return device in taken or any(uid not in without for uid in self._inventory.users(device))

        short = {device for pool in pools for device in short_of_counters(pool, used)}
        result = Counter(counts)
        for device, offer in affected.items():
            mask = masks.get(device, self._mask(offer))
            now = used(device) or device in short or device in self._by_plugin.get(offer.home or "", ())
            if mask and now != (device in self._busy):
                result[mask] += -1 if now else 1
        return +result

    # -- keeping up

    def _count_usable(self) -> Counter[Mask]:
        usable: Counter[Mask] = Counter()
        homeless: dict[DeviceId, Mask] = {}
        by_view: dict[object, Counter[Mask]] = {}
        if not self._budgets:
            return usable
        for state in self._inventory.states.populated():
            counts = by_view.get(state.view)
            if counts is None:
                counts = by_view[state.view] = Counter()
                for offer, kind in zip(state.view.offers, state.view.kinds, strict=True):
                    mask = self._mask_of(kind)
                    if mask and offer.home is not None:
                        counts[mask] += 1
                    elif mask:
                        homeless[offer.id] = mask
            if counts:
                nodes = sum(self._takes_pods(name) for name in state.nodes)
                for mask, count in counts.items():
                    usable[mask] += nodes * count
        usable.update(homeless.values())
        return +usable

    def _mask(self, offer: Offer) -> Mask:
        if offer.kind is None or (offer.home is not None and not self._takes_pods(offer.home)):
            return 0
        return self._mask_of(offer.kind)

    def _mask_of(self, kind: Kind) -> Mask:
        known = self._masks.get(kind)
        if known is None:
            known = 0
            if not kind.taints:
                for number, budget in enumerate(self._budgets):
                    known |= budget.matches(kind) << number
            self._masks[kind] = known
        return known

    def _look_at(self, device: DeviceId) -> None:
        offer = self._inventory.offer(device)
        if offer is None:
            self._unset(device)
        elif offer.device.consumes:
            used = {other.id for other in offer.pool.content.offers if self._inventory.users(other.id)}
            short = short_of_counters(offer.pool, used.__contains__)
            for other in offer.pool.content.offers:
                self._set(other, other.id in used or other.id in short)
        else:
            self._set(offer, bool(self._inventory.users(device)))

    def _set(self, offer: Offer, busy: bool) -> None:
        self._unset(offer.id)
        mask = self._mask(offer)
        if busy and mask:
            self._busy[offer.id] = mask
            self._free[mask] -= 1

    def _unset(self, device: DeviceId) -> None:
        mask = self._busy.pop(device, 0)
        if mask:
            self._free[mask] += 1

    def _mark_plugged(self, node: str) -> None:
        """Of the devices on the node that no claim uses, the first ones count as those that pods have from a plugin."""
        record = self._inventory.nodes.get(node)
        offers = [] if record is None else record.offers
        for device in self._by_plugin.pop(node, ()):
            self._look_at(device)
        chosen: dict[DeviceId, None] = {}
        for number, count in self._plugged.get(node, {}).items():
            free = [offer for offer in offers if self._mask(offer) >> number & 1 and offer.id not in self._busy]
            chosen.update(dict.fromkeys(offer.id for offer in free[:count]))
        for offer in offers:
            if offer.id in chosen:
                self._set(offer, True)
        self._by_plugin[node] = frozenset(chosen)


def short_of_counters(pool: Pool, used: Callable[[DeviceId], bool]) -> set[DeviceId]:
    """The devices of a pool that nobody uses but whose counters others have taken (KEP-4815)."""
    left = {
        (item.name, name): amount.nano for item in pool.content.counter_sets for name, amount in item.counters.items()
    }
    unused = []
    for offer in pool.content.offers:
        if not offer.device.consumes:
            continue
        if not used(offer.id):
            unused.append(offer)
            continue
        for item in offer.device.consumes:
            for name, amount in item.counters.items():
                left[item.counter_set, name] = left.get((item.counter_set, name), 0) - amount.nano
    return {
        offer.id
        for offer in unused
        if any(
            left.get((item.counter_set, name), 0) < amount.nano
            for item in offer.device.consumes
            for name, amount in item.counters.items()
        )
    }


def shortfall(kept: Sequence[int], free: Mapping[Mask, int]) -> int:
    """How many devices are missing for every reservation to have its own: `kept[i]` of those whose mask has bit i.

    A maximum flow from reservations to groups of like devices, found by augmenting paths; there are few of either.
    """
    wanted = [number for number, count in enumerate(kept) if count > 0]
    if len(wanted) <= 1:
        return sum(max(0, kept[number] - reach(free, 1 << number)) for number in wanted)
    groups = [mask for mask, count in free.items() if count > 0]
    room = {mask: free[mask] for mask in groups}
    given: dict[tuple[int, Mask], int] = Counter()
    missing = 0
    for number in wanted:
        lacks = kept[number]
        while lacks:
            path = _path(number, groups, room, given, wanted)
            if path is None:
                break
            amount = min([lacks, room[path[-1][1]], *(given[giver] for giver in _giving(path))])
            for step in path:
                given[step] += amount
            for giver in _giving(path):
                given[giver] -= amount
            room[path[-1][1]] -= amount
            lacks -= amount
        missing += lacks
    return missing


def reach(free: Mapping[Mask, int], mask: Mask) -> int:
    """How many free devices match any of the reservations in `mask`."""
    return sum(count for found, count in free.items() if found & mask and count > 0)


Step = tuple[int, Mask]


def _path(
    start: int, groups: list[Mask], room: Mapping[Mask, int], given: Mapping[Step, int], wanted: list[int]
) -> list[Step] | None:
    """Steps (reservation, group): each takes from its group what the next one's reservation gives up; the last group has room."""
    seen = {start}
    queue: deque[tuple[int, list[Step]]] = deque([(start, [])])
    while queue:
        number, steps = queue.popleft()
        for mask in groups:
            if not mask >> number & 1:
                continue
            here = [*steps, (number, mask)]
            if room[mask] > 0:
                return here
            for other in wanted:
                if other not in seen and given.get((other, mask), 0) > 0:
                    seen.add(other)
                    queue.append((other, here))
    return None


def _giving(path: list[Step]) -> list[Step]:
    """What is given up along a path: the next step's reservation leaves this step's group."""
    return [(after[0], before[1]) for before, after in pairwise(path)]
