"""What evaluating costs, in CEL's units, and the meter that stops it at the limit.

The costs are those of the API server at run time: cel-go's interpreter with the Kubernetes estimator on top. The estimate
before running is in `estimate`. Source: cel-go `interpreter/runtimecost`; k8s.io/apiserver `pkg/cel/library/cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.library.formats import NamedFormat
from dra_operator.cel.library.network import Cidr, Ip
from dra_operator.cel.library.urls import Url
from dra_operator.cel.operators import too_large
from dra_operator.cel.values import DeviceMap, Optional

__all__ = ["LIST_COST", "MAP_COST", "PAID_AFTERWARDS", "Meter", "call_cost"]

LIST_COST, MAP_COST = 10, 30
_TEXT = 0.1
_SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_REGEX = 0.25


class Meter:
    """Adds up what one evaluation costs. Raises CostLimitError when it exceeds the limit."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.used = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        self.used += cost
        if self.used > self.limit:
            raise too_large()


def size(value: Any) -> int:
    """What traversing a value goes by: characters, bytes, elements; 1 for all else."""
    kind = type(value)
    if kind in (str, bytes, tuple, dict, DeviceMap):
        return len(value)
    if kind is Ip or kind is Cidr:
        return int(value.size)
    if kind is Optional and value.value is not None:
        return size(value.value)
    return 1


def _text(units: float) -> int:
    return ceil(units * _TEXT)


def _regex(args: tuple[Any, ...]) -> int:
    return _text(1 + size(args[0])) * ceil(size(args[1]) * _REGEX)


def _traversal(value: Any) -> int:
    """The cost of looking at everything in a value."""
    match value:
        case str():
            return int(len(value.encode("utf-8", "surrogatepass")) * _TEXT)
        case bytes():
            return int(len(value) * _TEXT)
        case tuple():
            return sum(map(_traversal, value))
        case dict():
            return sum(_traversal(key) + _traversal(entry) for key, entry in value.items())
    return 1


def _allocating(factor: float, elements: int) -> int:
    return int(elements * factor) + 1 + LIST_COST


def _self_compared(values: Any) -> int:
    if type(values) is not tuple:
        return 1  # of unknown type until now: the call will refuse it
    factor = 2.0 + (_TEXT if values and type(values[0]) in (str, bytes) else 0)
    return _allocating(factor, len(values) ** 2)


def _depth(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 1


def _sets(factor: int) -> Callable[[tuple[Any, ...], Any], int]:
    return lambda args, result: 1 + size(args[0]) * size(args[1]) * factor


Coster = Callable[[tuple[Any, ...], Any], int]


def _contains_ip(args: tuple[Any, ...], _: Any) -> int:
    return _text(2 * size(args[0])) + (_text(size(args[1])) if type(args[1]) is str else 0)


def _contains_cidr(args: tuple[Any, ...], result: Any) -> int:
    return _contains_ip(args, result) + _text(size(args[0])) + 1


def _validate(args: tuple[Any, ...], _: Any) -> int:
    named = args[0]
    pattern = named.pattern_size if isinstance(named, NamedFormat) else 0
    return _text(1 + size(args[1])) * ceil(pattern * _REGEX)


_FIRST: Coster = lambda args, result: _text(size(args[0]))  # noqa: E731
_TWICE: Coster = lambda args, result: _text(2 * size(args[0]))  # noqa: E731
_SHORTER: Coster = lambda args, result: _text(min(size(args[0]), size(args[1])))  # noqa: E731
_LIST_RESULT: Coster = lambda args, result: _allocating(1, size(result))  # noqa: E731

_BY_FUNCTION: dict[str, Coster] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"),
        lambda args, result: _traversal(args[0]),
    ),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _FIRST),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _TWICE),
    "join": lambda args, result: _text(2 * size(result)),
    **dict.fromkeys(("find", "findAll"), lambda args, result: _regex(args)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _FIRST),
    "ip": lambda args, result: 1 if type(args[0]) is Cidr else _text(size(args[0])),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
}
# What cel-go costs by overload: only where types leave no choice of it.
_BY_OVERLOAD: dict[str, Coster] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _LIST_RESULT),
    "list_flatten": lambda args, result: _allocating(1, size(args[0])),
    "list_flatten_int": lambda args, result: _allocating(_depth(args[1]), size(args[0])),
    "list_distinct": lambda args, result: _self_compared(args[0]),
    **{f"list_{kind}_sort": lambda args, result: _self_compared(args[0]) for kind in _SORTED},
    **{f"list_{kind}_sortByAssociatedKeys": lambda args, result: _self_compared(args[1]) for kind in _SORTED},
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda args, result: _text(size(args[1]))),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"), _FIRST),
    **dict.fromkeys(("matches", "matches_string"), lambda args, result: _regex(args)),
    "contains_string": lambda args, result: _text(size(args[0])) * _text(size(args[1])),
    **dict.fromkeys(("equals", "not_equals"), _SHORTER),
    **{
        f"{verb}_{kind}": _SHORTER
        for verb in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    "in_list": lambda args, result: size(args[1]),
    **dict.fromkeys(("add_string", "add_bytes"), lambda args, result: _text(size(args[0]) + size(args[1]))),
}
_OPAQUE = (Quantity, Semver, Ip, Cidr, Url, NamedFormat)


# These make something as large as they cost, which is known only afterwards; all else is paid before it is done.
PAID_AFTERWARDS = frozenset(("join", "slice", "lists.range", "reverse"))


def call_cost(function: str, overloads: tuple[str, ...]) -> Coster:
    """How to cost a call: from its arguments (the target first) and, of those in PAID_AFTERWARDS, its result."""
    if function == "_==_":
        return lambda args, result: 1 if isinstance(args[0], _OPAQUE) else _SHORTER(args, result)
    by_overload = _BY_OVERLOAD.get(overloads[0]) if len(overloads) == 1 else None
    return by_overload or _BY_FUNCTION.get(function) or (lambda args, result: 1)
