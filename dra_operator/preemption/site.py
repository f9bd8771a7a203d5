"""A site: one node with the holders that could give way there, and the sets of them worth a look.

Works out nothing about which set is best over all nodes; that is `victims`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dra_operator.allocator import Trial
from dra_operator.api.meta import Key
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.usage import Usage, Use
from dra_operator.inventory.views import NodeRecord
from dra_operator.preemption.criteria import Bound, Cost, bound, bound_of_singles, raised, singles
from dra_operator.preemption.floor import Floor, Held, make_floor
from dra_operator.preemption.ground import Ground
from dra_operator.preemption.holders import Holder, Spare

#: So many sets of one size are compared on one node; beyond that, `fill` is used there.
SETS = 2_000

#: What a holder's going takes from which disruption budget, or of the members that a gang can spare.
Charges = dict[Key | Spare, int]

#: How much of that there is.
Allowance = Callable[[Key | Spare], int]


class TooMany(Exception):
    """There are more sets of this size than are worth comparing."""


@dataclass(slots=True)
class Candidate:
    """A holder on a site. `amount`: usable devices it would give back here. `held`: what it has there, where that is looked at, without
    the claims `counted_elsewhere`."""

    holder: Holder
    charges: Charges
    amount: int = 0
    relevant: bool = False
    held: Held | None = None
    counted_elsewhere: frozenset[str] = frozenset()


@dataclass(slots=True)
class Site:
    """`roomy`: the pod could run there without anybody's going. `need`: usable devices that must come free at the least.

    `floor`: what must go by shares and counters; None where counting devices tells as much. `tested`: all candidates together are known
    to suffice.
    """

    record: NodeRecord
    ground: Ground
    candidates: list[Candidate]
    roomy: bool
    need: int
    floor: Floor | None = None
    tested: bool = False

    def bound(self, at_least: int = 0) -> Bound | None:
        """What a set with at least so many pods can cost at best."""
        holders = [item.holder for item in self.candidates]
        amounts = [item.amount for item in self.candidates]
        if self.floor is not None:
            at_least = max(at_least, self.floor.pods)
        make = bound_of_singles if singles(holders) else bound
        return make(self.need, holders, amounts, self.record.name, at_least=at_least)

    def sharpened(self, low: Bound) -> Bound:
        """The bound, with the priority up to which holders must go by shares and counters."""
        if self.floor is None:
            return low
        pods, top = low[0], low[2]
        priorities = sorted({top, *(item.holder.priority for item in self.candidates if item.holder.priority > top)})
        needed = priorities[bisect_left(priorities, True, key=partial(self._enough, pods))]
        return low if needed == top else raised(low, needed, [item.holder for item in self.candidates])

    def _enough(self, pods: int, priority: int) -> bool:
        """As far as shares and counters go, can so many pods up to this priority be enough?"""
        assert self.floor is not None
        least = self.floor.up_to(priority)
        return least is not None and least <= pods

    def sets(self, pods: int, limit: int, allowance: Allowance, below: Cost | None) -> list[tuple[Candidate, ...]]:
        """All sets with exactly so many pods, at most `limit` victims, enough devices and within the budgets; of those that are sure to
        cost more than `below`, not all. Raises TooMany."""
        found: list[tuple[Candidate, ...]] = []
        candidates = self.candidates
        if below is not None and below.pods == pods:
            candidates = [
                item
                for item in candidates
                if item.holder.priority <= below.priority and (item.holder.pods or below.freed)
            ]
        for chosen in subsets(candidates, pods, limit, self.need, allowance):
            found.append(chosen)
            if len(found) > SETS:
                raise TooMany
        return found


def make_site(
    record: NodeRecord,
    ground: Ground,
    candidates: list[Candidate],
    *,
    roomy: bool,
    trial: Trial,
    inventory: Inventory,
) -> Site | None:
    """The site of a node, with the candidates that bear on it. None if all of them together cannot suffice."""
    usable = ground.usable & ~trial.held.get(record.name, 0)
    counted = ground.table.multi == 0 and ground.need > 0
    floored = not ground.table.plain and not ground.hidden
    positions = {offer.id: position for position, offer in enumerate(record.offers)}
    if floored:
        _prepare(candidates)
    for item in candidates:
        _look_at(item, record, ground, positions, usable, trial.homeless, inventory.usage)
        # Where the pod has no room, whoever frees some counts, whatever devices it has.
        item.relevant = item.relevant or (not roomy and bool(item.holder.pods))
    candidates = [item for item in candidates if item.relevant]
    if not candidates:
        return None
    free = (usable & ~record.used).bit_count() + ground.open
    need = ground.need - free if counted else 0
    if need <= 0:
        # Counting does not see what is in the way, but something is.
        need = 1
        for item in candidates:
            item.amount = 1
    site = Site(record, ground, candidates, roomy, need)
    if floored:
        held = [(item.holder.priority, item.held) for item in candidates if item.held is not None]
        site.floor = make_floor(trial.plan, ground.table, trial.start(record), held)
        if site.floor is None:
            return None
    return site


def _prepare(candidates: Sequence[Candidate]) -> None:
    """Each counts with all that it has; of a gang whose members can go one by one, what no single one has."""
    for item in candidates:
        item.held = Held(len(item.holder.pods))
    gangs = [item for item in candidates if item.holder.repeats]
    if gangs:
        alone = [item.holder for item in candidates if not item.holder.repeats]
        claims = frozenset(claim for holder in alone for claim in holder.claims)
        pods = frozenset(pod.uid for holder in alone for pod in holder.pods)
        for item in gangs:
            item.held = Held(sum(pod.uid not in pods for pod in item.holder.pods))
            item.counted_elsewhere = claims


def _look_at(
    item: Candidate,
    record: NodeRecord,
    ground: Ground,
    positions: dict[DeviceId, int],
    usable: int,
    homeless: frozenset[DeviceId],
    usage: Usage,
) -> None:
    """Fill in what the holder has on this node that bears on the problem."""
    held = item.held
    mine = 0
    elsewhere = set()
    for claim in item.holder.claims:
        for use in usage.by_claim.get(claim, ()):
            device = use.device
            position = positions.get(device, -1)
            if device in ground.shared:
                if ground.shared[device] and device not in homeless:
                    elsewhere.add(device)
            elif position >= 0 and ground.relevant >> position & 1:
                mine |= 1 << position
            else:
                continue
            item.relevant = True
            if held is not None and claim not in item.counted_elsewhere:
                held.takes.setdefault(position, []).append(_take(use, record, position))
    item.amount = (mine & usable).bit_count() + len(elsewhere)


def _take(use: Use, record: NodeRecord, position: int) -> tuple[int, ...] | None:
    if use.share is None:
        return None
    assert record.view is not None
    share = use.share
    return tuple([share[name].nano if name in share else 0 for name, _ in record.view.kinds[position].sizes])


def subsets(
    candidates: Sequence[Candidate], pods: int, limit: int, need: int, allowance: Allowance
) -> Iterator[tuple[Candidate, ...]]:
    """Sets with exactly so many pods. Depth first, one candidate after another; a branch is left where what remains cannot be enough."""
    count = len(candidates)
    amount_from, pods_from, freed_from = [0] * (count + 1), [0] * (count + 1), [0] * (count + 1)
    # The most that one pod more can bring, and all that those without pods have.
    each_from, idle_from = [0.0] * (count + 1), [0] * (count + 1)
    for index in range(count - 1, -1, -1):
        size, amount = len(candidates[index].holder.pods), candidates[index].amount
        amount_from[index] = amount_from[index + 1] + amount
        pods_from[index] = pods_from[index + 1] + size
        freed_from[index] = freed_from[index + 1] + (not size)
        each_from[index] = max(each_from[index + 1], amount / size if size else 0.0)
        idle_from[index] = idle_from[index + 1] + (0 if size else amount)
    chosen: list[Candidate] = []

    def walk(first: int, pods: int, limit: int, need: int) -> Iterator[tuple[Candidate, ...]]:
        if not pods and need <= 0 and chosen:
            yield tuple(chosen)
        for index in range(first, count):
            if need > amount_from[index] or pods > pods_from[index] or not (pods or freed_from[index]):
                return
            if need > pods * each_from[index] + idle_from[index]:
                return
            item = candidates[index]
            size = len(item.holder.pods)
            weight = max(1, size)
            if size <= pods and weight <= limit:
                chosen.append(item)
                if not item.charges or within(chosen, allowance):
                    yield from walk(index + 1, pods - size, limit - weight, need - item.amount)
                chosen.pop()

    return walk(0, pods, limit, need)


def within(chosen: Iterable[Candidate], allowance: Allowance) -> bool:
    """May all of these go, as far as budgets and the gangs they are in allow?"""
    total: Charges = {}
    for item in chosen:
        for key, count in item.charges.items():
            total[key] = total.get(key, 0) + count
    return all(count <= allowance(key) for key, count in total.items())
