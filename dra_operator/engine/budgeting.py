"""Placing within quotas and reservations (design §4, §5): what a unit may still have, and what is said if that is too little.

A budget that is used up takes its devices out of the search; a solution that breaks one is looked for again without them. What is
returned has always been judged, so the sets handed to the search only decide what is found, never what is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dra_operator.api.core import Pod
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.judging import Ask, Breach, Judge, Pairs
from dra_operator.engine.placing import Blocked, Placed, Placer
from dra_operator.engine.state import State
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.barring import Bars, Devices
from dra_operator.queue.budgets import DEVICES, Scope
from dra_operator.queue.units import Unit

_UNMOVED: frozenset[str] = frozenset()


class Budgeting:
    """`place` stands for `Placer.place`; the rest is for those who set devices aside or take them from others."""

    def __init__(self, state: State, placer: Placer) -> None:
        self._state, self._placer = state, placer
        self.accounts = Accounts(state)
        self._judge = Judge(state, self.accounts)
        self._bars = Bars(state.inventory)
        self._version = -1

    # -- placing

    def place(
        self,
        unit: Unit,
        pod: Pod | None,
        now: float,
        *,
        moving: frozenset[str] = _UNMOVED,
        forbidden: Devices = NOTHING,
    ) -> Placed | Blocked:
        """As `Placer.place`, within the budgets. Notes on the unit what it is short of."""
        unit.short_of, unit.only_short = (), False
        ask = self._ask(unit, pod, now, moving)
        if ask is None:
            return self._placer.place(unit, pod, now, moving=moving, forbidden=forbidden)
        with self.accounts.released(moving):
            over = self._judge.certain(ask)
            if over:
                unit.only_short = True
                return _blocked(unit, over)
            attempt = _Attempt(self, ask, pod, now, moving, forbidden)
            return attempt.run()

    def permits(self, unit: Unit, pairs: Pairs, now: float, *, without: frozenset[str] = _UNMOVED) -> Blocker | None:
        """Why the budgets forbid these allocations for the unit, None if they do not. `without`: claims (UIDs) that give back
        what they use before."""
        pod = self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        ask = self._ask(unit, pod, now, without)
        if ask is None:
            return None
        with self.accounts.released(without):
            breaches = self._judge.breaches(ask, pairs)
        return _blocker(breaches) if breaches else None

    def barred(self, unit: Unit, pod: Pod | None, now: float) -> Devices:
        """What a search for victims must leave alone: devices of quotas that are used up, and free ones that reservations keep."""
        ask = self._ask(unit, pod, now, _UNMOVED)
        if ask is None:
            return NOTHING
        kept = [self._judge.keep(ask, number) for number, (_, members) in enumerate(ask.reserves) if not members]
        return self._bars.union([*self._quota_bars(ask), *kept])

    def kept(self, unit: Unit, pod: Pod | None, now: float) -> list[tuple[str, Devices]]:
        """Free devices that reservations of these policies keep from the unit."""
        ask = self._ask(unit, pod, now, _UNMOVED)
        if ask is None:
            return []
        return [
            (budget.key.policy, self._judge.keep(ask, number))
            for number, (budget, members) in enumerate(ask.reserves)
            if not members
        ]

    def over_quota(self, unit: Unit, pod: Pod | None, now: float) -> bool:
        """Does it ask for more than a quota has left, whichever devices it would get?"""
        ask = self._ask(unit, pod, now, _UNMOVED)
        return ask is not None and bool(self._judge.certain(ask))

    def wakes(self) -> set[Scope]:
        """The scopes in which something came free since the last call: units short of it are worth trying."""
        return self.accounts.freed()

    # -- holds

    def coverable(self, unit: Unit, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Of free devices, those a hold of the unit may cover: not what is kept for other policies' reservations."""
        ask = self._ask(unit, None, 0.0, _UNMOVED)
        return devices if ask is None or not ask.reserves else self._judge.coverable(ask, devices)

    def hopeless(self, unit: Unit) -> bool:
        """Can it never have its devices while reservations of other policies stand? Then a hold would wait in vain."""
        ask = self._ask(unit, None, 0.0, _UNMOVED)
        return ask is not None and self._judge.hopeless(ask)

    def set_aside(self, free: Collection[DeviceId]) -> tuple[int, int]:
        """Of free devices, how many are held, and how many of the others reservations keep."""
        state = self._state
        self.accounts.follow()
        held = frozenset[DeviceId]().union(*(hold.devices | hold.wanted for hold in state.holds)).intersection(free)
        return len(held), self._judge.kept_among(frozenset(free) - held, held)

    # -- for the attempt

    def solve(
        self,
        ask: Ask,
        pod: Pod | None,
        now: float,
        moving: frozenset[str],
        forbidden: Devices,
        *,
        remember: bool = True,
    ) -> Placed | Blocked:
        return self._placer.place(ask.unit, pod, now, moving=moving, forbidden=forbidden, remember=remember)

    def breaches(self, ask: Ask, placed: Placed) -> list[Breach]:
        return self._judge.breaches(ask, placed.allocations)

    def union(self, sets: Iterable[Devices]) -> Devices:
        return self._bars.union(sets)

    def bars(self, ask: Ask) -> list[Devices]:
        """The devices of budgets that are used up, where all claims of the unit count to them."""
        found = self._quota_bars(ask)
        for number, (budget, members) in enumerate(ask.reserves):
            if not members and self._judge.headroom(ask, number) <= 0:
                found.append(self._bars.all_of(budget, self._running(number)))
        return found

    def _quota_bars(self, ask: Ask) -> list[Devices]:
        found: list[Devices] = []
        for budget, members in ask.quotas:
            if not ask.concerns_all(members):
                continue
            left = self._judge.left(ask, budget)
            if budget.in_capacity:
                found.append(self._bars.larger(budget, left))
            elif left[DEVICES] <= 0:
                found.append(self._bars.all_of(budget, self.accounts.tallies.of(ask.scope(budget)).devices))
        return found

    def narrower(self, ask: Ask, breach: Breach, *, strict: bool) -> Devices:
        """What to leave out of the search so that the budget is not broken again: all of it, or what is beyond the rest of it."""
        budget = breach.budget
        if breach.number is None:
            if strict or budget.in_capacity:
                return self._bars.all_of(budget, self.accounts.tallies.of(breach.scope).devices, consuming=True)
            return self._bars.beyond(budget, max(0, self._judge.left(ask, budget)[DEVICES]))
        if strict:
            return self._bars.all_of(budget, self._running(breach.number), consuming=True)
        free = set(self.accounts.free.matching(breach.number))
        return self._bars.beyond(budget, max(0, self._judge.headroom(ask, breach.number)), free)

    def _running(self, number: int) -> list[DeviceId]:
        """Devices of a reservation that are shared already: another share takes no free device."""
        budget = self.accounts.reserves[number]
        if not self._bars.shareable(budget):
            return []
        return [
            device for device in self._state.inventory.usage.by_device if self.accounts.free.mask(device) >> number & 1
        ]

    def _ask(self, unit: Unit, pod: Pod | None, now: float, moving: frozenset[str]) -> Ask | None:
        """None where no budget concerns the unit."""
        self.accounts.follow()
        if self._version != self.accounts.version:
            self._version = self.accounts.version
            self._bars.forget()
            self._judge.forget()
        return self._judge.ask(unit, pod, now, moving) if self.accounts.budgets else None


