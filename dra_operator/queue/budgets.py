"""Quotas and reservations of policies: which devices each concerns, and how much of each the claims use.

A *budget* is one entry of a policy's `quota` or `reserve`. It counts devices by what they are (its class's selectors and its own),
whatever class they were asked for with. Whose claims count is the caller's question, what follows from it is in `engine.budgeting`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.selection import Filter
from dra_operator.api.claims import Allocation, ClaimSpec, DeviceResult
from dra_operator.api.policy import Quota, Reservation
from dra_operator.api.quantity import Quantity
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.kinds import Kind

#: The name under which devices are counted, beside names of capacities.
DEVICES = ""

#: How much by name: devices under `DEVICES`, capacities in 10^-9 under theirs.
Amounts = Mapping[str, int]

NO_CAPACITY: Amounts = MappingProxyType({})


class BudgetKey(NamedTuple):
    """`quota[0]` of policy `research`."""

    policy: str
    field: Literal["quota", "reserve"]
    number: int

    def __str__(self) -> str:
        return f"{self.field}[{self.number}]"


#: A budget and whose use of it is counted together: a namespace, or "" for all that the policy selects.
Scope = tuple[BudgetKey, str]


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """One entry of a policy that is in force. The same object as long as nothing in it or in its class changes."""

    key: BudgetKey
    terms: Quota | Reservation
    filter: Filter

    def matches(self, kind: Kind) -> bool:
        return self.filter.outcome(kind) is None

    def bars(self, kind: Kind) -> bool:
        """As a bar (`allocator.Problem.barred`): leaves out all that it concerns."""
        return self.matches(kind)

    def scope(self, namespace: str) -> Scope:
        per_namespace = isinstance(self.terms, Quota) and self.terms.per == "Namespace"
        return self.key, namespace if per_namespace else ""

    @property
    def limits(self) -> Amounts:
        """What a quota allows, or how many devices a reservation keeps."""
        if isinstance(self.terms, Quota) and self.terms.capacity is not None:
            return {name: amount.nano for name, amount in self.terms.capacity.items()}
        return {DEVICES: self.terms.devices or 0}

    @property
    def in_capacity(self) -> bool:
        return isinstance(self.terms, Quota) and self.terms.capacity is not None

    @property
    def selective(self) -> bool:
        """Does it concern a part of its class only?"""
        return bool(self.terms.selectors)


def make_budget(key: BudgetKey, terms: Quota | Reservation, inventory: Inventory) -> Budget:
    """The class must exist. Makes the inventory tell devices apart as far as the selectors do."""
    device_class = inventory.classes[terms.device_class_name]
    expressions = tuple(selector.cel.expression for selector in terms.selectors)
    found = memory_of(inventory).filter(device_class, expressions)
    inventory.require(found.reads())
    return Budget(key, terms, found)


@dataclass(frozen=True, slots=True)
class Draw:
    """What one claim takes of one budget. A device counts once, however many of its shares are taken."""

    devices: frozenset[DeviceId] = frozenset()
    capacity: Amounts = field(default_factory=lambda: NO_CAPACITY)


def draw_of(budget: Budget, spec: ClaimSpec, allocation: Allocation, inventory: Inventory) -> Draw:
    """What the allocation takes of the budget; admin access takes nothing.

    A device that nobody publishes (any more) counts by the class it was asked for with, where the budget is for all of that class.
    """
    devices: set[DeviceId] = set()
    capacity: Counter[str] = Counter()
    for result in allocation.results:
        if result.admin_access:
            continue
        device = DeviceId(result.driver, result.pool, result.device)
        offer = inventory.offer(device)
        if offer is None or offer.kind is None:
            if budget.selective or class_asked(spec, result) != budget.terms.device_class_name:
                continue
        elif not budget.matches(offer.kind):
            continue
        devices.add(device)
        if budget.in_capacity:
            shared = result.share_id is not None or result.consumed_capacity
            published = {} if offer is None else offer.device.capacity
            capacity.update(taken_of(budget.limits, result.consumed_capacity if shared else published, device.driver))
    return Draw(frozenset(devices), capacity if budget.in_capacity else NO_CAPACITY)


def class_asked(spec: ClaimSpec, result: DeviceResult) -> str | None:
    """The class of the request that a result answers."""
    name, _, sub = result.request.partition("/")
    for request in spec.requests:
        if request.name == name:
            for detail in request.details:
                if request.exactly is not None or detail.name == sub:
                    return detail.device_class_name
    return None


def taken_of(names: Iterable[str], capacity: Mapping[str, Quantity], driver: str) -> dict[str, int]:
    """How much of each named capacity there is, by either form of its name (`memory`, `DRIVER/memory`)."""
    taken = {}
    for name in names:
        domain, slash, bare = name.partition("/")
        other = bare if slash and domain == driver else f"{driver}/{name}"
        amount = capacity.get(name) or capacity.get(other)
        if amount is not None:
            taken[name] = amount.nano
    return taken


@dataclass(slots=True)
class Tally:
    """The use of one scope: claims by device, sums of capacity, and devices that pods got from device plugins."""

    devices: Counter[DeviceId] = field(default_factory=Counter)
    capacity: Counter[str] = field(default_factory=Counter)
    plugin: int = 0

    def amounts(self, budget: Budget) -> Amounts:
        """In the terms of the budget's limits."""
        if budget.in_capacity:
            return {name: self.capacity[name] for name in budget.limits}
        return {DEVICES: len(self.devices) + self.plugin}


