"""Choosing victims for a gang: who gives way so that all of its members fit, all or nobody; or why that cannot be.

Whether the members fit is asked of the caller, who solves them together; the criteria are those for one unit (`criteria`). A member
alone says which nodes are cheap to clear: these are looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dra_operator.allocator import Failed, Problem, Trial, trial
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.views import NodeRecord, View
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import Bound, Cost, bound, cost, for_eviction
from dra_operator.preemption.fill import affordable, cheapest, fill, give_back
from dra_operator.preemption.ground import Ground, ground_of
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.search import allowance, charges_of, protected
from dra_operator.preemption.site import Candidate, Charges, subsets
from dra_operator.preemption.victims import NoVictims, reasons

#: Sets that are compared beyond the first that suffices. Each costs a joint search.
TRIES = 150
#: More sets of one size than are worth comparing.
SETS = 3_000
#: On more nodes than that nothing is compared: a joint search over all of them takes too long.
PLACES = 300
#: Sets of nodes (values of a topology label) in which victims are looked for, once some are found.
DOMAINS = 12

#: The nodes that the gang would take among `nodes` (None: all) once these are gone; None if it does not fit then. More that are
#: gone, or more nodes, must never make it None.
Fits = Callable[[Sequence[Holder], Sequence[str] | None], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Gang:
    """`sorts`: the problem of one member of each sort, and how many there are of it. `domains`: sets of nodes of which one has to take
    all members; (None,) where any nodes will do. `leaving`: UIDs of claims that `fits` takes for released anyway."""

    sorts: tuple[tuple[Problem, int], ...]
    domains: tuple[tuple[str, ...] | None, ...]
    fits: Fits
    leaving: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GangVictims:
    """`holders`: who gives way, in the order to evict them; nobody if the gang fits once those that leave anyway are gone."""

    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class _Terms:
    limit: int
    max_victims: int
    budgets: Budgets | None
    heed_preemptible: bool = True


def choose_for_gang(
    gang: Gang,
    inventory: Inventory,
    holders: Holders,
    *,
    priority: int,
    min_delta: int,
    max_victims: int,
    budgets: Budgets,
) -> GangVictims | NoVictims:
    """The best victims for all members together; deterministic. The arguments are as for `victims.choose`.

    Exact as long as there is little to compare (`PLACES`, `TRIES`, `SETS`); beyond that victims are filled in and given back, so that
    each one chosen is still needed. `gang.fits` may change `inventory`, if it takes everything back.
    """
    if gang.fits((), None) is not None:
        return GangVictims(())
    trials: list[tuple[Trial, int]] = []
    for problem, count in gang.sorts:
        asked = trial(problem, inventory.snapshot())
        if isinstance(asked, Failed):
            return NoVictims((asked.message,))
        trials.append((asked, count))
    ground = _GangGround(trials, inventory, gang.domains)
    terms = _Terms(priority - max(1, min_delta), max_victims, budgets)
    search = _GangSearch(gang, ground, holders, terms)
    found = search.run()
    if found is not None:
        return GangVictims(for_eviction(found, protected(found, budgets)))
    if not ground.places:
        return NoVictims(("no node has the devices that its members ask for, whoever holds them",))
    for lifted in (
        replace(terms, max_victims=1 << 30),
        replace(terms, max_victims=1 << 30, budgets=None),
        replace(terms, max_victims=1 << 30, budgets=None, heed_preemptible=False),
    ):
        found = _GangSearch(gang, ground, holders, lifted).run(compare=False)
        if found is not None:
            return NoVictims(tuple(reasons(found, budgets, max_victims)), closest=found)
    if not search.any_below:
        return NoVictims((f"nothing of priority {terms.limit} or lower holds a device on a node it could use",))
    return NoVictims((f"its members would not fit even if everything of priority {terms.limit} or lower gave way",))


@dataclass(frozen=True, slots=True)
class _Place:
    """A node that could take a member. `needs`: by sort that it could take, the devices one member needs and those that are free for it
    now; a need of 0 says that counting means nothing there. `far`: whether it sees devices of no single node."""

    name: str
    needs: tuple[tuple[int, int, int], ...]
    far: bool


class _GangGround:
    """The nodes that bear on a gang, and how many devices it is short of at the least, in all (None: counting cannot tell)."""

    def __init__(
        self, trials: list[tuple[Trial, int]], inventory: Inventory, domains: Iterable[tuple[str, ...] | None]
    ) -> None:
        self._trials, self._inventory = trials, inventory
        self._grounds: dict[tuple[int, View], Ground | None] = {}
        self.counts = [count for _, count in trials]
        self.usable: set[DeviceId] = set()
        names: dict[str, None] = {}
        for domain in domains:
            names.update(dict.fromkeys(inventory.node_names if domain is None else domain))
        self._free: set[DeviceId] = set()
        self.places = {name: place for name in names if (place := self._place(name)) is not None}
        needs = [
            min((need for place in self.places.values() for sort, need, _ in place.needs if sort == index), default=0)
            for index in range(len(trials))
        ]
        counted = all(need for place in self.places.values() for _, need, _ in place.needs)
        total = sum(need * count for need, count in zip(needs, self.counts, strict=True))
        self.short = total - len(self._free) if counted else None

    def _place(self, name: str) -> _Place | None:
        record = self._inventory.nodes.get(name)
        if record is None or record.view is None:
            return None
        needs = []
        far = False
        for index, (asked, _) in enumerate(self._trials):
            ground = self._ground(index, asked, record.view)
            if ground is None:
                continue
            usable = ground.usable & ~asked.held.get(name, 0)
            free = usable & ~record.used
            needs.append((index, ground.need, free.bit_count() + ground.open))
            far = far or bool(ground.shared)
            self._note(record, ground, usable, free, asked.homeless)
        return _Place(name, tuple(needs), far) if needs else None

    def _ground(self, index: int, asked: Trial, view: View) -> Ground | None:
        key = index, view
        if key not in self._grounds:
            self._grounds[key] = ground_of(asked, view, self._inventory)
        return self._grounds[key]

    def _note(self, record: NodeRecord, ground: Ground, usable: int, free: int, homeless: frozenset[DeviceId]) -> None:
        for position, offer in enumerate(record.offers):
            if usable >> position & 1:
                self.usable.add(offer.id)
                if free >> position & 1:
                    self._free.add(offer.id)
        for device, taken in ground.shared.items():
            if taken and device not in homeless:
                self.usable.add(device)
                if device not in self._inventory.usage.by_device:
                    self._free.add(device)

    def nodes_of(self, claims: Iterable[str]) -> set[str] | None:
        """The nodes of these claims' devices; None if some belong to no single node."""
        uses = (use for claim in claims for use in self._inventory.usage.by_claim.get(claim, ()))
        offers = [self._inventory.offer(use.device) for use in uses]
        homes = {offer.home for offer in offers if offer is not None}
        return None if None in homes else {home for home in homes if home is not None}

    def amount(self, holder: Holder) -> int:
        """How many devices that the gang could use the holder has."""
        by_claim = self._inventory.usage.by_claim
        return len({use.device for claim in holder.claims for use in by_claim.get(claim, ())} & self.usable)


