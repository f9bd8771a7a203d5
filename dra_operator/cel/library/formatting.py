"""`format`: "%s of %d".format(["a", 1]), as cel-go's strings extension defines it up to version 3.

Source: cel-go `ext/formatting`, locale en_US: %f groups thousands, %e writes a power of ten.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.library.conversions import to_text
from dra_operator.cel.operators import MAX_TEXT, too_large
from dra_operator.cel.values import DeviceMap, Duration, Timestamp, TypeValue, Uint, kind_of, original_key

__all__ = ["CLAUSES", "clauses", "format_text"]

_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.?))", re.DOTALL)
# Beyond this many digits of precision Go's formatter gives up, too.
_MOST_DIGITS = 1_000
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL_TEXTS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


class FormatError(EvaluationError):
    """A format string, or an argument of one, does not work."""


def clauses(template: str) -> list[tuple[str, str | None, str]]:
    """(text before, precision, letter) of each clause; the last entry is the rest, with letter "". Raises FormatError."""
    found, end, before = [], 0, ""
    for match in _CLAUSE.finditer(template):
        before += template[end : match.start()]
        end = match.end()
        if match[1]:
            before += "%"
            continue
        found.append((before, match[2], match[3]))
        before = ""
    found.append((before + template[end:], None, ""))
    return found


def format_text(template: str, args: tuple[Any, ...]) -> str:
    """The template with its clauses replaced. Raises EvaluationError."""
    *parts, (rest, _, _) = clauses(template)
    out: list[str] = []
    total = len(rest)
    for index, (before, precision, letter) in enumerate(parts):
        if index >= len(args):
            raise FormatError(f"index {index} out of range")
        check_clause(precision, letter)
        try:
            filled = CLAUSES[letter](args[index], None if precision is None else int(precision))
        except FormatError as error:
            raise FormatError(f"error during formatting: {error.args[0]}") from None
        out += before, filled
        total += len(before) + len(filled)
        if total > MAX_TEXT:
            raise too_large()
    return "".join(out) + rest


def check_clause(precision: str | None, letter: str) -> None:
    """Raise FormatError for a clause that does not exist."""
    if not letter:
        raise FormatError("unexpected end of string")
    if precision is not None and (not precision or len(precision) > 9 or int(precision) > _MOST_DIGITS):
        raise FormatError("could not parse formatting clause: error while parsing precision: invalid precision")
    if letter not in CLAUSES:
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')


def go_quote(text: str) -> str:
    """A text as Go's %q prints it."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char.isprintable():
            out.append(char)
        elif char in _ESCAPES:
            out.append(_ESCAPES[char])
        else:
            code = ord(char)
            out.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def as_string(value: Any, _: int | None = None) -> str:
    """%s"""
    match value:
        case tuple():
            return "[" + ", ".join(map(_element, value)) + "]"
        case DeviceMap() | dict():
            return _map_text(value)
        case None:
            return "null"
        case bool() | int() | float() | str() | bytes() | Duration() | Timestamp() | TypeValue():
            return to_text(value)
    raise FormatError(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        f"and timestamps, was given {kind_of(value)}"
    )


def _element(value: Any) -> str:
    """A value inside a list or map, which reads as CEL source."""
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return "b" + go_quote(to_text(value))
        case bool() | None | TypeValue():
            return as_string(value)
        case float():
            text = grouped(value, 6, grouping=False)
            return go_quote(text) if not math.isfinite(value) else text
        case Timestamp():
            return f"timestamp({go_quote(to_text(value))})"
        case Duration():
            return f"duration({go_quote(to_text(value))})"
        case int() | tuple() | dict():
            return as_string(value)
    raise FormatError(f"no formatting function for {kind_of(value)}")


def _map_text(value: dict[Any, Any]) -> str:
    pairs = []
    for key, entry in value.items():
        original = original_key(key)
        if not isinstance(original, str | bool | int):
            raise FormatError(f"no formatting function for map key of type {kind_of(original)}")
        pairs.append((_element(original), _element(entry)))
    return "{" + ", ".join(f"{key}:{entry}" for key, entry in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _decimal(value: Any, _: int | None) -> str:
    if type(value) is int or type(value) is Uint:
        return str(int(value))
    raise FormatError(f"decimal clause can only be used on integers, was given {kind_of(value)}")


def _double(value: Any, clause: str) -> float:
    if type(value) is float:
        return value or 0.0  # negative zero prints without its sign
    if type(value) is str and value in _SPECIAL_TEXTS:
        return _SPECIAL_TEXTS[value]
    raise FormatError(f"{clause} clause can only be used on doubles, was given {kind_of(value)}")


def _fixed(value: Any, precision: int | None) -> str:
    return grouped(_double(value, "fixed-point"), 6 if precision is None else precision)


def grouped(value: float, precision: int, *, grouping: bool = True) -> str:
    """Fixed point, by default with thousands separated; not-a-number and infinities by symbol."""
    if not math.isfinite(value):
        if not grouping:
            return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return f"{value:{',' if grouping else ''}.{precision}f}"


def _scientific(value: Any, precision: int | None) -> str:
    # cel-go hands the precision on as a width; the digits are always six.
    width = 6 if precision is None else precision
    number = _double(value, "scientific")
    if not math.isfinite(number):
        return grouped(number, 0).rjust(width)
    mantissa, _, power = f"{number:.6e}".partition("e")
    exponent = f"{int(power):03d}" if int(power) < 0 else f"{int(power):02d}"
    return f"{mantissa}×10{exponent.translate(_SUPERSCRIPT)}".rjust(width)


def _binary(value: Any, _: int | None) -> str:
    if type(value) in (int, Uint, bool):
        return f"{int(value):b}"
    raise FormatError(f"only integers and bools can be formatted as binary, was given {kind_of(value)}")


def _hex(value: Any, _: int | None) -> str:
    if type(value) is int or type(value) is Uint:
        return f"{int(value):x}"
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass").hex()
    if type(value) is bytes:
        return value.hex()
    raise FormatError(f"only integers, byte buffers, and strings can be formatted as hex, was given {kind_of(value)}")


def _octal(value: Any, _: int | None) -> str:
    if type(value) is int or type(value) is Uint:
        return f"{int(value):o}"
    raise FormatError(f"octal clause can only be used on integers, was given {kind_of(value)}")


CLAUSES: dict[str, Callable[[Any, int | None], str]] = {
    "s": as_string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
    "o": _octal,
}
