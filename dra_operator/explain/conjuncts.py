"""What each term of the selectors rejects when it is looked at alone, and the best value there is.

A selector's outermost `&&` is taken apart (`cel.Conjunct`), so that "memory >= 80Gi: 96 devices, best 40Gi" can be told from the rest of
the selector. Devices are counted by kind: what selectors cannot tell apart is asked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.allocator.plan import Way
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import Allowance, CompileError, Conjunct, Device, EvaluationError, bind_device, cached_selector
from dra_operator.explain.explanation import ConjunctCount
from dra_operator.inventory import Inventory
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer, Pool


@dataclass(frozen=True, slots=True)
class Term:
    """One conjunct and where it stands: selector `selector` of the class or of the request, term `index` of it."""

    conjunct: Conjunct
    by_class: bool
    selector: int
    index: int

    @property
    def guard(self) -> bool:
        """Is it about the driver alone? Such terms say which devices the others are about."""
        return self.conjunct.reads == _DRIVER


_DRIVER = frozenset({("driver",)})


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How the terms of one way judge one kind: True, False, or the error's text."""

    kind: Kind
    devices: int
    by_term: tuple[bool | str, ...]

    def fails_only(self) -> int | None:
        """The one term that is not true; None if there are several or none."""
        failing = [number for number, verdict in enumerate(self.by_term) if verdict is not True]
        return failing[0] if len(failing) == 1 else None


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one way, and their verdicts on every kind there is. Without those of selectors that do not compile."""

    terms: tuple[Term, ...]
    verdicts: tuple[Verdicts, ...]
    bound: Mapping[Kind, Device]

    def counts(self, way: Way) -> tuple[ConjunctCount, ...]:
        return tuple(self._count(number, way) for number in range(len(self.terms)))

    def _count(self, number: int, way: Way) -> ConjunctCount:
        term = self.terms[number]
        asked = [item for item in self.verdicts if self._is_asked(number, item)]
        failing = [item for item in asked if item.by_term[number] is not True]
        source = f"class {way.detail.device_class_name}" if term.by_class else "request"
        return ConjunctCount(
            text=text_of(term.conjunct),
            source=source,
            selector=term.selector,
            of=sum(item.devices for item in asked),
            rejects=sum(item.devices for item in failing),
            errors=sum(item.devices for item in failing if isinstance(item.by_term[number], str)),
            only=sum(item.devices for item in failing if item.fails_only() == number),
            best=None if term.guard else self._best(term.conjunct, asked, failing),
            ordered=term.conjunct.comparison is not None and term.conjunct.comparison.operator in ORDERED,
        )

    def _is_asked(self, number: int, item: Verdicts) -> bool:
        """A term of the request is about the devices of the class; any term about those of the drivers that guards let through."""
        own = self.terms[number]
        for other, term in enumerate(self.terms):
            if other == number or item.by_term[other] is True:
                continue
            if term.guard and not own.guard:
                return False
            if term.by_class and not own.by_class:
                return False
        return True

    def _best(self, conjunct: Conjunct, asked: Iterable[Verdicts], failing: Iterable[Verdicts]) -> str | None:
        comparison = conjunct.comparison
        if comparison is None:
            return None
        seen: Counter[Any] = Counter()
        for item in asked if comparison.operator in ORDERED else failing:
            value = conjunct.seen(self.bound[item.kind])
            if value is not None and not isinstance(value, tuple | dict):
                seen[_hashable(value)] += item.devices
        return best_of(comparison.operator, comparison.bound, seen)

    def values_failing_only(self, number: int) -> Counter[Any]:
        """The values of the devices that nothing but this term rejects, with how many devices have each."""
        return self._values(number, lambda item: item.fails_only() == number)

    def values_failing(self, number: int) -> Counter[Any]:
        """The values of the devices that this term rejects, perhaps among others."""
        return self._values(number, lambda item: item.by_term[number] is not True and self._is_asked(number, item))

    def _values(self, number: int, wanted: Callable[[Verdicts], bool]) -> Counter[Any]:
        conjunct = self.terms[number].conjunct
        found: Counter[Any] = Counter()
        for item in self.verdicts:
            if wanted(item):
                value = conjunct.seen(self.bound[item.kind])
                if value is not None and not isinstance(value, tuple | dict):
                    found[_hashable(value)] += item.devices
        return found


def _hashable(value: Any) -> Any:
    """bool and int are equal to Python, but not to anybody else."""
    return _Flag(value) if isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class _Flag:
    value: bool

    def __str__(self) -> str:
        return str(self.value).lower()


ORDERED = (">", ">=", "<", "<=")


def best_of(operator: str, bound: Any, seen: Mapping[Any, int]) -> str | None:
    """The value nearest to what is asked for; for anything but an order, the most common one."""
    if operator in ORDERED:
        alike = [value for value in seen if comparable(value, bound)]
        if not alike:
            return None
        return shown(max(alike) if operator.startswith(">") else min(alike))
    if not seen:
        return None
    return shown(min(seen, key=lambda value: (-seen[value], shown(value))))


def comparable(value: Any, bound: Any) -> bool:
    """Whether two values have an order between them."""
    for kind in (Quantity, Semver, str):
        if isinstance(bound, kind):
            return isinstance(value, kind)
    numbers = (int, float)
    return isinstance(value, numbers) and isinstance(bound, numbers) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def text_of(conjunct: Conjunct) -> str:
    """`memory >= 80Gi` where the term compares one value, else as it is written."""
    comparison = conjunct.comparison
    if comparison is None:
        return conjunct.text
    if comparison.operator == "==" and comparison.bound is True:
        return comparison.subject
    if comparison.operator == "==" and comparison.bound is False:
        return f"!{comparison.subject}"
    return f"{comparison.subject} {comparison.operator} {shown(comparison.bound)}"


def terms_of(way: Way, kinds: Mapping[Kind, int]) -> Terms:
    """Ask every term of the way's selectors about every kind (`kinds`: with how many devices are of it)."""
    terms = tuple(
        Term(conjunct, by_class, number, index)
        for by_class, expressions in ((True, way.filter.device_class.selectors), (False, way.filter.expressions))
        for number, expression in enumerate(expressions)
        for index, conjunct in enumerate(_conjuncts(expression))
    )
    bound = {kind: bind(kind) for kind in kinds} if terms else {}
    allowances = [Allowance() for _ in terms]
    verdicts = tuple(
        Verdicts(
            kind,
            devices,
            tuple(_verdict(term.conjunct, bound[kind], each) for term, each in zip(terms, allowances, strict=True)),
        )
        for kind, devices in (kinds.items() if terms else ())
    )
    return Terms(terms, verdicts, bound)


