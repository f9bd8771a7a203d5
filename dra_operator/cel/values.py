"""The values expressions work on at run time, and what holds between any two of them: equality and order.

CEL values are Python values where one fits exactly: bool, int (64 bits), float, str, bytes, None, tuple (list), dict (map),
Quantity, Semver. The rest is defined here. Map keys that Python would confuse (`true` and `1`) are wrapped by `map_key`.
Source: the CEL specification; comparisons across numeric types as in cel-go.
"""

from __future__ import annotations

from typing import Any, Final

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.errors import EvaluationError

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "NONE",
    "NUMBERS",
    "UINT64_MAX",
    "BoolKey",
    "DeviceMap",
    "Duration",
    "Optional",
    "Timestamp",
    "TypeValue",
    "Uint",
    "compare",
    "equal",
    "find",
    "kind_of",
    "map_key",
    "no_overload",
    "original_key",
    "shown",
    "type_name",
]

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned 64-bit integer; the type is all that sets it apart from int."""

    __slots__ = ()


class _Time:
    """An amount of nanoseconds, compared by that."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.ns == other.ns

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.ns))


class Duration(_Time):
    """A signed duration in nanoseconds, within int64."""

    __slots__ = ()


class Timestamp(_Time):
    """An instant in nanoseconds since 1970 UTC, with the offset in minutes it was written in (only its text shows that)."""

    __slots__ = ("offset",)

    def __init__(self, ns: int, offset: int = 0) -> None:
        super().__init__(ns)
        self.offset = offset


class TypeValue:
    """A type as a value: `type(1) == int`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Optional:
    """A value that may be absent; `NONE` is the absent one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


NONE: Final = Optional(None)


class BoolKey:
    """`true` or `false` as a map key, which to Python would be 1 or 0."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


class IdentityKey:
    """A value as a map key that nothing else is equal to, as Go has it for lists, maps and optionals."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_TRUE_KEY, _FALSE_KEY = BoolKey(True), BoolKey(False)


class DeviceMap(dict[str, Any]):
    """`device.attributes` or `device.capacity`: an unknown domain reads as an empty map."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    dict: "map",
    DeviceMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
}
# What Go prints for the type of such a value; part of one error message.
_GO_NAMES = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}
NUMBERS = (int, Uint, float)
_EXTENSIONS: set[type] = {Quantity, Semver}


def register(kind: type, name: str) -> None:
    """Make a library's own value class known, under its CEL type name. Such values compare only with their like."""
    _KINDS[kind] = name
    _EXTENSIONS.add(kind)


def kind_of(value: Any) -> str:
    """The CEL name of a value's type."""
    return _KINDS[type(value)]


def type_name(value: Any) -> str:
    """The Go name of a value's type, as error messages have it."""
    return _GO_NAMES.get(kind_of(value), kind_of(value))


def no_overload(function: str = "", *args: Any) -> EvaluationError:
    """The error of a function that does not take these values."""
    if not function:
        return EvaluationError("no such overload")
    signature = f"({', '.join(map(kind_of, args))})" if args else ""
    return EvaluationError(f"no such overload: {function}{signature}")


def shown(value: Any) -> str:
    """A value as error messages show it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case TypeValue():
            return value.name
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
        case BoolKey():
            return shown(value.value)
    return str(value)


def map_key(value: Any) -> Any:
    """A CEL value as a key that Python tells apart."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return _TRUE_KEY if value else _FALSE_KEY
    if kind in (tuple, dict, DeviceMap, Optional):
        return IdentityKey(value)
    return value


def original_key(key: Any) -> Any:
    """The CEL value behind a key of a map."""
    return key.value if type(key) is BoolKey or type(key) is IdentityKey else key


_MISSING: Final = object()


def find(mapping: dict[Any, Any], key: Any, default: Any) -> Any:
    """The entry of a map, found across numeric types if the key is a whole number; else the default."""
    kind = type(key)
    if kind in (tuple, dict, DeviceMap, Optional):
        return default
    return mapping.get(map_key(key), default)


def equal(left: Any, right: Any) -> bool:
    """CEL `==`. Raises EvaluationError for an extension value against a value of another type."""
    if left is None or right is None:
        return left is right
    kind, other = type(left), type(right)
    if kind in NUMBERS:
        return other in NUMBERS and _equal_numbers(left, right)
    if kind in _EXTENSIONS:
        if other is not kind:
            raise no_overload()
        return bool(left == right)
    if kind is tuple:
        return other is tuple and len(left) == len(right) and all(map(_elements_equal, left, right))
    if kind is dict or kind is DeviceMap:
        return other in (dict, DeviceMap) and _equal_maps(left, right)
    if kind is Optional:
        if other is not Optional or left is NONE or right is NONE:
            return left is right
        return equal(left.value, right.value)
    return kind is other and bool(left == right)


def _elements_equal(left: Any, right: Any) -> bool:
    # As in cel-go, elements that cannot be compared do not make two lists or maps unequal.
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _equal_maps(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other = right.get(key, _MISSING)
        if other is _MISSING or not _elements_equal(value, other):
            return False
    return True


def _equal_numbers(left: Any, right: Any) -> bool:
    if type(left) is float or type(right) is float:
        # A whole number is first rounded to a double, as in cel-go.
        return float(left) == float(right)
    return bool(left == right)


_SELF_ORDERED = (str, bytes, bool)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises EvaluationError for values without an order, or of different types, and for NaN."""
    kind, other = type(left), type(right)
    if kind in NUMBERS and other in NUMBERS:
        return _compare_numbers(left, right)
    if kind is not other:
        raise no_overload()
    if kind in _SELF_ORDERED:
        return int(left > right) - int(left < right)
    if kind is Duration or kind is Timestamp:
        return int(left.ns > right.ns) - int(left.ns < right.ns)
    raise no_overload()


def _compare_numbers(left: Any, right: Any) -> int:
    if type(left) is float or type(right) is float:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        # Beyond the integer's range the double decides exactly; within it the integer is rounded to a double.
        for number, double, sign in ((left, right, 1), (right, left, -1)):
            if type(double) is float and type(number) is not float:
                low, high = (0, UINT64_MAX) if type(number) is Uint else (INT64_MIN, INT64_MAX)
                # The greatest integer is itself rounded up, so the double just beyond it is within.
                if double < float(low):
                    return sign
                if double > float(high):
                    return -sign
        left, right = float(left), float(right)
    return int(left > right) - int(left < right)