class _Attempt:
    """One unit's search: with what is used up left out, then without budgets to see whether they are the reason."""

    def __init__(
        self, budgeting: Budgeting, ask: Ask, pod: Pod | None, now: float, moving: frozenset[str], forbidden: Devices
    ) -> None:
        self._budgeting, self._ask, self._forbidden = budgeting, ask, forbidden
        self._pod, self._now, self._moving = pod, now, moving

    def run(self) -> Placed | Blocked:
        budgeting, ask = self._budgeting, self._ask
        bars = budgeting.union([self._forbidden, *budgeting.bars(ask)])
        outcome = self._solve(bars)
        if isinstance(outcome, Blocked) and bars is not self._forbidden:
            outcome = self._solve(self._forbidden)
        if isinstance(outcome, Blocked):
            return outcome
        breaches = budgeting.breaches(ask, outcome)
        if not breaches:
            return outcome
        other = self._otherwise(bars, breaches)
        return other if other is not None else _blocked(ask.unit, breaches)

    def _otherwise(self, bars: Devices, breaches: list[Breach]) -> Placed | None:
        """Another solution that breaks nothing: with less of what was broken, then with none of it."""
        for strict in (False, True):
            broken = {breach.scope: breach for breach in breaches}
            sets: list[Devices] = []
            for _ in range(_ROUNDS):
                sets += [self._budgeting.narrower(self._ask, breach, strict=strict) for breach in broken.values()]
                outcome = self._solve(frozenset(bars).union(*sets), remember=False)
                if isinstance(outcome, Blocked):
                    break
                found = self._budgeting.breaches(self._ask, outcome)
                if not found:
                    return outcome
                fresh = {breach.scope: breach for breach in found if breach.scope not in broken}
                if not fresh:
                    break
                broken = fresh
        return None

    def _solve(self, forbidden: Devices, *, remember: bool = True) -> Placed | Blocked:
        return self._budgeting.solve(self._ask, self._pod, self._now, self._moving, forbidden, remember=remember)


#: Searches for another solution before the budgets that were broken are held to be the reason.
_ROUNDS = 4


def _blocked(unit: Unit, breaches: list[Breach]) -> Blocked:
    unit.short_of = tuple(breach.scope for breach in breaches)
    return Blocked(_blocker(breaches))


def _blocker(breaches: list[Breach]) -> Blocker:
    """Quotas first: while one is exceeded, nothing else matters to the unit."""
    quotas = [breach for breach in breaches if breach.reason == "QuotaExceeded"]
    named = quotas or breaches
    return Blocker(named[0].reason, "; ".join(breach.message for breach in named))
