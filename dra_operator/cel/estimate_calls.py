"""What one call can cost at worst, and how large its result can be.

Numbers saturate at 2^64 - 1. Source: cel-go `checker/cost` and `ext`; k8s.io/apiserver `pkg/cel/library/cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from dra_operator.cel.ast import Expr, Literal
from dra_operator.cel.costs import LIST_COST
from dra_operator.cel.types import Type

__all__ = ["CallEstimate", "EntrySize", "Size", "Sized", "add", "call_estimate", "scaled", "union"]

Size = tuple[int, int]
Cost = tuple[int, int]

_MOST = 2**64 - 1
_UNKNOWN: Size = (0, _MOST)
_ONE: Cost = (1, 1)
_TEXT, _REGEX = 0.1, 0.25
# The bytes of an address, IPv4 or IPv6.
_ADDRESS: Size = (4, 16)
_FORMAT_PATTERN = 128


@dataclass(frozen=True, slots=True)
class EntrySize:
    """How large the keys and values of a list or map can be."""

    container: str
    key: Size
    value: Size


@dataclass(frozen=True, slots=True)
class Sized:
    """An argument: its type, its size if known, and its elements' type and size if it is a list."""

    type: Type
    size: Size | None
    element: tuple[Type, Size | None] | None
    entries: EntrySize | None
    node: Expr

    @property
    def bounds(self) -> Size:
        return self.size or _UNKNOWN

    def whole(self, default: int) -> int:
        """The value of a whole-number literal, not below 0; else the default."""
        if isinstance(self.node, Literal) and type(self.node.value) is int:
            return max(self.node.value, 0)
        return default


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The cost of a call with its arguments, and what is known of its result."""

    cost: Cost
    result: Size | None = None
    entries: EntrySize | None = None


def add(left: Cost, right: Cost) -> Cost:
    return min(left[0] + right[0], _MOST), min(left[1] + right[1], _MOST)


def times(left: Cost, right: Cost) -> Cost:
    return min(left[0] * right[0], _MOST), min(left[1] * right[1], _MOST)


def scaled(size: Size, cost: Cost) -> Cost:
    """A cost paid for each element."""
    return times(size, cost)


def union(left: Size, right: Size) -> Size:
    return min(left[0], right[0]), max(left[1], right[1])


def _by(size: Size, factor: float) -> Cost:
    low, high = (min(ceil(float(part) * factor), _MOST) for part in size)
    return low, high


def _text(size: Size) -> Cost:
    return _by(size, _TEXT)


Estimator = Callable[[str, Sized | None, list[Sized]], CallEstimate | None]


def call_estimate(
    function: str, overload: str, target: Sized | None, args: list[Sized], costs: list[Cost]
) -> CallEstimate:
    """The estimate of one overload of a call, arguments included (the target's own cost is not)."""
    special = _with_arguments(overload, args, costs)
    if special is not None:
        return special
    estimator = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    found = estimator(overload, target, args) if estimator else None
    found = found or CallEstimate(_ONE)
    total = found.cost
    for cost in costs:
        total = add(total, cost)
    return CallEstimate(total, found.result, found.entries)


def _with_arguments(overload: str, args: list[Sized], costs: list[Cost]) -> CallEstimate | None:
    """Logic and the conditional, which do not evaluate all their arguments."""
    if overload in ("logical_or", "logical_and"):
        highest = 0
        for cost in costs:
            highest = min(highest + cost[1], _MOST)
        return CallEstimate((costs[0][0], highest))
    if overload == "conditional":
        entries = _joined(args[1], args[2])
        size = union(args[1].bounds, args[2].bounds)
        return CallEstimate(add(costs[0], union(costs[1], costs[2])), size, entries)
    return None


def _joined(left: Sized, right: Sized) -> EntrySize | None:
    if left.entries is None or right.entries is None:
        return None
    key = union(left.entries.key, right.entries.key)
    return EntrySize(left.entries.container, key, union(left.entries.value, right.entries.value))


def _traversal(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None:
        return None
    each = _ONE
    if target.element is not None:
        type_, size = target.element
        if type_.kind in ("string", "bytes"):
            each = add(each, _text(size or _UNKNOWN))
        return CallEstimate(scaled(target.bounds, each))
    if overload == "list_includes_dyn_dyn":
        return CallEstimate(scaled(target.bounds, each))
    return CallEstimate(_text(target.bounds))


def _first(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_text(args[0].bounds)) if args else None


def _url(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_text(args[0].bounds), args[0].bounds) if len(args) == 1 else None


def _transform(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_text(target.bounds), target.bounds) if target else None


def _replace(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.bounds, args[0].bounds, args[1].bounds
    if old[0] == 0:
        most, kept_most = min(size[1] + 1, _MOST), size[1]
    elif new[1] <= old[0]:
        most, kept_most = 0, size[1]
    else:
        most, kept_most = ceil(float(size[1]) / float(old[0])), 0
    if old[1] == 0:
        least, kept_least = min(size[0] + 1, _MOST), size[0]
    elif old[1] <= new[0]:
        least, kept_least = 0, size[0]
    else:
        least, kept_least = ceil(float(size[0]) / float(old[1])), 0
    result = add(times((least, most), new), (kept_least, kept_most))
    return CallEstimate(_by(size, 2 * _TEXT), result)


def _split(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None:
        return None
    parts = target.bounds[1]
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        # A negative limit, which means none, is taken for a huge one.
        parts = args[1].node.value % 2**64
    return CallEstimate(_by(target.bounds, 2 * _TEXT), (0, parts))


def _join(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None:
        return None
    count = target.bounds
    size: Size = (0, 0)
    if target.element is not None:
        size = times(count, target.element[1] or _UNKNOWN)
    if args:
        separators = max(count[0] - 1, 0), max(count[1] - 1, 0)
        size = add(size, times(args[0].bounds, separators))
    return CallEstimate(_text(size), size)


def _pattern(text: Size, pattern: Size) -> Cost:
    return times(_text(add(text, _ONE)), _by(pattern, _REGEX))


def _find(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None or not args:
        return None
    return CallEstimate(_pattern(target.bounds, args[0].bounds), (0, target.bounds[1]))


def _matches(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    text, pattern = (target, args[0]) if target is not None else (args[0], args[-1])
    return CallEstimate(_pattern(text.bounds, pattern.bounds))


def _ip(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_ONE) if overload == "cidr_ip" else _first(overload, target, args)


def _canonical(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_by(args[0].bounds, 2 * _TEXT)) if args else None


def _contains(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    cost = _text(add(_ADDRESS, _ADDRESS))
    if "contains_cidr" in overload:
        cost = add(add(cost, _text(_ADDRESS)), _ONE)
    if overload.endswith("_string") and args:
        cost = add(cost, _text(args[0].bounds))
    return CallEstimate(cost)


def _validate(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_by(_text(args[0].bounds), _FORMAT_PATTERN * _REGEX)) if args else None


def _equal(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    left, right = args
    if overload == "equals" and left.type == right.type:
        if left.type.name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"):
            return CallEstimate(_ONE)
        if left.type.name == "kubernetes.NamedFormat":
            return CallEstimate(_text((1, 64)))
        if left.type.name == "kubernetes.URL":
            return CallEstimate(_text((1, right.size[1] if right.size else 1)))
    return _shorter(left, right)


def _shorter(left: Sized, right: Sized) -> CallEstimate:
    most = min(left.bounds[1], right.bounds[1])
    return CallEstimate(_text((1 if most else 0, most)))


def _plus(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    size = add(args[0].bounds, args[1].bounds)
    cost = _ONE if overload == "add_list" else _text(size)
    return CallEstimate(cost, size, _joined(args[0], args[1]))


def _listing(factor: float, size: Size) -> CallEstimate:
    return CallEstimate(add(_by(size, factor), (1 + LIST_COST, 1 + LIST_COST)), size)


def _slice(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    if target is None or len(args) != 2:
        return None
    length = args[1].whole(target.bounds[1]) - args[0].whole(0)
    return _listing(1, (length % 2**64, length % 2**64))


def _range(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    count = args[0].whole(_MOST)
    return _listing(1, (count, count))


def _flatten(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    depth = args[0].whole(_MOST) if args else 1
    return _listing(float(depth), target.bounds) if target else None


def _reverse(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return _listing(1, target.bounds) if target else None


def _pairwise(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    node = args[0] if args else target
    if node is None:
        return None
    factor = 2 + (_TEXT if overload.startswith(("list_string_", "list_bytes_")) else 0)
    return _listing(factor, times(node.bounds, node.bounds))


def _sets(factor: int) -> Estimator:
    def cost(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
        return CallEstimate(add(_by(times(args[0].bounds, args[1].bounds), factor), _ONE))

    return cost


def _to_bytes(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    low, high = args[0].bounds
    return CallEstimate(_text(args[0].bounds), (low, min(high * 4, _MOST)))


def _to_string(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    low, high = args[0].bounds
    return CallEstimate(_text(args[0].bounds), (low // 4, high))


def _quote(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    low, high = args[0].bounds
    return CallEstimate(_text(args[0].bounds), (low + 2, min(high * 2 + 2, _MOST)))


def _format(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(_text(target.bounds)) if target else None


def _contains_text(overload: str, target: Sized | None, args: list[Sized]) -> CallEstimate | None:
    return CallEstimate(times(_text(target.bounds), _text(args[0].bounds))) if target else None


_BY_FUNCTION: dict[str, Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversal),
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _transform),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first),
    "ip": _ip,
    "ip.isCanonical": _canonical,
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains),
    "validate": _validate,
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("startsWith", "endsWith"), _first),
}
_BY_OVERLOAD: dict[str, Estimator] = {
    "matches": _matches,
    "matches_string": _matches,
    "contains_string": _contains_text,
    "in_list": lambda overload, target, args: CallEstimate(args[1].bounds),
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _plus),
    **{
        f"{verb}_{kind}": lambda overload, target, args: _shorter(args[0], args[1])
        for verb in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    "list_slice": _slice,
    "lists_range": _range,
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_reverse": _reverse,
    "list_distinct": _pairwise,
    **{
        f"list_{kind}_{name}": _pairwise
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for name in ("sort", "sortByAssociatedKeys")
    },
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "string_format": _format,
}