class _GangSearch:
    """One search under some terms. `any_below`: is there any holder of low enough priority where the gang could go?"""

    def __init__(self, gang: Gang, ground: _GangGround, holders: Holders, terms: _Terms) -> None:
        self._gang, self._ground, self._terms = gang, ground, terms
        self._known: dict[str, Candidate | None] = {}
        self._far = [item for item in map(self._candidate, holders.anywhere()) if item is not None]
        self._on = {name: self._eligible(holders.on(name)) for name in ground.places}
        self._best: tuple[Cost, tuple[Holder, ...]] | None = None
        self.any_below = bool(self._far) or any(self._on.values())

    def run(self, *, compare: bool = True) -> tuple[Holder, ...] | None:
        """The best set found; None if there is none. `compare` False: any will do."""
        if not self.any_below:
            return None
        outlooks = []
        for number, domain in enumerate(self._gang.domains):
            ranks = self._ranks(self._ground.places if domain is None else domain)
            if self._enough(ranks):
                # What the cheapest places cost, one for each member: they may take more than one, so it only orders.
                cheapest_first = [rank[:2] for rank in ranks[: sum(self._ground.counts)]]
                outlooks.append((sum(pods for pods, _ in cheapest_first), number, ranks))
        for looked, (_, _, ranks) in enumerate(sorted(outlooks, key=lambda item: item[:2])):
            if looked >= DOMAINS and self._best is not None:
                break
            self._fill(ranks)
        if outlooks and compare and len(self._ground.places) <= PLACES:
            self._compare({rank[5] for _, _, ranks in outlooks for rank in ranks})
        return None if self._best is None else self._best[1]

    # -- who could go

    def _candidate(self, holder: Holder) -> Candidate | None:
        if holder.uid not in self._known:
            self._known[holder.uid] = self._look_at(holder)
        return self._known[holder.uid]

    def _look_at(self, holder: Holder) -> Candidate | None:
        terms = self._terms
        if holder.priority > terms.limit or (terms.heed_preemptible and not holder.preemptible):
            return None
        charges: Charges | None = charges_of(holder, terms.budgets)
        return None if charges is None else Candidate(holder, charges, self._ground.amount(holder))

    def _eligible(self, holders: Iterable[Holder]) -> list[Candidate]:
        return [item for item in map(self._candidate, holders) if item is not None]

    def _allowance(self, key: object) -> int:
        return allowance(key, self._terms.budgets)  # type: ignore[arg-type]

    def _candidates(self, names: Iterable[str]) -> list[Candidate]:
        """Those on these nodes, each once, and those of devices that the nodes see."""
        found: dict[str, Candidate] = {}
        far = False
        for name in names:
            far = far or self._ground.places[name].far
            found.update((item.holder.uid, item) for item in self._on[name])
        if far:
            found.update((item.holder.uid, item) for item in self._far)
        return list(found.values())

    # -- places

    def _ranks(self, names: Iterable[str]) -> list[Bound]:
        """The nodes that could take a member, by the least that making room for one can cost there."""
        found = []
        for name in names:
            place = self._ground.places.get(name)
            if place is None:
                continue
            best = min((rank for rank in self._costs(place) if rank is not None), default=None)
            if best is not None:
                found.append(best)
        return sorted(found)

    def _costs(self, place: _Place) -> Iterator[Bound | None]:
        here = [item.holder for item in (*self._on[place.name], *(self._far if place.far else ()))]
        for _, need, free in place.needs:
            if need and free >= need:
                yield (0, 0, 0, 0.0, 0, place.name)
            else:
                yield bound(max(1, need - free), here, [holder.devices for holder in here], place.name)

    def _enough(self, ranks: list[Bound]) -> bool:
        """Counted, could these places take all members of every sort if everybody who may go went?"""
        wanted = list(self._ground.counts)
        for rank in ranks:
            place = self._ground.places[rank[5]]
            here = sum(item.holder.devices for item in (*self._on[place.name], *(self._far if place.far else ())))
            for sort, need, free in place.needs:
                wanted[sort] -= (free + here) // need if need else wanted[sort]
            if all(count <= 0 for count in wanted):
                return True
        return False

    # -- filling

    def _fill(self, ranks: list[Bound]) -> None:
        """A set for the cheapest nodes that will do: of everybody there, those that are needed."""
        names = [rank[5] for rank in ranks]
        used = self._cheapest_nodes(names)
        if used is None:
            return
        near = self._candidates(used)
        chosen = fill(near, partial(self._fits, used), self._allowance)
        for items in chosen or self._anywhere(names):
            # What one node needs another may not: the last word is on all of them.
            self._take(give_back(items, partial(self._fits, self._open_to_some(items, used))))

    def _anywhere(self, names: list[str]) -> list[list[Candidate]]:
        """Where budgets do not let enough go on those nodes: everybody who may go together, wherever."""
        some = affordable(sorted(self._candidates(names), key=cheapest), self._allowance)
        used = self._gang.fits(_holders(some), names) if some else None
        if used is None:
            return []
        there = {item.holder.uid for item in self._candidates(name for name in used if name in self._ground.places)}
        fewer = [item for item in some if item.holder.uid in there]
        return [fewer if self._gang.fits(_holders(fewer), used) is not None else some]

    def _fits(self, nodes: Sequence[str] | None, some: Sequence[Candidate]) -> bool:
        return self._gang.fits(_holders(some), nodes) is not None

    def _open_to_some(self, chosen: list[Candidate], used: Sequence[str]) -> list[str] | None:
        """The nodes that could take a member if no others than these went: elsewhere, counted, nobody fits. None: all."""
        far = {item.holder.uid for item in self._far}
        leaving = self._ground.nodes_of(self._gang.leaving)
        if leaving is None or any(item.holder.uid in far for item in chosen):
            return None
        open_now = (
            name
            for name, place in self._ground.places.items()
            if any(not need or free >= need for _, need, free in place.needs)
        )
        return list(dict.fromkeys([*used, *leaving, *open_now]))

    def _cheapest_nodes(self, names: list[str]) -> tuple[str, ...] | None:
        """Of the shortest list of first nodes that will do with everybody gone, those that the gang would take."""
        high = min(len(names), max(1, sum(self._ground.counts)))
        low = 0
        used = self._clear(names[:high])
        while used is None:
            if high == len(names):
                return None
            low, high = high, min(len(names), 2 * high)
            used = self._clear(names[:high])
        while low + 1 < high:
            middle = (low + high) // 2
            found = self._clear(names[:middle])
            if found is None:
                low = middle
            else:
                high, used = middle, found
        return tuple(name for name in used if name in self._ground.places)

    def _clear(self, names: list[str]) -> tuple[str, ...] | None:
        return self._gang.fits(_holders(self._candidates(names)), names)

    # -- comparing

    def _compare(self, names: set[str]) -> None:
        """Every set that could be better than the one found, best first, as long as these are few."""
        candidates = self._candidates(sorted(names))
        short = self._ground.short
        if short is None:
            candidates, short = [replace(item, amount=1) for item in candidates], 1
        tries = TRIES
        most = self._terms.max_victims if self._best is None else self._best[0].pods
        for pods in range(most + 1):
            ranked = []
            for chosen in subsets(candidates, pods, self._terms.max_victims, max(1, short), self._allowance):
                ranked.append((cost(_holders(chosen), ""), chosen))
                if len(ranked) > SETS:
                    return
            for found, chosen in sorted(ranked, key=lambda pair: pair[0]):
                if self._best is not None and found >= self._best[0]:
                    break
                tries -= 1
                if tries < 0:
                    return
                if self._gang.fits(_holders(chosen), None) is not None:
                    self._take(give_back(list(chosen), partial(self._fits, None)))
                    return

    def _take(self, chosen: Sequence[Candidate]) -> None:
        holders = _holders(chosen)
        price = cost(holders, "")
        if price.pods + price.freed <= self._terms.max_victims and (self._best is None or price < self._best[0]):
            self._best = price, holders


def _holders(candidates: Iterable[Candidate]) -> tuple[Holder, ...]:
    return tuple(item.holder for item in candidates)


__all__ = ["Fits", "Gang", "GangVictims", "choose_for_gang"]
