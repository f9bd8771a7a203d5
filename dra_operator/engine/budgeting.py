"""Placing within quotas and reservations: what a unit may still have, and what is said if that is too little.

A budget that is used up takes its devices out of the search; a solution that breaks one is looked for again without them. What is
returned has always been judged, so the sets handed to the search only decide what is found, never what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.judging import Ask, Breach, Judge, Pairs
from dra_operator.engine.placing import Blocked, Placed, Placer
from dra_operator.engine.refusals import Refusal, Refusals
from dra_operator.engine.state import State
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.barring import Bars, Devices, Fence, gather, on_claims
from dra_operator.queue.budgets import DEVICES, Budget, Scope
from dra_operator.queue.units import Unit

_UNMOVED: frozenset[str] = frozenset()


class Budgeting:
    """`place` stands for `Placer.place`; the rest is for those who set devices aside or take them from others."""

    def __init__(self, state: State, placer: Placer) -> None:
        self._state, self._placer = state, placer
        self.accounts = Accounts(state)
        self._judge = Judge(state, self.accounts)
        self._bars = Bars(state.inventory)
        self._refusals = Refusals()
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
            key = None if moving else self._question(ask, pod, forbidden, now)
            moment = (self._state.moment, self.accounts.version, self._judge.standing(ask))
            known = None if key is None else self._refusals.get(key, moment)
            if known is not None:
                unit.short_of = known.short_of
                return known.blocked
            outcome = _Attempt(self, Task(ask, pod, now), forbidden).run()
            if key is not None and isinstance(outcome, Blocked) and unit.short_of:
                self._refusals.note(key, moment, Refusal(outcome, unit.short_of))
            return outcome

    def _question(self, ask: Ask, pod: Pod | None, forbidden: Devices, now: float) -> Hashable | None:
        """Equal for units of which the budgets must say the same; None for those that are like no other."""
        signature = self._placer.signature(ask.unit, pod, now)
        return (
            None if signature is None else (signature, ask.namespace, ask.quotas, ask.reserves, ask.ends_at, forbidden)
        )

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

    def obstacle(self, unit: Unit, pairs: Pairs, now: float) -> Breach | None:
        """The one budget that forbids these allocations; None if none does, or more than one."""
        pod = self._state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        ask = self._ask(unit, pod, now, _UNMOVED)
        breaches = [] if ask is None else self._judge.breaches(ask, pairs)
        return breaches[0] if len(breaches) == 1 else None

    def fence(self, unit: Unit, pod: Pod | None, now: float, forbidden: Devices) -> Fence:
        """`forbidden`, and what a search for victims must leave alone besides: what quotas do not allow, and free devices that
        reservations keep."""
        ask = self._ask(unit, pod, now, _UNMOVED)
        if ask is None:
            return Fence(forbidden)
        kept = [
            Fence(self._judge.keep(ask, number))
            for number, (_, members) in enumerate(ask.reserves)
            if not ask.concerns_all(members)
        ]
        return gather([*self.quotas_used_up(ask).values(), *kept], self._bars, forbidden)

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

    def over_quota(self, unit: Unit, now: float) -> bool:
        """Does it ask for more than a quota has left, whichever devices it would get?"""
        ask = self._ask(unit, None, now, _UNMOVED)
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

    def set_aside(self, free: Callable[[], Iterable[DeviceId]]) -> tuple[int, int]:
        """Of free devices, how many are held, and how many of the others reservations keep. They are asked for only if there are
        holds or reservations."""
        state = self._state
        self.accounts.follow()
        if not state.holds and not self.accounts.reserves:
            return 0, 0
        devices = frozenset(free())
        held = devices & frozenset[DeviceId]().union(*(hold.kept for hold in state.holds))
        return len(held), self._judge.kept_among(devices - held, held)

    # -- for the attempt

    def solve(self, task: Task, fence: Fence, *, remember: bool = True) -> Placed | Blocked:
        return self._placer.place(
            task.ask.unit,
            task.pod,
            task.now,
            moving=task.ask.moving,
            forbidden=fence.forbidden,
            barred=fence.barred,
            remember=remember,
        )

    def breaches(self, ask: Ask, placed: Placed) -> list[Breach]:
        return self._judge.breaches(ask, placed.allocations)

    def certainly_reserved(self, ask: Ask) -> bool:
        return self._judge.certainly_reserved(ask)

    def gather(self, fences: Iterable[Fence], forbidden: Devices) -> Fence:
        return gather(fences, self._bars, forbidden)

    def used_up(self, ask: Ask) -> dict[Scope, Fence]:
        """What the search must leave alone because nothing of it is left for the unit, by budget."""
        found = self.quotas_used_up(ask)
        for number, (budget, members) in enumerate(ask.reserves):
            if not ask.concerns_all(members) and self._judge.headroom(ask, number) <= 0:
                fence = self._without(ask, budget, ask.others(members), self._running(number))
                if fence is not None:
                    found[budget.scope("")] = fence
        return found

    def quotas_used_up(self, ask: Ask) -> dict[Scope, Fence]:
        found: dict[Scope, Fence] = {}
        for budget, members in ask.quotas:
            scope, left = ask.scope(budget), self._judge.left(ask, budget)
            fence = None
            if budget.in_capacity:
                bar = self._bars.too_large(budget, left)
                fence = None if bar is None or ask.wants_all else on_claims(members, bar)
            elif left[DEVICES] <= 0:
                fence = self._without(ask, budget, members, self.accounts.tallies.of(scope).devices)
            if fence is not None:
                found[scope] = fence
        return found

    def _without(
        self, ask: Ask, budget: Budget, claims: frozenset[int], spared: Collection[DeviceId], *, strict: bool = False
    ) -> Fence | None:
        """Nothing of the budget for these claims, but further shares of what is `spared`; None if that cannot be said so that other
        claims of the unit are not concerned, unless `strict`."""
        if not ask.wants_all and not self._bars.shareable(budget):
            return on_claims(claims, budget)
        return Fence(self._bars.all_of(budget, spared)) if strict or ask.concerns_all(claims) else None

    def narrower(self, ask: Ask, breach: Breach, *, strict: bool) -> Fence:
        """What to leave alone so that the budget is not broken again: all of it, or what is beyond the rest of it."""
        budget = breach.budget
        members = dict(ask.quotas if breach.number is None else ask.reserves)[budget]
        claims = members if breach.number is None else ask.others(members)
        spared: Collection[DeviceId]
        if breach.number is None:
            spared = self.accounts.tallies.of(breach.scope).devices
            allowed, usable = self._judge.left(ask, budget).get(DEVICES), None
        else:
            spared = self._running(breach.number)
            allowed, usable = self._judge.headroom(ask, breach.number), self.accounts.free.matching(breach.number)
        if not strict and allowed is not None and allowed > 0:
            return Fence(self._bars.beyond(budget, allowed, None if usable is None else set(usable)))
        return self._without(ask, budget, claims, spared, strict=True) or Fence()

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
        if not self.accounts.budgets:
            return None
        return self._judge.ask(unit, pod, now, moving)


@dataclass(frozen=True, slots=True)
class Task:
    """One unit to be placed now."""

    ask: Ask
    pod: Pod | None
    now: float


class _Attempt:
    """One unit's search: with what is used up left out, then without budgets to see whether they are the reason."""

    def __init__(self, budgeting: Budgeting, task: Task, forbidden: Devices) -> None:
        self._budgeting, self._task, self._forbidden = budgeting, task, forbidden

    def run(self) -> Placed | Blocked:
        budgeting, ask = self._budgeting, self._task.ask
        reserved = budgeting.certainly_reserved(ask)
        fences = budgeting.quotas_used_up(ask) if reserved else budgeting.used_up(ask)
        fence = budgeting.gather(fences.values(), self._forbidden)
        outcome = budgeting.solve(self._task, fence)
        if isinstance(outcome, Blocked) and fences:
            outcome = budgeting.solve(self._task, Fence(self._forbidden))
        if isinstance(outcome, Blocked):
            return outcome
        breaches = budgeting.breaches(ask, outcome)
        if not breaches:
            return outcome
        if not reserved and any(breach.scope not in fences for breach in breaches):
            other = self._otherwise(fence, breaches)
            if other is not None:
                return other
        return _blocked(ask.unit, breaches)

    def _otherwise(self, fence: Fence, breaches: list[Breach]) -> Placed | None:
        """Another solution that breaks nothing: with less of what was broken, then with none of it."""
        budgeting, ask = self._budgeting, self._task.ask
        for strict in (False, True):
            broken = {breach.scope: breach for breach in breaches}
            fences = [fence]
            for _ in range(_ROUNDS):
                fences += [budgeting.narrower(ask, breach, strict=strict) for breach in broken.values()]
                together = frozenset[DeviceId]().union(*(each.forbidden for each in fences))
                barred = dict.fromkeys(entry for each in fences for entry in each.barred)
                outcome = budgeting.solve(self._task, Fence(together, tuple(barred)), remember=False)
                if isinstance(outcome, Blocked):
                    break
                found = budgeting.breaches(ask, outcome)
                if not found:
                    return outcome
                broken = {breach.scope: breach for breach in found if breach.scope not in broken}
                if not broken:
                    break
        return None


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
