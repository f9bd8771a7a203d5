"""What the operators do to values: arithmetic within 64 bits, order, membership, access to parts.

Every function here takes any values and raises EvaluationError where the operator has no meaning for them.
Source: the CEL specification; error texts of cel-go.
"""

from __future__ import annotations

import math
from typing import Any, Final

from dra_operator.cel.errors import CostLimitError, EvaluationError
from dra_operator.cel.values import (
    INT64_MAX,
    INT64_MIN,
    NONE,
    UINT64_MAX,
    DeviceMap,
    Duration,
    Optional,
    Timestamp,
    Uint,
    compare,
    equal,
    find,
    kind_of,
    no_overload,
    shown,
)

__all__ = [
    "MISSING",
    "add",
    "contains",
    "divide",
    "index_of",
    "modulo",
    "multiply",
    "negate",
    "ordered",
    "qualify",
    "qualify_optional",
    "subtract",
]

MISSING: Final = object()
# Bounds of what one value may grow to. No evaluation within the cost limit traverses more.
MAX_ELEMENTS = 1_000_000
MAX_TEXT = 16 * 1024 * 1024
# The kinds of value that `[]` takes.
INDEX_KINDS: Final = (str, int, Uint, bool, float)
_MIN_SECOND, _MAX_SECOND = -62135596800, 253402300799


def integer(value: int) -> int:
    """An int result, or the overflow error."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise EvaluationError("integer overflow")


def unsigned(value: int) -> Uint:
    """A uint result, or the overflow error."""
    if 0 <= value <= UINT64_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def timestamp(ns: int, offset: int = 0) -> Timestamp:
    """An instant within the years 1 to 9999, or the overflow error."""
    if _MIN_SECOND <= ns // 10**9 <= _MAX_SECOND:
        return Timestamp(ns, offset)
    raise EvaluationError("timestamp overflow")


def too_large() -> CostLimitError:
    return CostLimitError("operation cancelled: actual cost limit exceeded")


def add(left: Any, right: Any) -> Any:
    """`+` of numbers, texts, lists, times."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return integer(left + right)
        if kind is str or kind is bytes:
            if len(left) + len(right) > MAX_TEXT:
                raise too_large()
            return left + right
        if kind is float:
            return left + right
        if kind is tuple:
            if len(left) + len(right) > MAX_ELEMENTS:
                raise too_large()
            return left + right
        if kind is Uint:
            return unsigned(int(left) + int(right))
        if kind is Duration:
            return Duration(integer(left.ns + right.ns))
    elif kind is Timestamp and other is Duration:
        return timestamp(left.ns + right.ns, left.offset)
    elif kind is Duration and other is Timestamp:
        return timestamp(left.ns + right.ns, right.offset)
    raise no_overload()


def subtract(left: Any, right: Any) -> Any:
    """`-` of numbers and times."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return integer(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return unsigned(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return Duration(integer(left.ns - right.ns))
    elif kind is Timestamp and other is Duration:
        return timestamp(left.ns - integer(right.ns), left.offset)
    raise no_overload()


def multiply(left: Any, right: Any) -> Any:
    """`*` of numbers."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return integer(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return unsigned(int(left) * int(right))
    raise no_overload()


def divide(left: Any, right: Any) -> Any:
    """`/` of numbers; whole numbers round towards zero."""
    kind = type(left)
    if kind is type(right):
        if kind is int or kind is Uint:
            if right == 0:
                raise EvaluationError("division by zero")
            quotient = abs(int(left)) // abs(int(right))
            return Uint(quotient) if kind is Uint else integer(quotient if (left < 0) == (right < 0) else -quotient)
        if kind is float:
            return _divide_doubles(left, right)
    raise no_overload()


def _divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Any, right: Any) -> Any:
    """`%` of whole numbers; the sign is that of the dividend."""
    kind = type(left)
    if kind is type(right) and (kind is int or kind is Uint):
        if right == 0:
            raise EvaluationError("modulus by zero")
        if left == INT64_MIN and right == -1:
            raise EvaluationError("integer overflow")
        rest = abs(int(left)) % abs(int(right))
        return Uint(rest) if kind is Uint else (rest if left >= 0 else -rest)
    raise no_overload()


def negate(value: Any) -> Any:
    """Unary `-`."""
    kind = type(value)
    if kind is int:
        return integer(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(integer(-value.ns))
    raise no_overload("-_")


def ordered(operator: str, left: Any, right: Any) -> bool:
    """`<`, `<=`, `>` or `>=`."""
    order = compare(left, right)
    match operator:
        case "<":
            return order < 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
    return order >= 0


def contains(item: Any, container: Any) -> bool:
    """`in`: an element of a list, a key of a map."""
    kind = type(container)
    if kind is tuple:
        return any(_same(item, element) for element in container)
    if kind is dict or kind is DeviceMap:
        return find(container, item, MISSING) is not MISSING
    raise no_overload("@in")


def _same(left: Any, right: Any) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def index_of(index: Any) -> int:
    """A list index from a whole number of any numeric type."""
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is Uint or kind is float:
        if INT64_MIN < index <= INT64_MAX and index == int(index):
            return int(index)
        raise EvaluationError(f"unsupported index value {shown(index)} in list")
    raise EvaluationError(f"unsupported index type '{kind_of(index)}' in list")


def present(value: Any, key: Any) -> Any:
    """The part of a value under a key, or MISSING where it has no such part."""
    kind = type(value)
    if kind is dict:
        return find(value, key, MISSING)
    if kind is DeviceMap:
        return find(value, key, {})
    if kind is tuple:
        index = index_of(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def qualify(value: Any, key: Any) -> Any:
    """`value.key` or `value[key]`. On an optional it looks inside and answers with an optional."""
    if type(value) is Optional:
        return qualify_optional(value, key)
    part = present(value, key)
    if part is not MISSING:
        return part
    if type(value) is tuple:
        raise EvaluationError(f"index out of bounds: {shown(key)}")
    raise EvaluationError(f"no such key: {shown(key)}")


def qualify_optional(value: Any, key: Any) -> Optional:
    """`value.?key` or `value[?key]`."""
    if type(value) is Optional:
        if value is NONE:
            return NONE
        value = value.value
    part = present(value, key)
    return NONE if part is MISSING else Optional(part)


def has(value: Any, key: str) -> bool:
    """`has(value.key)`."""
    return qualify_optional(value, key) is not NONE
