"""The search for the best set of victims over all nodes.

Best first: every node starts with a bound on what a set there can cost at best (`outlook`); the node with the lowest bound is looked at
next, one size of set at a time, and comes back with the bound of the next size. Whether a set suffices is for the allocator to say, with
the victims' claims released. The search ends when no bound is below the best set found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from dra_operator.allocator import Trial
from dra_operator.api.meta import Key
from dra_operator.inventory import Inventory, Snapshot
from dra_operator.inventory.views import NodeRecord
from dra_operator.preemption.budgets import Budgets, Refusal
from dra_operator.preemption.criteria import Bound, Cost, cost
from dra_operator.preemption.fill import fill, give_back
from dra_operator.preemption.ground import Ground
from dra_operator.preemption.holders import BY_RANK, Holder, PodRef, Spare
from dra_operator.preemption.outlook import Outlook
from dra_operator.preemption.site import Candidate, Charges, Site, TooMany, make_site

#: Sets that are tried out with the allocator before the search stops comparing sets and fills instead.
TRIES = 3_000
#: Nodes filled on after that, once there is some set.
LAST_NODES = 64
#: Holders looked at closely before the search is content with the best set on their nodes.
LOOKS = 10_000

Fits = Callable[[str, frozenset[str]], bool]


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may be a victim. `limit`: the highest priority. `budgets` None: none are heeded; `heed_preemptible` likewise.

    `max_victims` counts pods evicted and claims freed without eviction alike.
    """

    limit: int
    max_victims: int
    budgets: Budgets | None
    heed_preemptible: bool
    fits: Fits


@dataclass(frozen=True, slots=True)
class Found:
    """A set of victims with which the unit fits on the node."""

    node: str
    holders: tuple[Holder, ...]
    cost: Cost


