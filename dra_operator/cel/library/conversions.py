"""Conversions between types, `size`, `type` and `dyn`.

Source: the CEL specification; texts of numbers as Go prints them.
"""

from __future__ import annotations

import math
import re
from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.library.decimals import double_text
from dra_operator.cel.library.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from dra_operator.cel.operators import integer, unsigned
from dra_operator.cel.values import (
    INT64_MAX,
    INT64_MIN,
    DeviceMap,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    kind_of,
    no_overload,
)

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
# Underscores between digits, as Go writes large numbers.
_GROUPING = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
# Enough digits for any double; longer texts are not numbers anyone writes, and int() refuses them slowly.
_LONGEST_NUMBER = 400


def declare(functions: Registry) -> None:
    """Add the conversions of the standard library."""
    plain = functions.plain
    plain("bool", "bool_to_bool", "bool -> bool", _same)
    plain("bool", "string_to_bool", "string -> bool", text_to_bool)
    plain("bytes", "bytes_to_bytes", "bytes -> bytes", _same)
    plain("bytes", "string_to_bytes", "string -> bytes", encode)
    plain("double", "double_to_double", "double -> double", _same)
    plain("double", "int64_to_double", "int -> double", float)
    plain("double", "string_to_double", "string -> double", text_to_double)
    plain("double", "uint64_to_double", "uint -> double", float)
    plain("duration", "duration_to_duration", "duration -> duration", _same)
    plain("duration", "string_to_duration", "string -> duration", parse_duration)
    plain("dyn", "to_dyn", "A -> dyn", _same)
    plain("int", "int64_to_int64", "int -> int", _same)
    plain("int", "double_to_int64", "double -> int", double_to_int)
    plain("int", "duration_to_int64", "duration -> int", lambda value: value.ns)
    plain("int", "string_to_int64", "string -> int", text_to_int)
    plain("int", "timestamp_to_int64", "timestamp -> int", lambda value: value.ns // 10**9)
    plain("int", "uint64_to_int64", "uint -> int", lambda value: integer(int(value)))
    plain("string", "string_to_string", "string -> string", _same)
    for kind, converted in (
        *(("bool", "bool"), ("bytes", "bytes"), ("double", "double"), ("duration", "duration")),
        *(("int64", "int"), ("timestamp", "timestamp"), ("uint64", "uint")),
    ):
        plain("string", f"{kind}_to_string", f"{converted} -> string", to_text)
    plain("timestamp", "timestamp_to_timestamp", "timestamp -> timestamp", _same)
    plain("timestamp", "int64_to_timestamp", "int -> timestamp", _seconds_to_timestamp)
    plain("timestamp", "string_to_timestamp", "string -> timestamp", parse_timestamp)
    plain("uint", "uint64_to_uint64", "uint -> uint", _same)
    plain("uint", "double_to_uint64", "double -> uint", double_to_uint)
    plain("uint", "int64_to_uint64", "int -> uint", unsigned)
    plain("uint", "string_to_uint64", "string -> uint", text_to_uint)
    plain("type", "type", "A -> type(A)")
    functions.shared("type", lambda value: TypeValue(kind_of(value)))
    for kind in ("bytes", "list(A)", "map(A, B)", "string"):
        name = kind.partition("(")[0]
        plain("size", f"size_{name}", f"{kind} -> int")
        functions.member("size", f"{name}_size", f"{kind} -> int")
    functions.shared("size", size)


def _same(value: Any) -> Any:
    return value


def size(value: Any) -> int:
    """The number of characters, bytes, elements or entries."""
    if type(value) in (str, bytes, tuple, dict, DeviceMap):
        return len(value)
    raise no_overload("size")


def _unconvertible(value: Any, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{kind_of(value)}' to '{target}'")


def text_to_bool(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _unconvertible(text, "bool")


def text_to_int(text: str) -> int:
    if len(text) <= _LONGEST_NUMBER and _WHOLE.fullmatch(text) and INT64_MIN <= int(text) <= INT64_MAX:
        return int(text)
    raise _unconvertible(text, "int")


def text_to_uint(text: str) -> Uint:
    if len(text) <= _LONGEST_NUMBER and _WHOLE.fullmatch(text) and text[0] not in "+-" and int(text) < 2**64:
        return Uint(text)
    raise _unconvertible(text, "uint")


def text_to_double(text: str) -> float:
    """A double as Go reads it: decimal, hexadecimal with exponent, inf, infinity, nan."""
    if len(text) <= _LONGEST_NUMBER:
        text = _GROUPING.sub("", text)
        if _SPECIAL.fullmatch(text):
            return float(text)
        value = math.inf
        if _DOUBLE.fullmatch(text):
            value = float(text)
        elif _HEX_DOUBLE.fullmatch(text):
            try:
                value = float.fromhex(text)
            except OverflowError:
                value = math.inf
        if not math.isinf(value):
            return value
    raise _unconvertible(text, "double")


def encode(text: str) -> bytes:
    """A text as UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def double_to_int(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _seconds_to_timestamp(seconds: int) -> Timestamp:
    if not -62135596800 <= seconds <= 253402300799:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * 10**9)


def to_text(value: Any) -> str:
    """`string(value)`."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case TypeValue():
            return value.name
        case None:
            return "null"
    raise _unconvertible(value, "string")
