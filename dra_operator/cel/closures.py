"""Operators and access as Python closures over an evaluation frame.

A frame is a sequence: the device, the cost meter (None where cost cannot reach the limit), then the variables of macros. Each
function here takes the closures of the parts and returns the closure of the whole, the fast case first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dra_operator.cel import operators
from dra_operator.cel.errors import CostLimitError, EvaluationError
from dra_operator.cel.operators import INDEX_KINDS, MISSING, ordered, qualify, qualify_optional
from dra_operator.cel.values import NONE, NUMBERS, Optional, equal, no_overload, type_name

__all__ = [
    "Closure",
    "Frame",
    "and_",
    "conditional",
    "constant",
    "equality",
    "field",
    "index",
    "membership",
    "not_",
    "optional_or",
    "or_",
    "order",
]

Frame = Sequence[Any]
Closure = Callable[[Any], Any]


def constant(value: Any) -> Closure:
    return lambda frame: value


def and_(terms: list[Closure]) -> Closure:
    """`&&`: false wins over errors, wherever it stands."""
    return _junction(terms, True)


def or_(terms: list[Closure]) -> Closure:
    """`||`: true wins over errors, wherever it stands."""
    return _junction(terms, False)


def _junction(terms: list[Closure], neutral: bool) -> Closure:
    decisive = not neutral

    def pair(frame: Any) -> Any:
        try:
            value = first(frame)
        except CostLimitError:
            raise
        except EvaluationError as error:
            problem = error
        else:
            if value is neutral:
                value = second(frame)
                if value is True or value is False:
                    return value
                raise no_overload()
            if value is decisive:
                return decisive
            problem = no_overload()
        try:
            value = second(frame)
        except CostLimitError:
            raise
        except EvaluationError:
            raise problem from None
        if value is decisive:
            return decisive
        raise problem

    def chain(frame: Any) -> Any:
        problem: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CostLimitError:
                raise
            except EvaluationError as error:
                problem = problem or error
                continue
            if value is decisive:
                return decisive
            if value is not neutral:
                problem = problem or no_overload()
        if problem is not None:
            raise problem
        return neutral

    if len(terms) == 2:
        first, second = terms
        return pair
    return chain


def not_(operand: Closure) -> Closure:
    def run(frame: Any) -> bool:
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise no_overload("!_", value)

    return run


def conditional(condition: Closure, truthy: Closure, falsy: Closure) -> Closure:
    def run(frame: Any) -> Any:
        value = condition(frame)
        if value is True:
            return truthy(frame)
        if value is False:
            return falsy(frame)
        raise no_overload()

    return run


def equality(left: Closure, right: Closure, negated: bool, literal: Any = MISSING) -> Closure:
    """`==` or `!=`; with the right side known, text and whole numbers are compared without a detour."""
    kind = type(literal)
    judge = _same if negated else equal
    if kind is str or kind is int or kind is bool:

        def with_literal(frame: Any) -> Any:
            value = left(frame)
            if type(value) is kind:
                return (value == literal) is not negated
            return judge(value, literal) is not negated

        return with_literal
    return lambda frame: judge(left(frame), right(frame)) is not negated


def _same(left: Any, right: Any) -> bool:
    # As in cel-go: what cannot be compared is not equal, so `!=` holds although `==` is an error.
    try:
        return equal(left, right)
    except EvaluationError:
        return False


_DIRECT: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def order(operator: str, left: Closure, right: Closure, literal: Any = MISSING) -> Closure:
    """`<`, `<=`, `>` or `>=`."""
    if type(literal) is int:
        return _order_with(operator, left, literal)
    direct = _DIRECT[operator]

    def run(frame: Any) -> Any:
        first, second = left(frame), right(frame)
        if type(first) is int and type(second) is int:
            return direct(first, second)
        return ordered(operator, first, second)

    return run


def _order_with(operator: str, left: Closure, bound: int) -> Closure:
    """Against a known whole number, one closure an operator: the commonest part of selectors."""

    def less(frame: Any) -> bool:
        value = left(frame)
        return value < bound if type(value) is int else ordered("<", value, bound)

    def at_most(frame: Any) -> bool:
        value = left(frame)
        return value <= bound if type(value) is int else ordered("<=", value, bound)

    def greater(frame: Any) -> bool:
        value = left(frame)
        return value > bound if type(value) is int else ordered(">", value, bound)

    def at_least(frame: Any) -> bool:
        value = left(frame)
        return value >= bound if type(value) is int else ordered(">=", value, bound)

    return {"<": less, "<=": at_most, ">": greater, ">=": at_least}[operator]


def membership(item: Closure, members: tuple[Any, ...]) -> Closure:
    """`item in [literals]`. In such a set numbers are the same only if they are exactly, unlike with `==`."""
    texts = frozenset(member for member in members if type(member) is str)
    numbers = frozenset(member for member in members if type(member) in NUMBERS and member == member)

    def run(frame: Any) -> bool:
        value = item(frame)
        kind = type(value)
        if kind is str:
            return value in texts
        return value in numbers if kind in NUMBERS else operators.contains(value, members)

    return run


def field(operand: Closure, name: str, optional: bool) -> Closure:
    """`operand.name` or `operand.?name`."""
    if optional:
        return lambda frame: qualify_optional(operand(frame), name)

    def run(frame: Any) -> Any:
        value = operand(frame)
        if type(value) is dict:
            found = value.get(name, MISSING)
            if found is not MISSING:
                return found
        return qualify(value, name)

    return run


def index(operand: Closure, key: Closure, optional: bool) -> Closure:
    """`operand[key]` or `operand[?key]`."""
    access = qualify_optional if optional else qualify

    def run(frame: Any) -> Any:
        value, part = operand(frame), key(frame)
        if type(part) not in INDEX_KINDS:
            raise EvaluationError(f"invalid qualifier type: {type_name(part)}")
        return access(value, part)

    return run


def optional_or(left: Closure, right: Closure, unwrap: bool) -> Closure:
    """`.or(…)`, or `.orValue(…)` with `unwrap`; the right side runs only if needed."""

    def run(frame: Any) -> Any:
        value = left(frame)
        if type(value) is not Optional:
            raise no_overload()
        if value is NONE:
            return right(frame)
        return value.value if unwrap else value

    return run


# --- the device: looked up in the raw maps, without grouping by domain


def device_value(raw: str, domain: str, name: str) -> Closure:
    """`device.attributes["domain"].name`; `raw` is the slot of the device that holds the map."""
    qualified = f"{domain}/{name}"
    problem = f"no such key: {name}"

    def attribute(frame: Any) -> Any:
        device = frame[0]
        if device.driver == domain:
            value = device.raw_attributes.get(name, MISSING)
            if value is not MISSING:
                return value
        value = device.raw_attributes.get(qualified, MISSING)
        if value is MISSING:
            raise EvaluationError(problem)
        return value

    def capacity(frame: Any) -> Any:
        device = frame[0]
        if device.driver == domain:
            value = device.raw_capacity.get(name, MISSING)
            if value is not MISSING:
                return value
        value = device.raw_capacity.get(qualified, MISSING)
        if value is MISSING:
            raise EvaluationError(problem)
        return value

    return attribute if raw == "attributes" else capacity


def device_presence(raw: str, domain: str, name: str) -> Closure:
    """`has(device.attributes["domain"].name)` and `"name" in device.attributes["domain"]`."""
    qualified = f"{domain}/{name}"
    slot = f"raw_{raw}"

    def run(frame: Any) -> bool:
        device = frame[0]
        values = getattr(device, slot)
        return qualified in values or (name in values and device.driver == domain)

    return run


def device_optional(raw: str, domain: str, name: str) -> Closure:
    """`device.attributes["domain"].?name`."""
    value, present = device_value(raw, domain, name), device_presence(raw, domain, name)
    return lambda frame: Optional(value(frame)) if present(frame) else NONE


def device_map() -> Closure:
    """`device` as a value of its own: the map that cel-go evaluates with."""

    def run(frame: Any) -> dict[str, Any]:
        device = frame[0]
        return {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device.attributes,
            "capacity": device.capacity,
        }

    return run
