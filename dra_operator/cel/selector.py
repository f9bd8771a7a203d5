"""Selectors: compiled expressions that say yes or no to a device, and say what they look at.

`compile_selector` goes from text to a `Selector`; it is slow next to evaluating, so callers keep selectors or use
`cached_selector`. `compile_derived` does the same for derived attributes, whose value is not a yes or no.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.analysis import Comparison, Read, comparison, conjuncts, reads, text_of
from dra_operator.cel.ast import Expr
from dra_operator.cel.checker import check
from dra_operator.cel.compiler import Program, compile_tree
from dra_operator.cel.costs import Meter
from dra_operator.cel.device import AttributeValue, Device
from dra_operator.cel.environment import CelFeatures, Environment, EnvironmentKind, environment
from dra_operator.cel.errors import CompileError, EvaluationError, compile_error
from dra_operator.cel.estimate import estimate
from dra_operator.cel.operators import MISSING
from dra_operator.cel.parser import parse
from dra_operator.cel.types import BOOL, INT, STRING, Type, object_type
from dra_operator.cel.validators import validate
from dra_operator.cel.values import NONE, Optional, TypeValue, kind_of, map_key

__all__ = [
    "COST_LIMIT",
    "MAX_BYTES",
    "Conjunct",
    "DerivedAttribute",
    "Selector",
    "cached_selector",
    "compile_derived",
    "compile_selector",
]

# Limits of the API: CELSelectorExpressionMaxCost and CELSelectorExpressionMaxLength.
COST_LIMIT = 1_000_000
MAX_BYTES = 10 * 1024
# An expression of the largest allowed depth takes a few frames a level in every pass, and Python's default limit of 1,000
# stops short of it. Only pure Python calls nest here, which take no C stack.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
_DEFAULT_FEATURES = CelFeatures()
_Built = TypeVar("_Built")


class _Evaluable:
    """A tree in its two compiled forms: one that cannot exceed the cost limit, and one that is metered. Made when needed."""

    __slots__ = ("_environment", "_free", "_metered", "_root", "cost")

    def __init__(self, root: Expr, environment: Environment) -> None:
        self._root = root
        self._environment = environment
        self.cost: int | None = None
        self._free: Program | None = None
        self._metered: Program | None = None

    def free(self, limit: int) -> Program | None:
        """The unmetered form, if the cost cannot reach the limit. Raises CompileError."""
        if self.cost is None:
            self.cost = estimate(self._root)
            self._free = compile_tree(self._root, self._environment.functions, metered=False)
        return self._free if self.cost <= limit else None

    def estimated(self) -> int:
        """The most it can cost on a device within the API's limits. Raises CompileError."""
        if self.cost is None:
            self.free(COST_LIMIT)
        return self.cost or 0

    def evaluate(self, device: Device, limit: int) -> Any:
        """The value for a device. Raises EvaluationError."""
        if device.within_limits and (program := self.free(limit)) is not None:
            return _run(program, device, None)
        return self.measure(device, limit)[0]

    def measure(self, device: Device, limit: int) -> tuple[Any, int]:
        """The value and what it cost. Raises EvaluationError, also beyond the limit."""
        meter = Meter(limit)
        return self.metered(device, meter), meter.used

    def metered(self, device: Device, meter: Meter) -> Any:
        """The value, its cost charged to `meter`. Raises EvaluationError, also beyond the meter's limit."""
        if not device.within_limits and (name := device.unsupported) is not None:
            # As the scheduler: such a device cannot be judged, whatever the expression looks at.
            raise EvaluationError(f"attribute {name}: unsupported attribute value")
        if self._metered is None:
            self._metered = compile_tree(self._root, self._environment.functions, metered=True)
        return _run(self._metered, device, meter)


def _run(program: Program, device: Device, meter: Meter | None) -> Any:
    try:
        if program.slots == 2:
            return program.run((device, meter))
        return program.run([device, meter, *([None] * (program.slots - 2))])
    except RecursionError:
        raise EvaluationError("expression recursion limit exceeded") from None


def _as_bool(value: Any) -> bool:
    if type(value) is Optional and value.value is not None:
        value = value.value
    if value is True or value is False:
        return bool(value)
    raise EvaluationError(f"CEL result of type {kind_of(value)} could not be converted to bool")


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One term of a selector's outermost `&&`.

    `comparison` is set where it compares one device value with a literal; `seen` then gives that value.
    """

    text: str
    reads: frozenset[Read]
    comparison: Comparison | None
    _evaluable: _Evaluable

    @property
    def estimated_cost(self) -> int:
        """The most it can cost on a device within the API's limits."""
        return self._evaluable.estimated()

    def matches(self, device: Device) -> bool:
        """Whether this term alone is true. Raises EvaluationError."""
        return _as_bool(self._evaluable.evaluate(device, COST_LIMIT))

    def metered(self, device: Device, meter: Meter) -> bool:
        """As `matches`, its cost charged to `meter`."""
        return _as_bool(self._evaluable.metered(device, meter))

    def seen(self, device: Device) -> Any:
        """The device's value the term is about; None where it has none, or the term is no comparison."""
        if self.comparison is None:
            return None
        value = _getter(self.comparison.read)(device)
        return None if value is MISSING else value


