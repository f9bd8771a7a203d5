"""The ground for a gang: the nodes that could take a member, and what they have for it, whoever holds it now.

Nodes in one state have the same, so it is worked out once a state. Who could go, and where, is `gangsearch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dra_operator.allocator import Trial
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.views import State, View
from dra_operator.preemption.ground import Ground, ground_of
from dra_operator.preemption.holders import Holder


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What nodes in one state have for a gang. `needs`: by sort that they could take, the devices one member needs and those that are
    free for it now; a need of 0 says that counting means nothing there. `lacks`: how many have to come free for a member (0: none; 1
    where counting means nothing), each number once. `usable` and `free`: positions of the node's own devices that some member could
    take, as bits. `far`: whether these nodes see devices of no single node.
    """

    needs: tuple[tuple[int, int, int], ...]
    lacks: tuple[int, ...]
    usable: int
    free: int
    far: bool

    @property
    def open(self) -> bool:
        """Could a member be put there, counted, if nobody went?"""
        return any(not need or free >= need for _, need, free in self.needs)


class GangGround:
    """`places`: the nodes that bear on a gang, by name. `counts`: how many members there are of each sort.

    Says what was free when it was made; the inventory's states must be up to date then.
    """

    def __init__(
        self,
        trials: Sequence[tuple[Trial, int]],
        inventory: Inventory,
        domains: Iterable[tuple[str, ...] | None],
    ) -> None:
        self._trials = [asked for asked, _ in trials]
        self._inventory = inventory
        self._grounds: dict[tuple[int, View], Ground | None] = {}
        self._alike: dict[tuple[State, tuple[int, ...]], Place | None] = {}
        #: Devices of no single node that some member could take, and whether they are free.
        self._shared: dict[DeviceId, bool] = {}
        self.counts = [count for _, count in trials]
        names: dict[str, None] = {}
        for domain in domains:
            names.update(dict.fromkeys(inventory.node_names if domain is None else domain))
        self.places = {name: place for name in names if (place := self._place(name)) is not None}
        self._least = self._devices_taken()

    @property
    def short(self) -> int | None:
        """How many devices it is short of at the least, in all; None: counting cannot tell."""
        return self.short_of(self.places) if self._least is not None else None

    def short_of(self, names: Iterable[str]) -> int:
        """How many devices the gang is short of at the least on these nodes; 0 as well where counting cannot tell."""
        if self._least is None:
            return 0
        free = sum([self.places[name].free.bit_count() for name in names])
        return max(0, self._least - free - sum(self._shared.values()))

    def _devices_taken(self) -> int | None:
        """The fewest devices that all members take together; None where counting means nothing."""
        needs = [(sort, need) for place in self._alike.values() if place for sort, need, _ in place.needs]
        if not all(need for _, need in needs):
            return None
        least = (min((need for sort, need in needs if sort == index), default=0) for index in range(len(self.counts)))
        return sum(need * count for need, count in zip(least, self.counts, strict=True))

    def _place(self, name: str) -> Place | None:
        record = self._inventory.nodes.get(name)
        if record is None or record.state is None:
            return None
        key = record.state, tuple([asked.held.get(name, 0) for asked in self._trials])
        if key not in self._alike:
            self._alike[key] = self._place_of(*key)
        return self._alike[key]

    def _place_of(self, state: State, held: tuple[int, ...]) -> Place | None:
        needs = []
        all_usable = 0
        far = False
        for index, asked in enumerate(self._trials):
            ground = self._ground(index, asked, state.view)
            if ground is None:
                continue
            usable = ground.usable & ~held[index]
            needs.append((index, ground.need, (usable & ~state.used).bit_count() + ground.open))
            all_usable |= usable
            far = far or bool(ground.shared)
        if not needs:
            return None
        lacks = {0 if need and free >= need else max(1, need - free) for _, need, free in needs}
        return Place(tuple(needs), tuple(lacks), all_usable, all_usable & ~state.used, far)

    def _ground(self, index: int, asked: Trial, view: View) -> Ground | None:
        key = index, view
        if key not in self._grounds:
            ground = self._grounds[key] = ground_of(asked, view, self._inventory)
            for device, taken in {} if ground is None else ground.shared.items():
                if taken and device not in asked.homeless:
                    self._shared[device] = device not in self._inventory.usage.by_device
        return self._grounds[key]

    @cached_property
    def open(self) -> list[str]:
        """The nodes that could take a member, counted, if nobody went."""
        return [name for name, place in self.places.items() if place.open]

    def nodes_of(self, claims: Iterable[str]) -> set[str] | None:
        """The nodes of these claims' devices; None if some belong to no single node."""
        uses = (use for claim in claims for use in self._inventory.usage.by_claim.get(claim, ()))
        offers = [self._inventory.offer(use.device) for use in uses]
        homes = {offer.home for offer in offers if offer is not None}
        return None if None in homes else {home for home in homes if home is not None}

    def amount(self, holder: Holder) -> int:
        """How many devices that the gang could use the holder has."""
        by_claim = self._inventory.usage.by_claim
        return len(
            {use.device for claim in holder.claims for use in by_claim.get(claim, ()) if self._of_use(use.device)}
        )

    def _of_use(self, device: DeviceId) -> bool:
        if device in self._shared:
            return True
        offer = self._inventory.offer(device)
        if offer is None or offer.home is None or offer.position < 0:
            return False
        place = self.places.get(offer.home)
        return place is not None and bool(place.usable >> offer.position & 1)
