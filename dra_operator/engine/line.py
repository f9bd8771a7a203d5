"""The line of waiting units, kept up unit by unit: their order, which of them are alike, and what time alone will change for them.

Alike are units of which the allocator must say the same: same claims, pod, policy and priority, and of one namespace where shares
count. As long as the first of them does not fit, neither do the others, so a pass need not look at them; they are one `Lot`. Nothing
is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from math import inf, nextafter

from dra_operator.api.core import Pod
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.lots import Lot
from dra_operator.engine.membership import owner_key
from dra_operator.engine.placing import Placer
from dra_operator.engine.rows import Place, Row, Spot, place_of, spot_of
from dra_operator.engine.shares import Shares
from dra_operator.engine.state import State
from dra_operator.engine.timers import Timers
from dra_operator.queue.fairness import NO_SHARE, Share
from dra_operator.queue.priority import effective_priority, next_boost
from dra_operator.queue.units import Unit, UnitKey

#: Up to so many units all positions are worked out whenever the line changes.
SHORT = 64


class Line:
    """Follows `state.waiting` whenever it is told to (`follow`).

    `lots` by what makes units alike; `contending`: those with units that devices may be held or freed for; `strict`: those of each
    Strict policy, by its name, and `stirred` the names of those in which units came, went or moved, for whoever looks at them to clear.
    `starves`, `shows`: when units are starved, and when they are shown to node autoscalers.
    """

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._shares = Shares(state)
        self._rows: dict[Share, Row] = {}
        self._at: dict[UnitKey, tuple[Spot, Lot, Row]] = {}
        self._bound: dict[UnitKey, None] = {}
        self._holding: dict[UnitKey, None] = {}
        self._read: tuple[int, ...] = ()
        self._boosts: Timers[UnitKey] = Timers()
        self.lots: dict[Hashable, Lot] = {}
        self.contending: dict[Hashable, Lot] = {}
        self.strict: dict[str, dict[Hashable, Lot]] = {}
        self.stirred: set[str] = set()
        self.starves: Timers[UnitKey] = Timers()
        self.shows: Timers[UnitKey] = Timers()

    # -- reading

    def next_boost(self) -> float | None:
        """When an effective priority changes next."""
        return self._boosts.next()

    def units(self) -> Iterator[Unit]:
        """All that wait, best first."""
        return self._waiting(self._in_order())

    def some(self, start: int, count: int) -> list[Unit]:
        """So many from a position on."""
        return list(self._waiting(islice(self._in_order(start), count)))

    def _in_order(self, start: int = 0) -> Iterator[Place]:
        rows = list(self._rows.values())
        if len(rows) == 1:
            return map(rows[0].__getitem__, range(start, len(rows[0])))
        return islice(merge(*rows), start, None)

    def _waiting(self, places: Iterable[Place]) -> Iterator[Unit]:
        waiting = self._state.waiting
        return (unit for place in places if (unit := waiting.get(place[-1])) is not None)

    def __len__(self) -> int:
        return len(self._at)

    def bound(self) -> list[Unit]:
        """Pods that are bound and wait for devices there, best first."""
        found = (self._state.waiting.get(key) for key in self._bound)
        return sorted((unit for unit in found if unit is not None), key=place_of)

    def position(self, unit: Unit) -> int | None:
        """1 is the front; None if it is not in line."""
        if unit.key not in self._at:
            return None
        place = self.place(unit.key)
        return 1 + sum(row.before(place) for row in self._rows.values())

    def lot(self, key: UnitKey) -> Lot | None:
        known = self._at.get(key)
        return None if known is None else known[1]

    def place(self, key: UnitKey) -> Place:
        spot, _, row = self._at[key]
        return row.place(spot)

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
        self._holding = holding
        moved = self._move(self._shares.follow())
        for key in todo:
            self._remove(key)
            unit = state.waiting.get(key)
            if unit is not None:
                self._insert(unit, now, on_boost)
        if todo or moved:
            self._number(todo)

    def share_again(self, namespace: str) -> bool:
        """Something was taken for the namespace: those of it that go by their share stand behind now. Returns whether any do."""
        return self._move(self._shares.follow(namespace))

    def _move(self, changed: Iterable[Share]) -> bool:
        """Their rows have moved as a whole: only who goes by the order of a queue need look."""
        moved = any(share in self._rows for share in changed)
        if moved:
            # Of one policy all units go by their share, or none.
            firsts = ((policy, next(iter(lots.values()))) for policy, lots in self.strict.items())
            self.stirred.update(policy for policy, lot in firsts if lot.share is not NO_SHARE)
        return moved

    def _number(self, changed: Iterable[UnitKey]) -> None:
        """Positions shift with every unit that leaves: in a long line they are brought up to date in rounds."""
        if len(self) <= SHORT:
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
            spot, lot, _ = known
            lot.starved.add(spot)
            self.contending[lot.key] = lot

    def _remove(self, key: UnitKey) -> None:
        self._bound.pop(key, None)
        for timers in (self._boosts, self.starves, self.shows):
            timers.drop(key)
        known = self._at.pop(key, None)
        if known is None:
            return
        spot, lot, row = known
        row.remove(spot)
        lot.remove(spot)
        if lot.strict is not None:
            self.stirred.add(lot.strict)
        if not row:
            self._drop_row(lot.share)
        if not lot.units:
            self._drop_lot(lot)
        elif not lot.contenders:
            self.contending.pop(lot.key, None)

    def _drop_row(self, share: Share) -> None:
        del self._rows[share]
        self._shares.forget(share)

    def _drop_lot(self, lot: Lot) -> None:
        del self.lots[lot.key]
        self.contending.pop(lot.key, None)
        self._queue_up(lot, None)

    def _queue_up(self, lot: Lot, strict: str | None) -> None:
        """The lot is in this Strict queue from now on, and in no other."""
        if lot.strict != strict and lot.strict is not None:
            lots = self.strict[lot.strict]
            del lots[lot.key]
            if not lots:
                del self.strict[lot.strict]
        lot.strict = strict
        if strict is not None:
            self.strict.setdefault(strict, {})[lot.key] = lot
            self.stirred.add(strict)

    def _insert(self, unit: Unit, now: float, on_boost: Callable[[Unit], None]) -> None:
        state = self._state
        policy, terms = state.terms(unit)
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
        unit.share = self._shares.of(unit.key.subject.namespace, terms)
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        if pod is not None and pod.node_name is not None:
            self._bound[unit.key] = None
        spot, key = spot_of(unit), self._likeness(unit, pod)
        lot = self.lots.get(key)
        if lot is None:
            lot = self.lots[key] = Lot(key, unit.share)
        lot.eager = self._preempts_at_once(unit)
        self._queue_up(lot, strict_queue(policy, terms))
        lot.add(spot)
        row = self._rows.setdefault(unit.share, Row(unit.share))
        row.add(spot)
        if unit.key not in state.untried:
            lot.note(unit)
        self._at[unit.key] = spot, lot, row
        if unit.starved_since is not None:
            lot.starved.add(spot)
        else:
            self.starves.set(unit.key, since + terms.starvation.after)
        if lot.contenders:
            self.contending[key] = lot
        if terms.provisioning.mode == "Ungate" and unit.key.kind == "pod":
            self.shows.set(unit.key, since + terms.provisioning.after)

    def _preempts_at_once(self, unit: Unit) -> bool:
        return self._state.terms(unit)[1].preemption.mode == "Always"

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
        return unit.key.kind, signature, unit.priority, unit.share, counted


def strict_queue(policy: str, terms: AllocationPolicySpec) -> str | None:
    """The queue in which a unit of these terms keeps others back: that of its policy, if this is Strict."""
    return policy if terms.queueing == "Strict" else None