_NOTHING = Tally()


class Tallies:
    """All use, claim by claim."""

    def __init__(self) -> None:
        self._tallies: dict[Scope, Tally] = {}
        self._claims: dict[str, Mapping[Scope, Draw]] = {}
        self._plugin: dict[Scope, int] = {}

    def of(self, scope: Scope) -> Tally:
        return self._tallies.get(scope, _NOTHING)

    def draws(self, uid: str) -> Mapping[Scope, Draw]:
        return self._claims.get(uid, {})

    def put(self, uid: str, draws: Mapping[Scope, Draw]) -> set[Scope]:
        """The claim takes this, instead of what it took before. Returns the scopes in which something came free."""
        old = self._claims.pop(uid, {})
        if old == draws:
            if old:
                self._claims[uid] = old
            return set()
        for scope, draw in old.items():
            self._add(scope, draw, -1)
        for scope, draw in draws.items():
            self._add(scope, draw, 1)
        if draws:
            self._claims[uid] = draws
        return {scope for scope, draw in old.items() if _less(draws.get(scope), draw)}

    def put_plugin(self, counts: Mapping[Scope, int]) -> set[Scope]:
        """Devices that pods have from device plugins, all anew. Returns the scopes in which something came free."""
        freed = {scope for scope, count in self._plugin.items() if counts.get(scope, 0) < count}
        for scope in self._plugin:
            self._tally(scope).plugin = 0
        self._plugin = dict(counts)
        for scope, count in self._plugin.items():
            self._tally(scope).plugin = count
        return freed

    def clear(self) -> None:
        self._tallies.clear()
        self._claims.clear()
        self._plugin.clear()

    def _tally(self, scope: Scope) -> Tally:
        return self._tallies.setdefault(scope, Tally())

    def _add(self, scope: Scope, draw: Draw, sign: int) -> None:
        tally = self._tally(scope)
        for device in draw.devices:
            tally.devices[device] += sign
            if not tally.devices[device]:
                del tally.devices[device]
        for name, amount in draw.capacity.items():
            tally.capacity[name] += sign * amount


def _less(now: Draw | None, before: Draw) -> bool:
    if now is None:
        return True
    fewer = before.devices - now.devices
    return bool(fewer) or any(now.capacity.get(name, 0) < amount for name, amount in before.capacity.items())


def describe(name: str, amount: int, like: Budget) -> str:
    """An amount of a budget for a person: "3" devices, "40Gi"."""
    if name == DEVICES:
        return str(amount)
    assert isinstance(like.terms, Quota)
    assert like.terms.capacity is not None
    return str(Quantity(amount, like.terms.capacity[name].format))