def _conjuncts(expression: str | None) -> tuple[Conjunct, ...]:
    if expression is None:
        return ()
    try:
        return cached_selector(expression).conjuncts
    except CompileError:
        return ()


def _verdict(conjunct: Conjunct, device: Device, allowance: Allowance) -> bool | str:
    try:
        return allowance.judge(conjunct, device)
    except EvaluationError as error:
        return str(error)


def kinds_of(inventory: Inventory) -> Counter[Kind]:
    """Everything published, of pools that cannot be used as well, by kind."""
    found: Counter[Kind] = Counter()
    for pool in inventory.pools.values():
        if pool.content.usable:
            found.update(offer.kind or kind_of(inventory, offer) for offer in pool.content.offers)
        else:
            found.update(kinds_unusable(pool))
    return found


def kind_of(inventory: Inventory, offer: Offer) -> Kind:
    """The kind of a device that no node sees."""
    return inventory.kinds.of(offer.id.driver, offer.device, offer.taints, bool(offer.slice.skip_node_operations))


def kinds_unusable(pool: Pool) -> Iterator[Kind]:
    """The devices of a pool that cannot be used, each as a kind of its own: they take no part in what is known of the others."""
    for published in pool.content.slices:
        for device in published.devices:
            sizes = tuple(sorted((name, amount.nano) for name, amount in device.capacity.items()))
            unreadable = next((name for name, value in device.attributes.items() if value is None), None)
            skips = bool(published.skip_node_operations)
            yield Kind(-1, pool.id.driver, device, device.taints, skips, sizes, unreadable)


def bind(kind: Kind) -> Device:
    device = kind.device
    return bind_device(kind.driver, device.attributes, device.capacity, device.allow_multiple)