class Selector:
    """A compiled selector. Immutable, and free of state between evaluations.

    `reads`: what its answer depends on; devices that agree in it (see `projection`) get the same answer.
    `estimated_cost`: the most it can cost on a device within the API's limits.
    """

    __slots__ = (
        "_evaluable",
        "_getters",
        "_limit",
        "_single",
        "conjuncts",
        "estimated_cost",
        "expression",
        "reads",
    )

    def __init__(self, expression: str, root: Expr, environment: Environment, limit: int) -> None:
        self.expression = expression
        self.reads = reads(root)
        self._limit = limit
        self._evaluable = _Evaluable(root, environment)
        free = self._evaluable.free(limit)
        self.estimated_cost = self._evaluable.cost or 0
        self._single = free.run if free is not None and free.slots == 2 else None
        self._getters = tuple(_projector(read) for read in sorted(self.reads, key=str))
        self.conjuncts = tuple(_conjunct(term, expression, environment) for term in conjuncts(root))

    def matches(self, device: Device) -> bool:
        """Whether the device is selected. Raises EvaluationError."""
        if self._single is not None and device.within_limits:
            value = self._single((device, None))
        else:
            value = self._evaluable.evaluate(device, self._limit)
        return value if value is True or value is False else _as_bool(value)

    def measure(self, device: Device) -> tuple[bool, int]:
        """Whether the device is selected, and what that cost. Raises EvaluationError."""
        value, cost = self._evaluable.measure(device, self._limit)
        return _as_bool(value), cost

    def metered(self, device: Device, meter: Meter) -> bool:
        """As `matches`, its cost charged to `meter`. Raises EvaluationError."""
        return _as_bool(self._evaluable.metered(device, meter))

    def projection(self, device: Device) -> Hashable:
        """What the selector can see of a device: equal for two devices only if its answer for both is the same."""
        return tuple([getter(device) for getter in self._getters])

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


def _conjunct(term: Expr, expression: str, environment: Environment) -> Conjunct:
    evaluable = _Evaluable(term, environment)
    return Conjunct(text_of(term, expression), reads(term), comparison(term), evaluable)


class DerivedAttribute:
    """A compiled derived attribute (KEP-6080): a value computed from a device."""

    __slots__ = ("_evaluable", "expression", "reads")

    def __init__(self, expression: str, root: Expr, environment: Environment) -> None:
        self.expression = expression
        self.reads = reads(root)
        self._evaluable = _Evaluable(root, environment)
        self._evaluable.free(COST_LIMIT)

    def evaluate(self, device: Device, limit: int = COST_LIMIT) -> tuple[AttributeValue, int]:
        """The attribute value, and what it cost of the limit. Raises EvaluationError, also for other kinds of value."""
        value, cost = self._evaluable.measure(device, limit)
        return _attribute(value), cost

    def metered(self, device: Device, meter: Meter) -> AttributeValue:
        """As `evaluate`, its cost charged to `meter`."""
        return _attribute(self._evaluable.metered(device, meter))


def _attribute(value: Any) -> AttributeValue:
    kinds = (bool, int, str, Semver)
    value = _bare(value)
    if type(value) in kinds:
        return value  # type: ignore[no-any-return]
    if type(value) is tuple:
        items = tuple(map(_bare, value))
        for index, item in enumerate(items):
            if type(item) not in kinds:
                raise EvaluationError(f"unsupported list element type: {kind_of(item)}")
            if type(item) is not type(items[0]):
                wanted, found = (kind_of(each).removeprefix("kubernetes.").lower() for each in (items[0], item))
                raise EvaluationError(f"expected list element at index {index} to be {wanted}, got {found}")
        return items
    raise EvaluationError(f"unsupported CEL return type: {kind_of(value)}")


def _bare(value: Any) -> Any:
    """A value out of an optional; a type as its name."""
    while type(value) is Optional and value is not NONE:
        value = value.value
    return value.name if type(value) is TypeValue else value


