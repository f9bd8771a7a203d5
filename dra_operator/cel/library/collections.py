"""Functions of lists and sets: cel-go's sets and lists v3, and the Kubernetes list library with `includes`.

Source: cel-go `ext/lists`, `ext/sets`; k8s.io/apiserver `pkg/cel/library/lists`.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.operators import MAX_ELEMENTS, add, too_large
from dra_operator.cel.values import Duration, Uint, compare, equal, no_overload

_SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_LONGEST_RANGE = 1_000_000


def declare(functions: Registry) -> None:
    """Add the list and set functions, without `includes`."""
    plain, member = functions.plain, functions.member
    member("slice", "list_slice", "list(T), int, int -> list(T)", slice_)
    member("flatten", "list_flatten", "list(list(T)) -> list(T)", flatten)
    member("flatten", "list_flatten_int", "list(dyn), int -> list(dyn)", flatten)
    functions.unguarded("flatten")
    for kind in _SORTED:
        member("sort", f"list_{kind}_sort", f"list({kind}) -> list({kind})")
        member("@sortByAssociatedKeys", f"list_{kind}_sortByAssociatedKeys", f"list(T), list({kind}) -> list(T)")
    functions.shared("sort", lambda values: sort_by(values, values))
    functions.shared("@sortByAssociatedKeys", sort_by)
    plain("lists.range", "lists_range", "int -> list(int)", range_)
    member("reverse", "list_reverse", "list(T) -> list(T)", lambda values: values[::-1])
    member("distinct", "list_distinct", "list(T) -> list(T)", distinct)
    for kind in _SORTED:
        member("isSorted", f"list_{kind}_is_sorted_bool", f"list({kind}) -> bool", is_sorted)
        member("max", f"list_{kind}_max_{kind}", f"list({kind}) -> {kind}", lambda values: extreme("max", values, -1))
        member("min", f"list_{kind}_min_{kind}", f"list({kind}) -> {kind}", lambda values: extreme("min", values, 1))
    for kind, zero in _ZEROS.items():
        member("sum", f"list_{kind}_sum_{kind}", f"list({kind}) -> {kind}", _adder(zero))
    member("indexOf", "list_a_index_of_int", "list(A), A -> int", first_index)
    member("lastIndexOf", "list_a_last_index_of_int", "list(A), A -> int", last_index)
    plain("sets.contains", "list_sets_contains_list", "list(T), list(T) -> bool", contains_all)
    plain("sets.equivalent", "list_sets_equivalent_list", "list(T), list(T) -> bool", equivalent)
    plain("sets.intersects", "list_sets_intersects_list", "list(T), list(T) -> bool", intersects)
    plain("cel.@mapInsert", "@mapInsert_map_key_value", "map(K, V), K, V -> map(K, V)")
    plain("cel.@mapInsert", "@mapInsert_map_map", "map(K, V), map(K, V) -> map(K, V)")


def declare_includes(functions: Registry) -> None:
    """Add `includes`, which takes a list attribute or a single value alike."""
    functions.member("includes", "list_includes_dyn_dyn", "dyn, dyn -> bool", includes)


def _matches(left: Any, right: Any) -> bool:
    """Equality where values that cannot be compared are just different."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def includes(target: Any, item: Any) -> bool:
    """Whether a list has the item, or a single value is it."""
    if type(target) is tuple:
        return any(_matches(element, item) for element in target)
    return _matches(target, item)


def slice_(values: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
    """The elements from start up to end."""
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def flatten(values: Any, depth: Any = 1) -> tuple[Any, ...]:
    """Lists inside the list replaced by their elements, so many levels deep."""
    if type(values) is not tuple or type(depth) is not int:
        raise no_overload("flatten", values)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: tuple[Any, ...] = values
    while depth and any(type(value) is tuple for value in flat):
        if sum(len(value) if type(value) is tuple else 1 for value in flat) > MAX_ELEMENTS:
            raise too_large()
        flat = tuple(part for value in flat for part in (value if type(value) is tuple else (value,)))
        depth -= 1
    return flat


def range_(count: int) -> tuple[int, ...]:
    """The whole numbers from 0 up to count."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})")
    return tuple(range(count))


def sort_by(values: tuple[Any, ...], keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values in the order of their keys."""
    if type(values) is not tuple or type(keys) is not tuple:
        raise no_overload("sort")
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(keys)} elements respectively"
        )
    if keys and not _comparable(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    doubles = bool(keys) and type(keys[0]) is float

    def by_key(left: int, right: int) -> int:
        if doubles:
            # NaN has no order, and is left where it stands.
            return int(keys[left] > keys[right]) - int(keys[left] < keys[right])
        return compare(keys[left], keys[right])

    order = sorted(range(len(keys)), key=cmp_to_key(by_key))
    return tuple(values[index] for index in order)


def _comparable(value: Any) -> bool:
    try:
        compare(value, value)
    except EvaluationError:
        return type(value) is float
    return True


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each value once, in order of first appearance."""
    kept: list[Any] = []
    for value in values:
        if not any(_matches(value, other) for other in kept):
            kept.append(value)
    return tuple(kept)


def is_sorted(values: tuple[Any, ...]) -> bool:
    """Whether no element is greater than the next."""
    for left, right in pairwise(values):
        try:
            if compare(left, right) > 0:
                return False
        except EvaluationError:
            continue
    return True


def extreme(name: str, values: tuple[Any, ...], worse: int) -> Any:
    """The first of the greatest or least elements."""
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    best = values[0]
    for value in values[1:]:
        try:
            if compare(best, value) == worse:
                best = value
        except EvaluationError:
            continue
    return best


def _adder(zero: Any) -> Any:
    def total(values: tuple[Any, ...]) -> Any:
        result = zero
        for value in values:
            result = add(result, value)
        return result

    return total


def first_index(values: tuple[Any, ...], item: Any) -> int:
    """Where an item is first; -1 if nowhere."""
    return next((index for index, value in enumerate(values) if _matches(value, item)), -1)


def last_index(values: tuple[Any, ...], item: Any) -> int:
    """Where an item is last; -1 if nowhere."""
    return next((index for index in range(len(values) - 1, -1, -1) if _matches(values[index], item)), -1)


def contains_all(values: tuple[Any, ...], part: tuple[Any, ...]) -> bool:
    """Whether every element of `part` is among the values."""
    return all(any(_matches(item, value) for value in values) for item in part)


def equivalent(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether each has all elements of the other."""
    return contains_all(left, right) and contains_all(right, left)


def intersects(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether they share an element."""
    return any(any(_matches(item, other) for other in right) for item in left)
