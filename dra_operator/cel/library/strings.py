"""Functions of texts: the standard ones and cel-go's strings extension, version 2.

Positions count characters. Source: the CEL specification; cel-go `ext/strings`.
"""

from __future__ import annotations

from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.library import formatting
from dra_operator.cel.operators import MAX_TEXT, too_large
from dra_operator.cel.values import INT64_MAX, no_overload, shown

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
# Unicode White_Space, which Python's strip() exceeds by four control characters.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def declare(functions: Registry) -> None:
    """Add the text functions."""
    member = functions.member
    member("contains", "contains_string", "string, string -> bool", lambda text, part: _text(part) in _text(text))
    member("endsWith", "ends_with_string", "string, string -> bool", lambda text, end: _text(text).endswith(_text(end)))
    member(
        "startsWith",
        "starts_with_string",
        "string, string -> bool",
        lambda text, start: _text(text).startswith(_text(start)),
    )
    for name in ("contains", "endsWith", "startsWith"):
        functions.unguarded(name)
    member("charAt", "string_char_at_int", "string, int -> string", char_at)
    member("indexOf", "string_index_of_string", "string, string -> int", index_of)
    member("indexOf", "string_index_of_string_int", "string, string, int -> int", index_of)
    member("lastIndexOf", "string_last_index_of_string", "string, string -> int", last_index_of)
    member("lastIndexOf", "string_last_index_of_string_int", "string, string, int -> int", last_index_of)
    member("lowerAscii", "string_lower_ascii", "string -> string", lambda text: text.translate(_LOWER))
    member("upperAscii", "string_upper_ascii", "string -> string", lambda text: text.translate(_UPPER))
    member("replace", "string_replace_string_string", "string, string, string -> string", replace)
    member("replace", "string_replace_string_string_int", "string, string, string, int -> string", replace)
    member("split", "string_split_string", "string, string -> list(string)", split)
    member("split", "string_split_string_int", "string, string, int -> list(string)", split)
    member("substring", "string_substring_int", "string, int -> string", substring)
    member("substring", "string_substring_int_int", "string, int, int -> string", substring)
    member("trim", "string_trim", "string -> string", lambda text: text.strip(_SPACE))
    member("format", "string_format", "string, list(dyn) -> string", formatting.format_text)
    member("join", "list_join", "list(string) -> string", join)
    member("join", "list_join_string", "list(string), string -> string", join)
    functions.plain("strings.quote", "strings_quote", "string -> string", quote)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise no_overload()


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """The character at an index; "" just behind the end."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """Where a part starts first, from an offset on; -1 if nowhere."""
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """Where a part starts last, at an offset or before; -1 if nowhere."""
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """All, or the first `count`, occurrences replaced."""
    found = text.count(old)
    if count >= 0:
        found = min(found, count)
    if len(text) + found * (len(new) - len(old)) > MAX_TEXT:
        raise too_large()
    return text.replace(old, new, found)


def split(text: str, separator: str, count: int = -1) -> tuple[str, ...]:
    """The parts between separators, at most `count` of them; an empty separator splits into characters."""
    if count == 0:
        return ()
    limit = count if 0 < count < INT64_MAX else -1
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if 0 < limit < len(text):
        return (*text[: limit - 1], text[limit - 1 :])
    return tuple(text)


def substring(text: str, start: int, end: int | None = None) -> str:
    """The characters from start up to end."""
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if index is not None and not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def join(parts: tuple[Any, ...], separator: str = "") -> str:
    """The texts of a list in a row."""
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {shown(part)}")
    if sum(map(len, parts)) + len(separator) * len(parts) > MAX_TEXT:
        raise too_large()
    return separator.join(parts)


def quote(text: str) -> str:
    """A text in quotes, with escapes, safe to print."""
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'
