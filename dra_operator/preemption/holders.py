"""Holders: who would give devices back if they went. Values and an index by node; who is chosen among them is `victims`.

A holder is what goes together: all claims of one pod, or, where pods share claims, all these pods and all their claims, or all members
of a gang. So no claim and no pod is in two holders, but for gangs that can spare members: each of these is a holder, and so is the
whole gang (`Spare` keeps both from being chosen).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

from dra_operator.api.meta import Key

#: A victim's place in the order of preference, as far as it concerns the victim alone: pods, freed, priority, -since, devices, UID.
Rank = tuple[int, int, int, float, int, str]

BY_RANK: Callable[[Any], Any] = attrgetter("rank")


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod that may have to be evicted. `running` False: still Pending, which no disruption budget protects.

    `ready` is its Ready condition: budgets with `unhealthyPodEvictionPolicy` treat pods that are not ready differently.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(hash=False)
    priority: int = 0
    running: bool = True
    ready: bool = True

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Spare:
    """Members that a gang can spare: `room` of them in all may go before the rest must go too."""

    gang: Key
    room: int


@dataclass(frozen=True, slots=True)
class Holder:
    """One potential victim.

    `key`: what it is and its name, such as a `UnitKey`. `claims`: UIDs of the claims released when it goes. `pods`: those to evict;
    none where the claims (bare or not reserved) are deallocated without eviction. `priority`: the highest base priority among its
    pods and claims. `since`: when it started, in seconds since the epoch. `devices`: how many it holds in all, on this node and
    others; shares count one each. `preemptible`: False as well for what is on its way out already.

    `spares`: how many of the members that gangs can spare it is; a whole gang counts as all of them, so it is never chosen beside one
    of its members. `repeats`: what it has is in other holders as well.
    """

    key: tuple[object, ...]
    uid: str
    claims: tuple[str, ...]
    pods: tuple[PodRef, ...]
    priority: int
    since: float
    devices: int
    preemptible: bool = True
    spares: tuple[tuple[Spare, int], ...] = ()
    repeats: bool = False
    rank: Rank = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weight = max(1, len(self.pods))
        object.__setattr__(
            self,
            "rank",
            (len(self.pods), int(not self.pods), self.priority, -self.since * weight, self.devices, self.uid),
        )

    def __str__(self) -> str:
        if self.pods:
            return ", ".join(f"pod {pod}" for pod in self.pods)
        return " ".join(map(str, self.key))


class Holders(Protocol):
    """Where the holders are; in each place by rank."""

    def on(self, node: str) -> Sequence[Holder]:
        """Holders with devices at home on that node (`Offer.home`)."""

    def anywhere(self) -> Sequence[Holder]:
        """Holders of devices that belong to no single node (network-attached, or tied to others by counters)."""


class HolderIndex:
    """Holders by node, kept up to date one by one. In each place they stand by rank: whoever would go first is first."""

    def __init__(self) -> None:
        self._on: dict[str, list[Holder]] = {}
        self._anywhere: list[Holder] = []
        self._placed: dict[str, tuple[Holder, tuple[str | None, ...]]] = {}

    def put(self, holder: Holder, homes: Iterable[str | None]) -> None:
        """Add or replace. `homes`: `Offer.home` of each device it holds; a holder of none is nowhere."""
        self.drop(holder.uid)
        distinct = tuple(dict.fromkeys(homes))
        if distinct:
            self._placed[holder.uid] = holder, distinct
        for home in distinct:
            insort(self._place(home), holder, key=BY_RANK)

    def get(self, uid: str) -> Holder | None:
        placed = self._placed.get(uid)
        return None if placed is None else placed[0]

    def drop(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is None:
            return
        holder, homes = placed
        for home in homes:
            place = self._place(home)
            del place[bisect_left(place, holder.rank, key=BY_RANK)]
            if not place and home is not None:
                del self._on[home]

    def on(self, node: str) -> Sequence[Holder]:
        return tuple(self._on.get(node, ()))

    def anywhere(self) -> Sequence[Holder]:
        return tuple(self._anywhere)

    def _place(self, home: str | None) -> list[Holder]:
        return self._anywhere if home is None else self._on.setdefault(home, [])
