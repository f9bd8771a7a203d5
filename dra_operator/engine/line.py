"""The line of waiting units, kept up unit by unit: their order, which of them are alike, and what time alone will change for them.

Alike are units of which the allocator must say the same: same claims, pod, policy and priority. As long as the first of them does not
fit, neither do the others, so a pass need not look at them; they are one `Lot`. Nothing is decided here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf, nextafter

from dra_operator.api.core import Pod
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.membership import owner_key
from dra_operator.engine.placing import Placer
from dra_operator.engine.state import State
from dra_operator.engine.timers import Timers
from dra_operator.queue.budgets import Scope
from dra_operator.queue.fairness import dominant_share
from dra_operator.queue.priority import effective_priority, next_boost
from dra_operator.queue.units import Unit, UnitKey, order

#: So many units that are alike are all looked at when something changes, and of more only the first ones, until one does not fit.
FEW = 16
#: Up to so many units all positions are worked out whenever the line changes.
SHORT = 64

#: Where a unit stands; smaller is nearer to the front.
Place = tuple[int, float, float, str, UnitKey]


def place_of(unit: Unit) -> Place:
    return (*order(unit), unit.key)


@dataclass(slots=True)
class Lot:
    """Units that are alike, and those of them that are starved, each in the order of the line. `eager`: their policy preempts at once.

    `lacks_node`, `short_of`, `only_short`: what its units said of themselves when they were tried last, `preemption_note` its first
    one (`Unit`).
    """

    key: Hashable
    places: list[Place] = field(default_factory=list)
    starved: list[Place] = field(default_factory=list)
    eager: bool = False
    lacks_node: bool = False
    short_of: set[Scope] = field(default_factory=set)
    only_short: bool = True
    preemption_note: str = ""

    @property
    def many(self) -> bool:
        """Too many for all of them to be looked at."""
        return len(self.places) > FEW

    @property
    def contenders(self) -> list[Place]:
        """Those that devices may be held or freed for."""
        return self.places if self.eager else self.starved

    def note(self, unit: Unit) -> None:
        self.lacks_node = self.lacks_node or unit.lacks_node
        self.short_of.update(unit.short_of)
        self.only_short = self.only_short and unit.only_short

    def forget(self) -> None:
        """All of it is to be tried again."""
        self.lacks_node, self.short_of, self.only_short = False, set(), True


class Line:
    """Follows `state.waiting` whenever it is told to (`follow`).

    `lots` by what makes units alike; `contending`: those with units that devices may be held or freed for; `special`: whether units
    wait whose turn depends on others (Strict, FairShare), so that all are looked at in order. `starves`, `shows`: when units are
    starved, and when they are shown to node autoscalers.
    """

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._places: list[Place] = []
        self._at: dict[UnitKey, tuple[Place, Lot]] = {}
        self._special: dict[UnitKey, None] = {}
        self._fair: dict[UnitKey, None] = {}
        self._bound: dict[UnitKey, None] = {}
        self._holding: dict[UnitKey, None] = {}
        self._read: tuple[int, ...] = ()
        self._boosts: Timers[UnitKey] = Timers()
        self.lots: dict[Hashable, Lot] = {}
        self.contending: dict[Hashable, Lot] = {}
        self.starves: Timers[UnitKey] = Timers()
        self.shows: Timers[UnitKey] = Timers()

    # -- reading

    @property
    def special(self) -> bool:
        return bool(self._special)

    def next_boost(self) -> float | None:
        """When an effective priority changes next."""
        return self._boosts.next()

    def units(self) -> Iterator[Unit]:
        """All that wait, best first."""
        waiting = self._state.waiting
        return (unit for place in tuple(self._places) if (unit := waiting.get(place[-1])) is not None)

    def some(self, start: int, count: int) -> list[Unit]:
        """So many from a position on."""
        waiting = self._state.waiting
        return [unit for place in self._places[start : start + count] if (unit := waiting.get(place[-1])) is not None]

    def __len__(self) -> int:
        return len(self._places)

    def bound(self) -> list[Unit]:
        """Pods that are bound and wait for devices there, best first."""
        found = (self._state.waiting.get(key) for key in self._bound)
        return sorted((unit for unit in found if unit is not None), key=place_of)

    def position(self, unit: Unit) -> int | None:
        """1 is the front; None if it is not in line."""
        known = self._at.get(unit.key)
        return None if known is None else bisect_left(self._places, known[0]) + 1

    def lot(self, key: UnitKey) -> Lot | None:
        known = self._at.get(key)
        return None if known is None else known[1]

    def place(self, key: UnitKey) -> Place:
        return self._at[key][0]

    # -- keeping up

    def follow(self, now: float, on_boost: Callable[[Unit], None]) -> None:
        """Take in who came, went or changed; `on_boost` is told of those whose effective priority did."""
        state = self._state
        state.inventory.refresh()
        self._budgeting.accounts.follow()
        read = state.term_changes, self._budgeting.accounts.version, state.avoided.owners_seen
        todo, state.requeued = state.requeued, {}
        holding = {hold.unit: None for hold in state.holds}
        if read != self._read:
            self._read = read
            todo = dict.fromkeys([*self._at, *state.waiting])
        else:
            todo.update(dict.fromkeys(holding.keys() ^ self._holding.keys()))
            todo.update(dict.fromkeys(self._boosts.due(now)))
            todo.update(self._fair)
        self._holding = holding
        for key in todo:
            self._remove(key)
            unit = state.waiting.get(key)
            if unit is not None:
                self._insert(unit, now, on_boost)
        if todo:
            self._number(todo)

    def _number(self, changed: Iterable[UnitKey]) -> None:
        """Positions shift with every unit that leaves: in a long line they are brought up to date in rounds."""
        if len(self._places) <= SHORT:
            for number, standing in enumerate(self.units(), 1):
                standing.position = number
            return
        for unit in map(self._state.waiting.get, changed):
            if unit is not None and unit.position is None:
                unit.position = self.position(unit)

    def starve(self, unit: Unit) -> None:
        """It is starved from now on."""
        known = self._at.get(unit.key)
        if known is not None:
            insort(known[1].starved, known[0])
            self.contending[known[1].key] = known[1]

    def _remove(self, key: UnitKey) -> None:
        known = self._at.pop(key, None)
        for kept in (self._special, self._fair, self._bound):
            kept.pop(key, None)
        for timers in (self._boosts, self.starves, self.shows):
            timers.drop(key)
        if known is None:
            return
        place, lot = known
        for places in (self._places, lot.places, lot.starved):
            at = bisect_left(places, place)
            if at < len(places) and places[at] == place:
                del places[at]
        if not lot.places:
            del self.lots[lot.key]
            self.contending.pop(lot.key, None)
        elif not lot.contenders:
            self.contending.pop(lot.key, None)

    def _insert(self, unit: Unit, now: float, on_boost: Callable[[Unit], None]) -> None:
        state = self._state
        _, terms = state.terms(unit)
        since = unit.waiting_since if unit.waiting_since is not None else now
        waited = now - since
        effective = effective_priority(unit.priority, waited, terms.starvation)
        if effective != unit.effective:
            unit.effective = effective
            on_boost(unit)
        boost = next_boost(waited, terms.starvation)
        if boost is not None:
            # Rounding must not make it due at once again.
            self._boosts.set(unit.key, max(now + boost, nextafter(now, inf)))
        unit.fair = terms.fairness == "FairShare"
        unit.share = self.share(unit) if unit.fair else 0.0
        if unit.fair:
            self._fair[unit.key] = None
        if unit.fair or terms.queueing == "Strict":
            self._special[unit.key] = None
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        if pod is not None and pod.node_name is not None:
            self._bound[unit.key] = None
        place = place_of(unit)
        key = self._likeness(unit, pod)
        lot = self.lots.get(key)
        if lot is None:
            lot = self.lots[key] = Lot(key)
        lot.eager = self._preempts_at_once(unit)
        insort(self._places, place)
        insort(lot.places, place)
        if unit.key not in state.untried:
            lot.note(unit)
        self._at[unit.key] = place, lot
        if unit.starved_since is not None:
            insort(lot.starved, place)
        else:
            self.starves.set(unit.key, since + terms.starvation.after)
        if lot.contenders:
            self.contending[key] = lot
        if terms.provisioning.mode == "Ungate" and unit.key.kind == "pod":
            self.shows.set(unit.key, since + terms.provisioning.after)

    def _preempts_at_once(self, unit: Unit) -> bool:
        return self._state.terms(unit)[1].preemption.mode == "Always"

    def share(self, unit: Unit) -> float:
        """Of its namespace, for FairShare."""
        held = self._state.usage.holdings.of(unit.key.subject.namespace)
        return dominant_share(held, self._state.totals(held), self._state.terms(unit)[1].weight)

    # -- who is alike

    def _likeness(self, unit: Unit, pod: Pod | None) -> Hashable:
        """Equal for units of which allocator, budgets and holds must say the same; its own for one that is like no other."""
        state = self._state
        seen = [found for key in unit.claims if (found := state.view.claims.get(key)) is not None]
        alone = (
            unit.key.kind == "group"
            or (unit.key.kind == "pod" and (pod is None or pod.active_deadline is not None))
            or (pod is not None and state.avoided.knows(owner_key(pod)))
            or len(seen) < len(unit.claims)
            or any(claim.allocated or claim.error is not None for claim in seen)
            or any(len(tuple(state.view.pods_of_claim(claim.key))) > 1 for claim in seen)
            or state.holds.get(unit.key) is not None
        )
        signature = None if alone else self._placer.signature(unit, pod, 0.0)
        if signature is None:
            return unit.key
        counted = None
        if self._budgeting.accounts.budgets:
            labels = tuple(tuple(sorted(claim.claim.meta.labels.items())) for claim in seen)
            counted = unit.key.subject.namespace, tuple(claim.managed for claim in seen), labels
        return unit.key.kind, signature, unit.priority, counted


def after(places: list[Place], place: Place, boundaries: list[Place]) -> int:
    """The index in `places` of the first one behind `place` that has more of the (sorted) boundaries before it than `place`."""
    number = bisect_right(boundaries, place)
    return len(places) if number == len(boundaries) else bisect_right(places, boundaries[number])