def compile_selector(
    expression: str,
    features: CelFeatures = _DEFAULT_FEATURES,
    env: EnvironmentKind = "StoredExpressions",
    *,
    cost_limit: int = COST_LIMIT,
) -> Selector:
    """Compile a selector. Raises CompileError.

    `env` is StoredExpressions as the allocator evaluates, or NewExpressions as the API server checks new objects.
    """
    scope = environment(features, env)
    root = _checked(expression, scope)
    if root.type not in (BOOL, scope.attribute):
        raise CompileError(f"must evaluate to bool or the unknown type, not {root.type.declared}")
    return _guarded(lambda: Selector(expression, root, scope, cost_limit))


@lru_cache(maxsize=4096)
def cached_selector(
    expression: str, features: CelFeatures = _DEFAULT_FEATURES, env: EnvironmentKind = "StoredExpressions"
) -> Selector:
    """`compile_selector`, remembering what it compiled. Errors are not remembered."""
    return compile_selector(expression, features, env)


def compile_ahead(expressions: Iterable[str | None]) -> None:
    """Compile selectors that somebody will ask for. What does not compile is left to whoever asks."""
    for expression in expressions:
        if expression is not None:
            with suppress(CompileError):
                cached_selector(expression)


def compile_derived(
    expression: str, features: CelFeatures = _DEFAULT_FEATURES, env: EnvironmentKind = "StoredExpressions"
) -> DerivedAttribute:
    """Compile a derived attribute. Raises CompileError, also where its type can be no attribute value."""
    scope = environment(features, env)
    root = _checked(expression, scope)
    with_lists = features.list_type_attributes or env == "StoredExpressions"
    if not _is_attribute_type(root.type, with_lists):
        lists = " or a list of these scalars" if with_lists else ""
        raise CompileError(
            f"must evaluate to a primitive scalar (string, integer, boolean, semver){lists}, not {root.type.declared}"
        )
    return _guarded(lambda: DerivedAttribute(expression, root, scope))


def _is_attribute_type(type_: Type, with_lists: bool) -> bool:
    if type_.kind == "list" and with_lists:
        return _is_attribute_type(type_.params[0], False)
    return type_.is_dyn or type_ in (BOOL, INT, STRING, object_type("kubernetes.Semver"))


def _checked(expression: str, scope: Environment) -> Expr:
    """The typed tree of an expression. Raises CompileError."""
    size = len(expression.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise CompileError(f"the expression is {size} bytes long; at most {MAX_BYTES} are allowed")

    def tree() -> Expr:
        root, issues = check(parse(expression), scope)
        issues = issues or validate(root)
        if issues:
            raise compile_error(expression, issues)
        return root

    return _guarded(tree)


def _guarded(build: Callable[[], _Built]) -> _Built:
    """Run a pass; one that nests too deep is a compile error."""
    try:
        return build()
    except RecursionError:
        raise CompileError("compilation failed: expression recursion limit exceeded") from None


# --- reading a device by `Read`


def _getter(read: Read) -> Callable[[Device], Any]:
    """The value a read names; MISSING where the device has none."""
    if len(read) == 1:
        name = "driver" if read[0] == "driver" else "allow_multiple_allocations"
        return lambda device: getattr(device, name)
    kind, domain, identifier = read
    slot = "attributes" if kind == "attribute" else "capacity"

    def get(device: Device) -> Any:
        domains = getattr(device, slot)
        if domain is None:
            return domains
        values = dict.get(domains, domain)
        if identifier is None:
            return values
        return MISSING if values is None else values.get(identifier, MISSING)

    return get


def _projector(read: Read) -> Callable[[Device], Hashable]:
    """As `_getter`, in a form that hashes and that tells apart what Python would confuse."""
    if len(read) == 3 and read[1] is not None and read[2] is not None:
        return _value_projector(str(read[0]), read[1], read[2])
    get = _getter(read)
    return lambda device: _frozen(get(device))


def _value_projector(kind: str, domain: str, identifier: str) -> Callable[[Device], Hashable]:
    qualified = f"{domain}/{identifier}"
    slot = "raw_attributes" if kind == "attribute" else "raw_capacity"

    def project(device: Device) -> Hashable:
        values = getattr(device, slot)
        value = values.get(identifier, MISSING) if device.driver == domain else MISSING
        if value is MISSING:
            value = values.get(qualified, MISSING)
        return value if type(value) is str or type(value) is int else _frozen(value)

    return project


def _frozen(value: Any) -> Hashable:
    match value:
        case bool():
            return map_key(value)  # type: ignore[no-any-return]
        case tuple():
            return tuple(map(_frozen, value))
        case dict():
            return frozenset((key, _frozen(part)) for key, part in value.items())
        case Quantity():
            # Equal amounts can differ in whether they count as whole numbers.
            return value, value.stored_int64() is None
    return value  # type: ignore[no-any-return]
