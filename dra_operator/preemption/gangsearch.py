"""The search for the victims of a gang under given terms.

A node is as good as the least that room for one member can cost there; the cheapest nodes that will do are cleared, and what was not
needed is given back. Where there is little to compare, every set that could be better is tried as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dra_operator.allocator import Problem
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import Bound, Cost, bound, bound_of_singles, cost, singles
from dra_operator.preemption.fill import affordable, cheapest, fill, give_back
from dra_operator.preemption.gangground import GangGround
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.ranking import Crowd, Ranking, glance
from dra_operator.preemption.search import allowance, charges_of
from dra_operator.preemption.site import Candidate, Charges, subsets

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
class Terms:
    """Who may go. `budgets` None: none are heeded; `heed_preemptible` likewise. `max_victims` as for `victims.choose`."""

    limit: int
    max_victims: int
    budgets: Budgets | None
    heed_preemptible: bool = True

    def concern(self, holder: Holder) -> bool:
        """Could the holder go, as far as budgets do not stand against it?"""
        return holder.priority <= self.limit and (holder.preemptible or not self.heed_preemptible)


#: Nodes by their bounds.
_Nodes = Ranking[Bound, str]
#: How many pods the cheapest places of a domain cost, and the domain's number.
_DomainRank = tuple[int, int]


class GangSearch:
    """One search. `over_limit`: were there sets with more victims than may go?"""

    def __init__(self, gang: Gang, ground: GangGround, holders: Holders, terms: Terms) -> None:
        self._gang, self._ground, self._terms = gang, ground, terms
        self._holders = holders
        self._charges: dict[str, Charges | None] = {}
        self._known: dict[str, Candidate] = {}
        self._far = self._may_go(holders.anywhere())
        self._far_crowd = glance(self._far)
        self._crowds: dict[str, Crowd | None] = {}
        self._nodes: dict[int, _Nodes] = {}
        self._best: tuple[Cost, tuple[Holder, ...]] | None = None
        self.over_limit = False

    def any_below(self) -> bool:
        """Is there any holder of low enough priority where the gang could go?"""
        return bool(self._far) or any(self._may_go(self._holders.on(name)) for name in self._ground.places)

    def spares_any(self) -> bool:
        """Is there a holder of low enough priority that only stays because it is not preemptible?"""
        on, limit = self._holders.on, self._terms.limit
        return any(
            not holder.preemptible and holder.priority <= limit
            for holders in (self._holders.anywhere(), *map(on, self._ground.places))
            for holder in holders
        )

    def run(self, *, compare: bool = True) -> tuple[Holder, ...] | None:
        """The best set found; None if there is none. `compare` False: any will do."""
        domains = Ranking(self._outlooks(), self._rank)
        for looked, number in enumerate(domains):
            if looked >= DOMAINS and self._best is not None:
                break
            self._look_in(number)
        if compare and len(self._ground.places) <= PLACES:
            self._compare({name for number in domains.items() for name in self._nodes[number].items()})
        return None if self._best is None else self._best[1]

    # -- domains

    def _outlooks(self) -> Iterable[tuple[_DomainRank, int]]:
        """The domains that have enough for all members, each with a rank that is not above that of `_rank`."""
        members = sum(self._ground.counts)
        places = self._ground.places
        for number, domain in enumerate(self._gang.domains):
            names = list(places) if domain is None else [name for name in domain if name in places]
            if not self._enough(names, self._devices_seen):
                continue
            outlooks = [(low, name) for name in names if (low := self._outlook(name)) is not None]
            self._nodes[number] = Ranking(outlooks, self._exact)
            # Budgets may leave fewer places than there seem to be.
            counted = 1 if self._terms.budgets else members
            yield (sum(sorted([low[0] for low, _ in outlooks])[:counted]), number), number

    def _rank(self, number: int) -> _DomainRank | None:
        """By what the cheapest places cost, one for each member: they may take more than one, so it only orders."""
        names = self._gang.domains[number]
        places = self._ground.places
        if self._terms.budgets and not self._enough(
            places if names is None else [name for name in names if name in places], self._devices_going
        ):
            return None
        return sum(low[0] for low, _ in self._nodes[number].first(sum(self._ground.counts))), number

    def _look_in(self, number: int) -> None:
        least = self._least(self._gang.domains[number])
        if least is None:
            return
        if least > self._terms.max_victims:
            self.over_limit = True
        elif self._best is None or least <= self._best[0].pods:
            self._fill(self._nodes[number])

    def _least(self, domain: Iterable[str] | None) -> int | None:
        """So many pods at the least have to go there for all members; None if nobody's going makes room for all."""
        places = self._ground.places
        names = places if domain is None else [name for name in domain if name in places]
        short = self._ground.short_of(names)
        crowd: Crowd | None = None
        for found in map(self._crowd, names):
            if found is not None:
                crowd = found if crowd is None else crowd.joined(found)
        return 0 if short <= 0 else None if crowd is None else crowd.least(short)

    def _enough(self, names: Iterable[str], devices: Callable[[str], int]) -> bool:
        """Counted, could these places take all members of every sort if they had so many more devices?"""
        wanted = list(self._ground.counts)
        for name in names:
            here = devices(name)
            for sort, need, free in self._ground.places[name].needs:
                if need:
                    wanted[sort] -= (free + here) // need
                elif here:
                    wanted[sort] = 0
            if all(count <= 0 for count in wanted):
                return True
        return False

    def _devices_seen(self, name: str) -> int:
        crowd = self._crowd(name)
        return 0 if crowd is None else crowd.devices

    def _devices_going(self, name: str) -> int:
        return sum(holder.devices for holder in self._here(name))

    # -- nodes

    def _crowd(self, name: str) -> Crowd | None:
        """Who could go there, without a look at budgets."""
        if name not in self._crowds:
            concern = self._terms.concern
            crowd = glance([holder for holder in self._holders.on(name) if concern(holder)])
            if self._far_crowd is not None and self._ground.places[name].far:
                crowd = self._far_crowd if crowd is None else crowd.joined(self._far_crowd)
            self._crowds[name] = crowd
        return self._crowds[name]

    def _outlook(self, name: str) -> Bound | None:
        """The least that making room for one member can cost there, at a glance."""
        crowd = self._crowd(name)
        lows = (
            _free(name) if not lack else None if crowd is None else crowd.outlook(lack, name)
            for lack in self._ground.places[name].lacks
        )
        return min((low for low in lows if low is not None), default=None)

    def _exact(self, name: str) -> Bound | None:
        """The same with a look at who is there."""
        place, here = self._ground.places[name], self._here(name)
        by_rank = not (place.far and self._far)
        bound_of = bound_of_singles if here and by_rank and singles(here) else bound
        amounts = [holder.devices for holder in here]
        lows = (bound_of(lack, here, amounts, name) if lack else _free(name) for lack in place.lacks)
        return min((low for low in lows if low is not None), default=None)

    # -- who could go

    def _may_go(self, holders: Iterable[Holder]) -> list[Holder]:
        concern = self._terms.concern
        found = [holder for holder in holders if concern(holder)]
        if self._terms.budgets:
            found = [holder for holder in found if self._charges_of(holder) is not None]
        return found

    def _charges_of(self, holder: Holder) -> Charges | None:
        """What the holder's going takes of budgets and of gangs; None if that forbids it whatever else is chosen."""
        if holder.uid not in self._charges:
            self._charges[holder.uid] = charges_of(holder, self._terms.budgets)
        return self._charges[holder.uid]

    def _here(self, name: str) -> list[Holder]:
        """Who may go on one node, by rank, and then those of devices that it sees."""
        near = self._may_go(self._holders.on(name))
        return near + self._far if self._far and self._ground.places[name].far else near

    def _candidate(self, holder: Holder) -> Candidate:
        if holder.uid not in self._known:
            charges = self._charges_of(holder)
            assert charges is not None
            self._known[holder.uid] = Candidate(holder, charges, self._ground.amount(holder))
        return self._known[holder.uid]

    def _candidates(self, names: Iterable[str]) -> list[Candidate]:
        """Those on these nodes, each once, and those of devices that the nodes see."""
        found: dict[str, Candidate] = {}
        far = False
        for name in names:
            far = far or self._ground.places[name].far
            found.update((holder.uid, self._candidate(holder)) for holder in self._may_go(self._holders.on(name)))
        if far:
            found.update((holder.uid, self._candidate(holder)) for holder in self._far)
        return list(found.values())

    def _allowance(self, key: object) -> int:
        return allowance(key, self._terms.budgets)  # type: ignore[arg-type]

    # -- filling

    def _fill(self, ranking: _Nodes) -> None:
        """A set for the cheapest nodes that will do: of everybody there, those that are needed."""
        used = self._cheapest_nodes(ranking)
        if used is None:
            return
        near = self._candidates(used)
        chosen = fill(near, partial(self._fits, used), self._allowance)
        for items in chosen or self._anywhere(ranking.items()):
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
        far = {holder.uid for holder in self._far}
        leaving = self._ground.nodes_of(self._gang.leaving)
        if leaving is None or any(item.holder.uid in far for item in chosen):
            return None
        return list(dict.fromkeys([*used, *leaving, *self._ground.open]))

    def _cheapest_nodes(self, ranking: _Nodes) -> tuple[str, ...] | None:
        """Of the shortest list of first nodes that will do with everybody gone, those that the gang would take."""
        low, names = 0, ranking.items(max(1, sum(self._ground.counts)))
        used = self._clear(names)
        while used is None:
            low, names = len(names), ranking.items(2 * len(names))
            if len(names) == low:
                return None
            used = self._clear(names)
        high = len(names)
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
        if price.pods + price.freed > self._terms.max_victims:
            self.over_limit = True
        elif self._best is None or price < self._best[0]:
            self._best = price, holders


def _free(name: str) -> Bound:
    """Of a node with room for a member."""
    return 0, 0, 0, 0.0, 0, name


def _holders(candidates: Iterable[Candidate]) -> tuple[Holder, ...]:
    return tuple(item.holder for item in candidates)
