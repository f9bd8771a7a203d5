"""Optional values: `optional.of`, `optional.none`, `hasValue`, `value`, `first`, `last`, `unwrap`.

`or` and `orValue` are here by signature only: they evaluate their second side when needed, which is the compiler's part.
"""

from __future__ import annotations

from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.values import NONE, Duration, Optional, Timestamp, shown

# The Go zero time, the only timestamp that counts as empty.
_ZERO_TIME = -62135596800 * 10**9


def declare(functions: Registry) -> None:
    """Add the optional functions."""
    functions.plain("optional.of", "optional_of", "V -> optional(V)", Optional)
    functions.plain("optional.ofNonZeroValue", "optional_ofNonZeroValue", "V -> optional(V)", _of_non_zero)
    functions.plain("optional.none", "optional_none", " -> optional(V)", lambda: NONE)
    functions.member("value", "optional_value", "optional(V) -> V", _value)
    functions.member("hasValue", "optional_hasValue", "optional(V) -> bool", lambda value: value is not NONE)
    functions.member("or", "optional_or_optional", "optional(V), optional(V) -> optional(V)")
    functions.member("orValue", "optional_orValue_value", "optional(V), V -> V")
    functions.member("first", "list_first", "list(V) -> optional(V)", lambda values: _end(values, 0))
    functions.member("last", "list_last", "list(V) -> optional(V)", lambda values: _end(values, -1))
    functions.plain("optional.unwrap", "optional_unwrap", "list(optional(V)) -> list(V)", _unwrap)
    functions.member("unwrapOpt", "optional_unwrapOpt", "list(optional(V)) -> list(V)", _unwrap)
    functions.plain("_?._", "select_optional_field", "dyn, string -> optional(V)")


def _of_non_zero(value: Any) -> Optional:
    match value:
        case bool() | int() | float() | str() | bytes() | tuple() | dict() | None:
            return Optional(value) if value else NONE
        case Duration():
            return Optional(value) if value.ns else NONE
        case Timestamp():
            return Optional(value) if value.ns != _ZERO_TIME else NONE
    return Optional(value)


def _value(value: Optional) -> Any:
    if value is NONE:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _end(values: tuple[Any, ...], index: int) -> Optional:
    return Optional(values[index]) if values else NONE


def _unwrap(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError(f"value {shown(value)} is not optional")
    return tuple(value.value for value in values if value is not NONE)
