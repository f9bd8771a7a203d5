"""Which kinds of devices a request's class and selectors accept, each worked out once per kind.

The only place of the allocator that knows CEL.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.allocator.problem import Bar
from dra_operator.api.claims import DeviceClass
from dra_operator.api.slices import AttributeValue
from dra_operator.cel import (
    Allowance,
    CompileError,
    DerivedAttribute,
    Device,
    EvaluationError,
    Selector,
    bind_device,
    cached_selector,
    compile_derived,
)
from dra_operator.inventory.kinds import Attribute, Kind


@dataclass(frozen=True, slots=True)
class Rejected:
    """`by_class`: the class's selectors, else the request's. `index` is the selector that did not match."""

    by_class: bool
    index: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A selector that does not compile or fails on the device."""

    by_class: bool
    index: int
    message: str


Outcome = Rejected | Broken | None


class Selectors:
    """Compiled expressions, and devices as they see them, by kind."""

    def __init__(self) -> None:
        self._compiled: dict[str, Selector | CompileError] = {}
        self._derived: dict[str, DerivedAttribute | CompileError] = {}
        self._bound: dict[Kind, Device] = {}
        self._allowances: dict[str, Allowance] = {}

    def compiled(self, expression: str) -> Selector | CompileError:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = cached_selector(expression)
            except CompileError as error:
                found = error
            self._compiled[expression] = found
        return found

    def derived(self, expression: str) -> DerivedAttribute | CompileError:
        found = self._derived.get(expression)
        if found is None:
            try:
                found = compile_derived(expression)
            except CompileError as error:
                found = error
            self._derived[expression] = found
        return found

    def reads(self, expression: str) -> frozenset[Attribute] | None:
        """The attributes a selector reads, None for all."""
        return _attributes_read(self.compiled(expression))

    def derived_reads(self, expression: str) -> frozenset[Attribute] | None:
        """The attributes a derived attribute reads, None for all."""
        return _attributes_read(self.derived(expression))

    def bound(self, kind: Kind) -> Device:
        found = self._bound.get(kind)
        if found is None:
            if len(self._bound) > _BOUND_KEPT:
                self._bound.clear()
            device = kind.device
            found = self._bound[kind] = bind_device(
                kind.driver, device.attributes, device.capacity, device.allow_multiple
            )
        return found

    def outcome(self, expression: str | None, kind: Kind) -> bool | str:
        """Does the device match? A text is the error it failed with."""
        if expression is None:
            return "CEL expression empty (unsupported selector type?)"
        selector = self.compiled(expression)
        if isinstance(selector, CompileError):
            return f"CEL compile error: {selector}"
        if kind.unreadable is not None:
            return f"CEL runtime error: attribute {kind.unreadable}: unsupported attribute value"
        try:
            return self._allowance(expression).judge(selector, self.bound(kind))
        except EvaluationError as error:
            return f"CEL runtime error: {error}"

    def value(self, expression: str, kind: Kind) -> AttributeValue:
        """The value of a derived attribute (KEP-6080). Raises CompileError or EvaluationError."""
        derived = self.derived(expression)
        if isinstance(derived, CompileError):
            raise derived
        if kind.unreadable is not None:
            raise EvaluationError(f"attribute {kind.unreadable}: unsupported attribute value")
        with self._allowance(expression).metered() as meter:
            return derived.metered(self.bound(kind), meter)

    def _allowance(self, expression: str) -> Allowance:
        found = self._allowances.get(expression)
        if found is None:
            found = self._allowances[expression] = Allowance()
        return found


_BOUND_KEPT = 65_536


def _attributes_read(compiled: Selector | DerivedAttribute | CompileError) -> frozenset[Attribute] | None:
    if isinstance(compiled, CompileError):
        return frozenset()
    found: set[Attribute] = set()
    for read in compiled.reads:
        if len(read) == 3 and read[0] == "attribute":
            _, domain, name = read
            if domain is None:
                return None
            found.add((domain, name))
    return frozenset(found)


class Filter:
    """A class's selectors and a request's, in this order, all of which must match (`DeviceRequest.selectors`)."""

    __slots__ = ("_known", "_selectors", "device_class", "expressions")

    def __init__(self, device_class: DeviceClass, expressions: tuple[str | None, ...], selectors: Selectors) -> None:
        self.device_class = device_class
        self.expressions = expressions
        self._selectors = selectors
        self._known: dict[Kind, Outcome] = {}

    def reads(self) -> frozenset[Attribute] | None:
        """All attributes read, None for every one."""
        found: set[Attribute] = set()
        for expression in (*self.device_class.selectors, *self.expressions):
            reads = frozenset[Attribute]() if expression is None else self._selectors.reads(expression)
            if reads is None:
                return None
            found |= reads
        return frozenset(found)

    def outcome(self, kind: Kind) -> Outcome:
        """None if the kind is accepted."""
        known = self._known
        if kind in known:
            return known[kind]
        result = known[kind] = self.judge(kind)
        return result

    def judge(self, kind: Kind) -> Outcome:
        """As `outcome`, for a kind that will not be asked for again."""
        for by_class, expressions in ((True, self.device_class.selectors), (False, self.expressions)):
            for index, expression in enumerate(expressions):
                matched = self._selectors.outcome(expression, kind)
                if matched is False:
                    return Rejected(by_class, index)
                if matched is not True:
                    return Broken(by_class, index, str(matched))
        return None


class Narrowed(Filter):
    """A filter that leaves out further kinds, for which there is no selector to name."""

    __slots__ = ("_bars", "_base")

    def __init__(self, base: Filter, bars: tuple[Bar, ...]) -> None:
        super().__init__(base.device_class, base.expressions, base._selectors)
        self._base, self._bars = base, bars

    def judge(self, kind: Kind) -> Outcome:
        outcome = self._base.outcome(kind)
        if outcome is None and any(bar.bars(kind) for bar in self._bars):
            return BARRED
        return outcome


#: The rejection that no selector made.
BARRED = Rejected(False, -1)
