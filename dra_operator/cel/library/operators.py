"""The signatures of the operators. What they do to values is in `cel.operators`; the compiler binds the two."""

from __future__ import annotations

from dra_operator.cel import operators
from dra_operator.cel.declarations import Registry

_NUMERIC = ("int64", "int"), ("uint64", "uint"), ("double", "double")


def declare(functions: Registry) -> None:
    """Add every operator under cel-go's names."""
    plain = functions.plain
    plain("_?_:_", "conditional", "bool, A, A -> A")
    plain("_&&_", "logical_and", "bool, bool -> bool")
    plain("_||_", "logical_or", "bool, bool -> bool")
    plain("!_", "logical_not", "bool -> bool")
    plain("@not_strictly_false", "not_strictly_false", "bool -> bool")
    plain("_==_", "equals", "A, A -> bool")
    plain("_!=_", "not_equals", "A, A -> bool")
    for name, verb in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        _declare_order(functions, name, verb)
    # The order matters where an argument's type is open: the first overload that fits binds it.
    for suffix, kind in (
        *(("bytes", "bytes"), ("double", "double"), ("duration_duration", "duration")),
        *(("int64", "int"), ("list", "list(A)"), ("string", "string"), ("uint64", "uint")),
    ):
        plain("_+_", f"add_{suffix}", f"{kind}, {kind} -> {kind}")
        if suffix == "duration_duration":
            plain("_+_", "add_duration_timestamp", "duration, timestamp -> timestamp")
            plain("_+_", "add_timestamp_duration", "timestamp, duration -> timestamp")
    plain("_-_", "subtract_double", "double, double -> double")
    plain("_-_", "subtract_duration_duration", "duration, duration -> duration")
    plain("_-_", "subtract_int64", "int, int -> int")
    plain("_-_", "subtract_timestamp_duration", "timestamp, duration -> timestamp")
    plain("_-_", "subtract_timestamp_timestamp", "timestamp, timestamp -> duration")
    plain("_-_", "subtract_uint64", "uint, uint -> uint")
    for suffix, kind in (("double", "double"), ("int64", "int"), ("uint64", "uint")):
        plain("_*_", f"multiply_{suffix}", f"{kind}, {kind} -> {kind}")
        plain("_/_", f"divide_{suffix}", f"{kind}, {kind} -> {kind}")
    for suffix, kind in (("int64", "int"), ("uint64", "uint")):
        plain("_%_", f"modulo_{suffix}", f"{kind}, {kind} -> {kind}")
    plain("-_", "negate_double", "double -> double")
    plain("-_", "negate_int64", "int -> int")
    plain("_[_]", "index_list", "list(A), int -> A")
    plain("_[_]", "index_map", "map(A, B), A -> B")
    plain("_[_]", "optional_list_index_int", "optional(list(V)), int -> optional(V)")
    plain("_[_]", "optional_map_index_value", "optional(map(K, V)), K -> optional(V)")
    plain("_[?_]", "list_optindex_optional_int", "list(V), int -> optional(V)")
    plain("_[?_]", "optional_list_optindex_optional_int", "optional(list(V)), int -> optional(V)")
    plain("_[?_]", "map_optindex_optional_value", "map(K, V), K -> optional(V)")
    plain("_[?_]", "optional_map_optindex_optional_value", "optional(map(K, V)), K -> optional(V)")
    plain("@in", "in_list", "A, list(A) -> bool")
    plain("@in", "in_map", "A, map(A, B) -> bool")
    functions.shared("_+_", operators.add)
    functions.shared("_-_", operators.subtract)
    functions.shared("_*_", operators.multiply)
    functions.shared("_/_", operators.divide)
    functions.shared("_%_", operators.modulo)
    functions.shared("-_", operators.negate)
    functions.shared("@in", operators.contains)


def _declare_order(functions: Registry, name: str, verb: str) -> None:
    functions.plain(name, f"{verb}_bool", "bool, bool -> bool")
    for left_suffix, left in _NUMERIC:
        functions.plain(name, f"{verb}_{left_suffix}", f"{left}, {left} -> bool")
        for right_suffix, right in _NUMERIC:
            if left != right:
                functions.plain(name, f"{verb}_{left_suffix}_{right_suffix}", f"{left}, {right} -> bool")
    for kind in ("string", "bytes", "timestamp", "duration"):
        functions.plain(name, f"{verb}_{kind}", f"{kind}, {kind} -> bool")
    symbol = name.strip("_")
    functions.shared(name, lambda left, right: operators.ordered(symbol, left, right))
