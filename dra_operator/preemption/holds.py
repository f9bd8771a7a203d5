"""Holds: free devices of one node (a gang: a set of nodes) set aside for a unit that is starved or whose victims are leaving.

A hold names its nodes and covers, of the devices there that the unit could use, the free ones: all that it still needs, and every one
that comes free while it needs more. Units that stand behind it in the queue may not use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dra_operator.allocator import Candidates
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.queue.units import UnitKey

NOTHING: frozenset[DeviceId] = frozenset()
#: Where a unit stands in the queue: smaller is nearer to the front.
Rank = tuple[object, ...]


@dataclass(slots=True)
class Hold:
    """`ready_at`: when enough devices come free by what is known (None: unknown). `written`: a report carries it.

    `wanted`: the devices a preemption is for, held by name and also while they are in use: no unit of its base priority (`priority`)
    or below may have them, wherever aging puts it in the queue. `resting`: an allocation of the unit is being written, so that it keeps
    nothing from others; should the write fail, it does again.
    """

    unit: UnitKey
    node: str
    since: float
    rank: Rank
    devices: frozenset[DeviceId] = frozenset()
    wanted: frozenset[DeviceId] = frozenset()
    ready_at: float | None = None
    written: bool = False
    priority: int = 0
    others: tuple[str, ...] = ()
    resting: bool = False

    @property
    def kept(self) -> frozenset[DeviceId]:
        """What others may not have now."""
        return NOTHING if self.resting else self.devices | self.wanted

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them; a gang's hold is on several, one of devices that many nodes reach on none."""
        return (self.node, *self.others) if self.node else ()


class Holds:
    """At most one hold a unit. `version` grows with every change of what is held."""

    def __init__(self) -> None:
        self._holds: dict[UnitKey, Hold] = {}
        self._sets: dict[tuple[object, ...], frozenset[DeviceId]] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._holds.values()))

    def __bool__(self) -> bool:
        return bool(self._holds)

    def get(self, unit: UnitKey) -> Hold | None:
        return self._holds.get(unit)

    def put(self, hold: Hold) -> None:
        self._holds[hold.unit] = hold
        self._changed()

    def drop(self, unit: UnitKey) -> bool:
        """Returns whether there was one."""
        if self._holds.pop(unit, None) is None:
            return False
        self._changed()
        return True

    def cover(self, unit: UnitKey, devices: frozenset[DeviceId]) -> None:
        """Set what the hold covers now."""
        hold = self._holds[unit]
        if hold.devices != devices:
            hold.devices = devices
            self._changed()

    def rest(self, unit: UnitKey, *, resting: bool) -> None:
        """Whether the unit's hold, if it has one, is resting."""
        hold = self._holds.get(unit)
        if hold is not None and hold.resting != resting:
            hold.resting = resting
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._sets.clear()

    def before(self, unit: UnitKey, rank: Rank, priority: int, ends_at: float | None) -> list[Hold]:
        """The holds that a unit must respect; the arguments as for `against`."""
        return [
            hold
            for hold in self._holds.values()
            if hold.unit != unit
            and not hold.resting
            and (hold.rank < rank or (bool(hold.wanted) and priority <= hold.priority))
            and not (ends_at is not None and hold.ready_at is not None and ends_at <= hold.ready_at)
        ]

    def against(self, unit: UnitKey, rank: Rank, priority: int, ends_at: float | None) -> frozenset[DeviceId]:
        """The devices a unit may not use: those of holds before it in the queue.

        `priority` is the unit's base priority. `ends_at`: when the unit gives its devices back by its own deadline; it may use what
        is not ready before that (backfill).
        The same object is returned as long as nothing changes, so that answers can be remembered with it.
        """
        blocking = tuple(hold.unit for hold in self.before(unit, rank, priority, ends_at))
        if not blocking:
            return NOTHING
        known = self._sets.get(blocking)
        if known is None:
            holds = [self._holds[key] for key in blocking]
            known = self._sets[blocking] = frozenset().union(*(hold.kept for hold in holds))
        return known

    def holder_of(self, device: DeviceId) -> UnitKey | None:
        return next((hold.unit for hold in self._holds.values() if device in hold.kept), None)


@dataclass(frozen=True, slots=True)
class Choice:
    """A node to wait for. `ready_at` None: nobody knows."""

    node: str
    ready_at: float | None


def soonest_node(
    found: Candidates,
    inventory: Inventory,
    fits: Callable[[str], bool],
    ends: Callable[[str], float | None] | None,
    taken: frozenset[str],
) -> Choice | None:
    """The node where the unit can run soonest: by known ends of what runs there, then by how few devices must come free, then by name.

    `fits`: could the unit run there once the node is empty? `ends`: when a claim (by UID) gives its devices back, None if unknown;
    itself None where that is known of no claim at all, so that no device need be asked about. `taken`: nodes that holds of others wait for.
    """
    best: tuple[tuple[float, int, str], Choice] | None = None
    earliest = _SOON if ends is not None else float("inf")
    for record, mask in found.nodes():
        if record.name in taken:
            continue
        missing = max(0, found.needed - (mask & ~record.used).bit_count())
        if best is not None and (0.0 if not missing else earliest, missing, record.name) >= best[0]:
            continue
        if not fits(record.name):
            continue
        if ends is None:
            ready = None if missing else 0.0
        else:
            ready = ready_at(found, inventory, record.name, missing, ends)
        rank = (ready if ready is not None else float("inf"), missing, record.name)
        if best is None or rank < best[0]:
            best = rank, Choice(record.name, ready)
    return None if best is None else best[1]


#: No end that is still to come is before this; only to compare with ranks whose end is not worked out yet.
_SOON = 1.0


def ready_at(
    found: Candidates, inventory: Inventory, node: str, missing: int, ends: Callable[[str], float | None]
) -> float | None:
    """When `missing` more candidates of the node are free, by known ends. 0 if none is missing."""
    if not missing:
        return 0.0
    times = []
    for offer in found.on(node):
        users = inventory.users(offer.id)
        if users:
            known = [ends(uid) for uid in users]
            if all(end is not None for end in known):
                times.append(max(end for end in known if end is not None))
    times.sort()
    return times[missing - 1] if len(times) >= missing else None


def covered(found: Candidates, inventory: Inventory, node: str) -> frozenset[DeviceId]:
    """What a hold on the node covers: the free candidates it needs; all of them where constraints decide which go together."""
    free = [offer.id for offer in found.on(node) if not inventory.users(offer.id)]
    return frozenset(free if found.entangled else free[: found.needed])