class Search:
    """One search. `kept_back`: the terms (by name) that kept sets of victims out, so that without them there might be one."""

    def __init__(self, snapshot: Snapshot, trial: Trial, outlook: Outlook, terms: Terms) -> None:
        self._snapshot, self._trial, self._outlook, self._terms = snapshot, trial, outlook, terms
        self._charges: dict[str, Charges | None] = {}
        self._sites: dict[str, Site] = {}
        self._alike = dict(outlook.alike)
        self._tries, self._last_nodes, self._looks = TRIES, LAST_NODES, LOOKS
        self._best: Found | None = None
        self.kept_back: set[str] = set()

    def run(self) -> Found | None:
        """The best set of victims, None if there is none (or, see `Trial.exhausted`, none was found in time)."""
        heap = list(self._outlook.bounds)
        heapify(heap)
        later: list[Bound] = []
        while heap or (later and self._best is None):
            if not heap:
                heap, later, self._looks = later, [], LOOKS
            low = heappop(heap)
            if self._best is not None and low >= self._best.cost:
                break
            if low[0] > self._terms.max_victims:
                self.kept_back.add("max_victims")
                break
            name = low[5]
            site = self._sites.get(name)
            if site is None and self._looks < 0:
                later.append(low)
            elif site is None:
                self._open(name, heap)
            elif not self._examine(site, low, heap):
                del self._sites[name]
            if self._best is not None and self._last_nodes < 0:
                break
        return self._best

    # -- one node --------------------------------------------------------------------------------------------------

    def _open(self, name: str, heap: list[Bound]) -> None:
        """Take a closer look at a node and put it back with what that says."""
        record = self._inventory.nodes[name]
        ground = self._ground(record)
        candidates = self._candidates(record, ground)
        if candidates is None:
            return
        self._looks -= len(candidates)
        roomy = self._terms.fits(name, frozenset())
        if name in self._alike and not roomy:
            self._next_alike(name, ground, heap)
        if not candidates:
            return
        if not (roomy or self._terms.fits(name, _gone(candidates))):
            self.kept_back.add("fits")
            return
        site = make_site(record, ground, candidates, roomy=roomy, trial=self._trial, inventory=self._inventory)
        low = None if site is None else site.bound()
        if site is not None and low is not None:
            self._sites[name] = site
            heappush(heap, low)

    def _candidates(self, record: NodeRecord, ground: Ground) -> list[Candidate] | None:
        """Those the budgets let go on the node, by rank; None if they have too few devices."""
        holders = self._outlook.on(record.name)
        far = self._outlook.far(ground)
        if far:
            known = {holder.uid for holder in holders}
            holders += [holder for holder in far if holder.uid not in known]
            holders.sort(key=BY_RANK)
        free = (ground.usable & ~self._trial.held.get(record.name, 0) & ~record.used).bit_count() + ground.open
        spare = sum([holder.devices for holder in holders]) + free - ground.need
        candidates = []
        for holder in holders:
            charges = self._charges_of(holder)
            if charges is not None:
                candidates.append(Candidate(holder, charges))
                continue
            self.kept_back.add("budgets")
            spare -= holder.devices
            if spare < 0:
                return None
        return candidates

    def _next_alike(self, name: str, ground: Ground, heap: list[Bound]) -> None:
        names = self._alike.pop(name)[1:]
        if names:
            self._alike[names[0]] = names
            heappush(heap, self._outlook.bound_of_far(ground, names[0]))

    def _examine(self, site: Site, low: Bound, heap: list[Bound]) -> bool:
        """Look at all sets with as many pods as the site's bound `low` has; returns whether there is more to look at."""
        sharp = site.sharpened(low)
        if heap and sharp > heap[0]:
            heappush(heap, sharp)
            return True
        if not site.tested:
            if not self._suffices(site, site.candidates):
                return False
            site.tested = True
        if self._tries <= 0:
            self._last_nodes -= 1
            self._fill(site)
            return False
        self._note_what_limits(site)
        best = None if self._best is None else self._best.cost
        try:
            sets = site.sets(low[0], self._terms.max_victims, self._allowance, best)
        except TooMany:
            self._fill(site)
            return False
        priced = [(self._cost(site, chosen), chosen) for chosen in sets]
        for found, chosen in sorted(priced, key=lambda pair: pair[0]):
            if best is not None and found >= best:
                break
            if found[:3] >= sharp[:3] and self._suffices(site, chosen):
                self._take(site, chosen)
                return False
        higher = site.bound(at_least=low[0] + 1)
        if higher is None:
            return False
        heappush(heap, higher)
        return True

    def _note_what_limits(self, site: Site) -> None:
        if any(item.charges for item in site.candidates):
            self.kept_back.add("budgets")
        if sum(max(1, len(item.holder.pods)) for item in site.candidates) > self._terms.max_victims:
            self.kept_back.add("max_victims")

    def _fill(self, site: Site) -> None:
        for chosen in fill(site.candidates, lambda some: self._suffices(site, some), self._allowance):
            found = self._cost(site, chosen)
            if found.pods + found.freed > self._terms.max_victims:
                self.kept_back.add("max_victims")
                continue
            if self._best is None or found < self._best.cost:
                self._take(site, chosen)

    def _take(self, site: Site, chosen: Sequence[Candidate]) -> None:
        needed = give_back(list(chosen), lambda some: self._suffices(site, some))
        holders = tuple(item.holder for item in needed)
        self._best = Found(site.record.name, holders, cost(holders, site.record.name))

    @staticmethod
    def _cost(site: Site, chosen: Sequence[Candidate]) -> Cost:
        return cost([item.holder for item in chosen], site.record.name)

    def _suffices(self, site: Site, chosen: Sequence[Candidate]) -> bool:
        """Does the unit fit on the node once these are gone?"""
        self._tries -= 1
        if not site.roomy and not self._terms.fits(site.record.name, _gone(chosen)):
            return False
        reverts = [self._snapshot.release(claim) for item in chosen for claim in item.holder.claims]
        try:
            return self._trial.fits(site.record)
        finally:
            for revert in reversed(reverts):
                revert()

    # -- who may go ------------------------------------------------------------------------------------------------

    def _charges_of(self, holder: Holder) -> Charges | None:
        """What evicting the holder takes from which budget; None if the budgets forbid it whatever else is chosen."""
        if holder.uid not in self._charges:
            self._charges[holder.uid] = charges_of(holder, self._terms.budgets)
        return self._charges[holder.uid]

    def _allowance(self, key: Key | Spare) -> int:
        return allowance(key, self._terms.budgets)

    def _ground(self, record: NodeRecord) -> Ground:
        assert record.view is not None
        ground = self._outlook.ground(record.view)
        assert ground is not None
        return ground

    @property
    def _inventory(self) -> Inventory:
        return self._snapshot.inventory


_NOTHING: Charges = {}


def charges_of(holder: Holder, budgets: Budgets | None) -> Charges | None:
    """What the holder's going takes of budgets and of gangs; None if that forbids it whatever else is chosen."""
    disruptions = disruptions_of(holder.pods, budgets) if budgets else _NOTHING
    if disruptions is None or not holder.spares:
        return disruptions
    return {**disruptions, **dict(holder.spares)}


def disruptions_of(pods: Sequence[PodRef], budgets: Budgets) -> Charges | None:
    """The disruptions that evicting all of these takes; None if the budgets forbid it."""
    charges: Charges = {}
    for pod in pods:
        key = budgets.charged(pod)
        if isinstance(key, Refusal):
            return None
        if key is not None:
            charges[key] = charges.get(key, 0) + 1
    return None if any(count > allowance(key, budgets) for key, count in charges.items()) else charges


def protected(holders: Iterable[Holder], budgets: Budgets | None) -> frozenset[str]:
    """The UIDs of those whose eviction a disruption budget counts."""
    return frozenset(holder.uid for holder in holders if budgets and disruptions_of(holder.pods, budgets) != {})


def allowance(key: Key | Spare, budgets: Budgets | None) -> int:
    """How much may be charged in all."""
    if isinstance(key, Spare):
        return key.room
    return 0 if budgets is None else budgets.allowance(key)


def _gone(chosen: Sequence[Candidate]) -> frozenset[str]:
    return frozenset(pod.uid for item in chosen for pod in item.holder.pods)
