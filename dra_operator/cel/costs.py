"""What evaluating costs, in CEL's units, and the meter that stops it at the limit.

The costs are those of the API server at run time: cel-go's interpreter with the Kubernetes estimator on top. The estimate
before running is in `estimate`. Source: cel-go `interpreter/runtimecost`; k8s.io/apiserver `pkg/cel/library/cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from dra_operator.cel.library.formats import NamedFormat
from dra_operator.cel.library.network import Cidr, Ip
from dra_operator.cel.operators import too_large
from dra_operator.cel.values import DeviceMap, Optional

__all__ = ["LIST_COST", "MAP_COST", "Meter", "call_cost"]

LIST_COST, MAP_COST = 10, 30
_TEXT = 0.1
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


def _self_compared(values: tuple[Any, ...]) -> int:
    factor = 2.0 + (_TEXT if values and type(values[0]) in (str, bytes) else 0)
    return _allocating(factor, len(values) ** 2)


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
    "slice": _LIST_RESULT,
    "lists.range": _LIST_RESULT,
    "flatten": lambda args, result: _allocating(abs(args[1]) if len(args) == 2 else 1, size(args[0])),
    "distinct": lambda args, result: _self_compared(args[0]),
    "sort": lambda args, result: _self_compared(args[0]),
    "@sortByAssociatedKeys": lambda args, result: _self_compared(args[1]),
    "reverse": _LIST_RESULT,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    **dict.fromkeys(("startsWith", "endsWith"), lambda args, result: _text(size(args[1]))),
    **dict.fromkeys(("strings.quote", "format"), _FIRST),
    "matches": lambda args, result: _regex(args),
    "contains": lambda args, result: _text(size(args[0])) * _text(size(args[1])),
    **dict.fromkeys(
        ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"),
        lambda args, result: _text(min(size(args[0]), size(args[1]))),
    ),
    "@in": lambda args, result: size(args[1]) if type(args[1]) is tuple else 1,
    "_+_": lambda args, result: _text(size(args[0]) + size(args[1])) if type(args[0]) in (str, bytes) else 1,
    "string": lambda args, result: _text(size(args[0])) if type(args[0]) is bytes else 1,
    "bytes": lambda args, result: _text(size(args[0])) if type(args[0]) is str else 1,
}


def call_cost(function: str) -> Coster:
    """How to cost a call of a function: from its arguments (the target first) and its result."""
    return _BY_FUNCTION.get(function, lambda args, result: 1)
