"""Does an allocation keep within quotas and reservations, and how much is left: the judgement, apart from the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.pods import ends_at
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import Hold
from dra_operator.queue.asking import Asking
from dra_operator.queue.budgets import DEVICES, Amounts, Budget, Scope, describe, draw_of
from dra_operator.queue.freedevices import Mask, reach, shortfall
from dra_operator.queue.units import Unit, UnitKey, order

Pairs = Sequence[tuple[SeenClaim, Allocation]]


@dataclass(frozen=True, slots=True)
class Ask:
    """What budgets have to know of a unit: its claims without devices, and with each budget which of them (indexes) count to it.

    `quotas`: those some claim counts to; `reserves`: all reservations, in their order. `moving`: claims that give back what they use.
    """

    unit: Unit
    claims: tuple[SeenClaim, ...]
    quotas: tuple[tuple[Budget, frozenset[int]], ...]
    reserves: tuple[tuple[Budget, frozenset[int]], ...]
    moving: frozenset[str] = frozenset()
    ends_at: float | None = None

    @property
    def namespace(self) -> str:
        return self.unit.key.subject.namespace

    def scope(self, budget: Budget) -> Scope:
        return budget.scope(self.namespace)

    def concerns_all(self, members: frozenset[int]) -> bool:
        return len(members) == len(self.claims)

    def others(self, members: frozenset[int]) -> frozenset[int]:
        return frozenset(range(len(self.claims))) - members

    @property
    def wants_all(self) -> bool:
        """Does it ask for all devices of a node that match something?"""
        return any(
            detail.allocation_mode == "All"
            for seen in self.claims
            for request in seen.claim.spec.requests
            for detail in request.details
        )

    def mine(self, members: frozenset[int], pairs: Pairs) -> Pairs:
        """The allocations of those claims."""
        uids = {self.claims[index].uid for index in members}
        return [pair for pair in pairs if pair[0].uid in uids]

    @property
    def exempt(self) -> Mask:
        """The reservations that are all its own."""
        return sum(1 << number for number, (_, members) in enumerate(self.reserves) if self.concerns_all(members))


@dataclass(frozen=True, slots=True)
class Breach:
    """A budget that does not allow what is asked for. `number`: of a reservation, in their order. `short`: by how much a quota is too
    small (of which amounts), or a reservation too large, for it."""

    budget: Budget
    scope: Scope
    message: str
    number: int | None = None
    short: Amounts = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return "QuotaExceeded" if self.number is None else "Reserved"


class Judge:
    """Reads the accounts, and the holds of those before a unit in the queue: what these will need is not there for it."""

    def __init__(self, state: State, accounts: Accounts) -> None:
        self._state, self._accounts = state, accounts
        self._asking = Asking(state.inventory)
        self._holders: dict[UnitKey, Ask | None] = {}
        self._holders_at: tuple[int, ...] = ()

    def forget(self) -> None:
        self._asking.forget()

    def ask(self, unit: Unit, pod: Pod | None, now: float, moving: frozenset[str]) -> Ask | None:
        """None where no budget concerns it, or where its claims are not there or cannot be read."""
        accounts = self._accounts
        seen = [self._state.view.claims.get(key) for key in unit.claims]
        claims = tuple(claim for claim in seen if claim is not None and (not claim.allocated or claim.uid in moving))
        if not claims or any(claim is None or claim.error is not None for claim in seen):
            return None
        members: dict[Budget, set[int]] = {}
        for index, claim in enumerate(claims):
            for budget in accounts.budgets_of(claim):
                members.setdefault(budget, set()).add(index)
        quotas = tuple((budget, frozenset(found)) for budget, found in members.items() if budget.key.field == "quota")
        reserves = tuple((budget, frozenset(members.get(budget, ()))) for budget in accounts.reserves)
        ask = Ask(unit, claims, quotas, reserves, moving, ends_at(pod, now))
        return ask if quotas or any(not ask.concerns_all(found) for _, found in reserves) else None

    # -- quotas

    def certain(self, ask: Ask) -> list[Breach]:
        """The quotas that are exceeded whichever devices it gets."""
        found = []
        for budget, members in ask.quotas:
            least = self._least(ask, budget, members)
            if any(least.values()):
                found += self._excess(ask, budget, least)
        return found

    def left(self, ask: Ask, budget: Budget) -> Amounts:
        """What is left of a quota for the unit; below 0 where it was lowered since."""
        used = self._accounts.tallies.of(ask.scope(budget)).amounts(budget)
        aside = self._set_aside(ask, budget)
        return {name: limit - used[name] - aside.get(name, 0) for name, limit in budget.limits.items()}

    def standing(self, ask: Ask) -> Hashable:
        """What is left for the unit, and free for reservations: while it stays the same, so does the judgement."""
        left = tuple(tuple(sorted(self.left(ask, budget).items())) for budget, _ in ask.quotas)
        if not ask.reserves:
            return left
        return left, frozenset(self._there(ask)[0].items()), tuple(self._accounts.all_kept())

    def _least(self, ask: Ask, budget: Budget, members: frozenset[int]) -> Amounts:
        return self._asking.least(budget, [seen.claim for seen in ask.claims], members)

    def _excess(self, ask: Ask, budget: Budget, asked: Amounts) -> list[Breach]:
        left = self.left(ask, budget)
        short = {name: amount - left[name] for name, amount in asked.items() if amount and amount > left[name]}
        if not short:
            return []
        name = next(iter(short))
        return [Breach(budget, ask.scope(budget), self._over(ask, budget, name, asked[name]), short=short)]

    def _over(self, ask: Ask, budget: Budget, name: str, asked: int) -> str:
        scope = ask.scope(budget)
        used = self._accounts.tallies.of(scope).amounts(budget)[name]
        aside = self._set_aside(ask, budget).get(name, 0)
        whose = f"namespace {scope[1]} uses" if scope[1] else "its claims use"
        what = "devices" if name == DEVICES else name
        text = f"{budget.key} of policy {budget.key.policy}: {whose} {describe(name, used, budget)} of "
        text += f"{describe(name, budget.limits[name], budget)} {what} of {_class(budget)}"
        if aside:
            text += f", {describe(name, aside, budget)} set aside for starved claims before it"
        return f"{text}; {describe(name, asked, budget)} more asked for"

    def _set_aside(self, ask: Ask, budget: Budget) -> Amounts:
        """What units that hold devices and come before this one will take of the quota."""
        total: Counter[str] = Counter()
        for hold in self._before(ask):
            other = self._asked_by(hold)
            if other is None:
                continue
            for found, members in other.quotas:
                if found is budget and other.scope(budget) == ask.scope(budget):
                    total.update(self._least(other, budget, members))
        return total

    def _before(self, ask: Ask) -> list[Hold]:
        """The holds this unit must respect: as `Holds.against`."""
        return self._state.holds.before(ask.unit.key, order(ask.unit), ask.unit.priority, ask.ends_at)

    def _asked_by(self, hold: Hold) -> Ask | None:
        """None where no budget concerns the holder."""
        state = self._state
        moment = (state.holds.version, state.queue_changes, self._accounts.version)
        if self._holders_at != moment:
            self._holders.clear()
            self._holders_at = moment
        if hold.unit not in self._holders:
            unit = state.waiting.get(hold.unit)
            self._holders[hold.unit] = None if unit is None else self.ask(unit, None, 0.0, frozenset())
        return self._holders[hold.unit]

    # -- reservations

    def headroom(self, ask: Ask, number: int) -> int:
        """How many free devices of a reservation the unit may take, about: exactly so where no other overlaps with it."""
        kept, free = self._accounts.all_kept(), self._there(ask)[0]
        own = reach(free, 1 << number) - kept[number]
        together = _overlapping(free, 1 << number)
        return min(own, reach(free, together) - sum(kept[bit] for bit in range(len(kept)) if together >> bit & 1))

    def _there(self, ask: Ask) -> tuple[Counter[Mask], dict[DeviceId, Mask]]:
        """What reservations can count on before the unit takes anything, and the masks of held devices."""
        counts, masks = self._free(ask)
        return self._accounts.free.after(counts, without=ask.moving, taken=(), masks=masks), masks

    def _free(self, ask: Ask) -> tuple[Counter[Mask], dict[DeviceId, Mask]]:
        """Free devices as reservations may count on them: those held for others are there for those reservations only that are the
        holder's own. With the masks of these. A hold that the unit may pass over keeps nothing from anybody: else it could take what is
        held, on the ground that it is lost to the reservations anyway."""
        free = self._accounts.free
        counts, masks = free.free(), dict[DeviceId, Mask]()
        for hold in self._before(ask):
            other = self._asked_by(hold)
            own = -1 if other is None else other.exempt
            for device in hold.kept:
                if free.is_free(device) and device not in masks:
                    masks[device] = free.mask(device) & own
                    counts[free.mask(device)] -= 1
                    counts[masks[device]] += 1
        del counts[0]
        return +counts, masks

    def _reserve_breaches(self, ask: Ask, pairs: Pairs) -> list[Breach]:
        accounts = self._accounts
        inventory = self._state.inventory
        taken = {
            DeviceId(result.driver, result.pool, result.device)
            for _, allocation in pairs
            for result in allocation.results
            if not result.admin_access
        }
        if not ask.reserves or not any(accounts.free.concerns(device) for device in taken):
            return []
        counts, masks = self._free(ask)
        before = accounts.free.after(counts, without=ask.moving, taken=(), masks=masks)
        after = accounts.free.after(counts, without=ask.moving, taken=taken, masks=masks)
        kept = accounts.all_kept()
        kept_after = list(kept)
        for number, (budget, members) in enumerate(ask.reserves):
            if members and kept[number]:
                used = accounts.tallies.of(budget.scope("")).devices
                new = {
                    device
                    for seen, allocation in ask.mine(members, pairs)
                    for device in draw_of(budget, seen.claim.spec, allocation, inventory).devices
                    if device not in used
                }
                kept_after[number] = max(0, kept[number] - len(new))
        if shortfall(kept_after, after) <= shortfall(kept, before):
            return []
        breaches = []
        for number, (budget, members) in enumerate(ask.reserves):
            lost = reach(before, 1 << number) - reach(after, 1 << number)
            if not ask.concerns_all(members) and kept_after[number] and lost > 0:
                text = _reserved(budget, kept[number], reach(before, 1 << number), lost)
                short = kept_after[number] - reach(after, 1 << number)
                breaches.append(Breach(budget, budget.scope(""), text, number, {DEVICES: short}))
        return breaches

    def keep(self, ask: Ask, number: int) -> frozenset[DeviceId]:
        """Free devices that would do for what a reservation keeps: from the nodes with the fewest, so that large groups stay whole."""
        kept = self._accounts.kept(number)
        if not kept:
            return frozenset()
        masks = self._free(ask)[1]
        by_node: dict[str, list[DeviceId]] = {}
        for device in self._accounts.free.matching(number):
            if masks.get(device, -1) >> number & 1:
                offer = self._state.inventory.offer(device)
                by_node.setdefault((offer and offer.home) or "", []).append(device)
        groups = sorted(by_node.items(), key=lambda item: (len(item[1]), item[0]))
        return frozenset([device for _, group in groups for device in sorted(group)][:kept])

    def kept_among(self, devices: frozenset[DeviceId], held: frozenset[DeviceId]) -> int:
        """How many of these free devices reservations cannot do without."""
        accounts = self._accounts
        if not accounts.reserves:
            return 0
        counts = accounts.free.free()
        for device in held:
            counts[accounts.free.mask(device)] -= accounts.free.is_free(device)
        without = Counter(counts)
        for device in devices:
            without[accounts.free.mask(device)] -= accounts.free.is_free(device)
        kept = accounts.all_kept()
        return shortfall(kept, +without) - shortfall(kept, +counts)

    def coverable(self, ask: Ask, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Of free devices, as many as can be set aside for the unit without a reservation of others going short."""
        accounts = self._accounts
        counts, masks = self._there(ask)
        kept = accounts.all_kept()
        least = shortfall(kept, counts)
        chosen = []
        for device in sorted(devices):
            mask = masks.get(device, accounts.free.mask(device))
            rest = mask & ask.exempt
            if mask != rest and accounts.free.is_free(device):
                tried = Counter(counts)
                tried[mask] -= 1
                tried[rest] += 1
                if shortfall(kept, tried) > least:
                    continue
                counts = tried
            chosen.append(device)
        return frozenset(chosen)

    def certainly_reserved(self, ask: Ask) -> bool:
        """Would it take more of what reservations of others keep than there is beside them, whichever devices it gets?"""
        for number, (budget, members) in enumerate(ask.reserves):
            least = 0 if ask.concerns_all(members) else self._least(ask, budget, ask.others(members))[DEVICES]
            if least and least > self.headroom(ask, number):
                return True
        return False

    def hopeless(self, ask: Ask) -> bool:
        """Would it leave a reservation of others too little even if nobody used anything?"""
        for number, (budget, members) in enumerate(ask.reserves):
            if not ask.concerns_all(members):
                least = self._least(ask, budget, ask.others(members))[DEVICES]
                if least > self._accounts.free.usable(number) - budget.limits[DEVICES]:
                    return True
        return False

    # -- both

    def breaches(self, ask: Ask, pairs: Pairs) -> list[Breach]:
        """The budgets that these allocations (of all claims of `ask`) would break."""
        found: list[Breach] = []
        for budget, members in ask.quotas:
            found += self._excess(ask, budget, self._added(ask, budget, members, pairs))
        return found + self._reserve_breaches(ask, pairs)

    def _added(self, ask: Ask, budget: Budget, members: frozenset[int], pairs: Pairs) -> Amounts:
        inventory = self._state.inventory
        draws = [
            draw_of(budget, seen.claim.spec, allocation, inventory) for seen, allocation in ask.mine(members, pairs)
        ]
        if not budget.in_capacity:
            used = self._accounts.tallies.of(ask.scope(budget)).devices
            return {DEVICES: len({device for draw in draws for device in draw.devices if device not in used})}
        total: Counter[str] = Counter()
        for draw in draws:
            total.update(draw.capacity)
        return total


def _overlapping(free: Counter[Mask], mask: Mask) -> Mask:
    """The reservations that share devices with those in `mask`, directly or through others."""
    while True:
        wider = mask
        for found in free:
            if found & wider:
                wider |= found
        if wider == mask:
            return mask
        mask = wider


def _class(budget: Budget) -> str:
    narrowed = " (of what its selectors match)" if budget.selective else ""
    return f"class {budget.terms.device_class_name}{narrowed}"


def _reserved(budget: Budget, kept: int, free: int, asked: int) -> str:
    some = "device" if kept == 1 else "devices"
    return (
        f"{budget.key} of policy {budget.key.policy} keeps {kept} free {some} of {_class(budget)} for its own claims: "
        f"{free} {'is' if free == 1 else 'are'} free, {asked} asked for"
    )
