"""Choosing victims for a gang: who gives way so that all of its members fit, all or nobody; or why that cannot be.

Whether the members fit is asked of the caller, who solves them together; the criteria are those for one unit (`criteria`). A member
alone says which nodes are cheap to clear: these are looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dra_operator.allocator import Failed, Problem, Trial, trial
from dra_operator.inventory import Inventory
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import Bound, Cost, bound, cost, for_eviction
from dra_operator.preemption.fill import affordable, cheapest, fill, give_back
from dra_operator.preemption.gangground import GangGround
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.ranking import Ranking, outlook
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

    def concern(self, holder: Holder) -> bool:
        """Could the holder go, as far as budgets do not stand against it?"""
        return holder.priority <= self.limit and (holder.preemptible or not self.heed_preemptible)


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
    gang = replace(gang, fits=_remembered(gang.fits))
    if gang.fits((), None) is not None:
        return GangVictims(())
    trials: list[tuple[Trial, int]] = []
    for problem, count in gang.sorts:
        asked = trial(problem, inventory.snapshot())
        if isinstance(asked, Failed):
            return NoVictims((asked.message,))
        trials.append((asked, count))
    ground = GangGround(trials, inventory, gang.domains)
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


class _GangSearch:
    """One search under some terms."""

    def __init__(self, gang: Gang, ground: GangGround, holders: Holders, terms: _Terms) -> None:
        self._gang, self._ground, self._terms = gang, ground, terms
        self._holders = holders
        self._known: dict[str, Candidate | None] = {}
        self._on: dict[str, list[Candidate]] = {}
        self._far = self._eligible(holders.anywhere())
        self._best: tuple[Cost, tuple[Holder, ...]] | None = None

    @property
    def any_below(self) -> bool:
        """Is there any holder of low enough priority where the gang could go?"""
        return bool(self._far) or any(map(self._near, self._ground.places))

    def run(self, *, compare: bool = True) -> tuple[Holder, ...] | None:
        """The best set found; None if there is none. `compare` False: any will do."""
        if not self.any_below:
            return None
        outlooks = []
        members = sum(self._ground.counts)
        for number, domain in enumerate(self._gang.domains):
            places = self._ground.places
            names = list(places) if domain is None else [name for name in domain if name in places]
            if self._enough(names):
                ranking = self._rank(names)
                # What the cheapest places cost, one for each member: they may take more than one, so it only orders.
                outlooks.append((sum(rank[0] for rank in ranking.first(members)), number, ranking))
        for looked, (_, _, ranking) in enumerate(sorted(outlooks, key=lambda item: item[:2])):
            if looked >= DOMAINS and self._best is not None:
                break
            self._fill(ranking)
        if outlooks and compare and len(self._ground.places) <= PLACES:
            self._compare({name for _, _, ranking in outlooks for name in ranking.everywhere()})
        return None if self._best is None else self._best[1]

    # -- who could go

    def _candidate(self, holder: Holder) -> Candidate | None:
        if holder.uid not in self._known:
            self._known[holder.uid] = self._look_at(holder)
        return self._known[holder.uid]

    def _look_at(self, holder: Holder) -> Candidate | None:
        if not self._terms.concern(holder):
            return None
        charges: Charges | None = charges_of(holder, self._terms.budgets)
        return None if charges is None else Candidate(holder, charges, self._ground.amount(holder))

    def _eligible(self, holders: Iterable[Holder]) -> list[Candidate]:
        return [item for item in map(self._candidate, holders) if item is not None]

    def _near(self, name: str) -> list[Candidate]:
        """Those with devices of the node."""
        found = self._on.get(name)
        if found is None:
            found = self._on[name] = self._eligible(self._holders.on(name))
        return found

    def _allowance(self, key: object) -> int:
        return allowance(key, self._terms.budgets)  # type: ignore[arg-type]

    def _candidates(self, names: Iterable[str]) -> list[Candidate]:
        """Those on these nodes, each once, and those of devices that the nodes see."""
        found: dict[str, Candidate] = {}
        far = False
        for name in names:
            far = far or self._ground.places[name].far
            found.update((item.holder.uid, item) for item in self._near(name))
        if far:
            found.update((item.holder.uid, item) for item in self._far)
        return list(found.values())

    def _here(self, name: str) -> list[Holder]:
        """Who could go on one node, with those of devices that it sees."""
        far = self._far if self._ground.places[name].far else ()
        return [item.holder for item in (*self._near(name), *far)]

    # -- places

    def _rank(self, names: Iterable[str]) -> Ranking:
        """The nodes that could take a member, by the least that making room for one can cost there."""
        return Ranking((low for name in names if (low := self._outlook(name)) is not None), self._exact)

    def _outlook(self, name: str) -> Bound | None:
        """A bound for one node without a look at budgets."""
        place, concern = self._ground.places[name], self._terms.concern
        here = [holder for holder in self._holders.on(name) if concern(holder)]
        if place.far:
            here += [item.holder for item in self._far]
        return min(
            (low for need in place.lacks if (low := outlook(need, here, name) if need else _free(name)) is not None),
            default=None,
        )

    def _exact(self, name: str) -> Bound | None:
        here = self._here(name)
        amounts = [holder.devices for holder in here]
        lacks = self._ground.places[name].lacks
        return min(
            (low for need in lacks if (low := bound(need, here, amounts, name) if need else _free(name)) is not None),
            default=None,
        )

    def _enough(self, names: Iterable[str]) -> bool:
        """Counted, could these places take all members of every sort if everybody who may go went?"""
        wanted = list(self._ground.counts)
        for name in names:
            here = sum(holder.devices for holder in self._here(name))
            for sort, need, free in self._ground.places[name].needs:
                if need:
                    wanted[sort] -= (free + here) // need
                elif here:
                    wanted[sort] = 0
            if all(count <= 0 for count in wanted):
                return True
        return False

    # -- filling

    def _fill(self, ranking: Ranking) -> None:
        """A set for the cheapest nodes that will do: of everybody there, those that are needed."""
        used = self._cheapest_nodes(ranking)
        if used is None:
            return
        near = self._candidates(used)
        chosen = fill(near, partial(self._fits, used), self._allowance)
        for items in chosen or self._anywhere(ranking.everywhere()):
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
        return list(dict.fromkeys([*used, *leaving, *self._ground.open]))

    def _cheapest_nodes(self, ranking: Ranking) -> tuple[str, ...] | None:
        """Of the shortest list of first nodes that will do with everybody gone, those that the gang would take."""
        low, names = 0, ranking.names(max(1, sum(self._ground.counts)))
        used = self._clear(names)
        while used is None:
            low, names = len(names), ranking.names(2 * len(names))
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
        if price.pods + price.freed <= self._terms.max_victims and (self._best is None or price < self._best[0]):
            self._best = price, holders


def _remembered(fits: Fits) -> Fits:
    """Asked once about the same victims and nodes: filling in comes by the same sets from several sides."""
    known: dict[tuple[frozenset[str], tuple[str, ...] | None], tuple[str, ...] | None] = {}

    def remembered(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
        key = frozenset([holder.uid for holder in gone]), None if nodes is None else tuple(nodes)
        if key not in known:
            known[key] = fits(gone, nodes)
        return known[key]

    return remembered


def _free(name: str) -> Bound:
    """Of a node with room for a member."""
    return 0, 0, 0, 0.0, 0, name


def _holders(candidates: Iterable[Candidate]) -> tuple[Holder, ...]:
    return tuple(item.holder for item in candidates)


__all__ = ["Fits", "Gang", "GangVictims", "choose_for_gang"]
