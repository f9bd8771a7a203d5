"""Regular expressions, by RE2: `matches`, `find`, `findAll`. No pattern takes more than linear time.

Source: the CEL specification; k8s.io/apiserver `pkg/cel/library/regex`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.values import no_overload

__all__ = ["compiled", "declare"]

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


def declare(functions: Registry) -> None:
    """Add the regular expression functions."""
    functions.plain("matches", "matches", "string, string -> bool")
    functions.member("matches", "matches_string", "string, string -> bool")
    functions.shared("matches", matches)
    functions.member("find", "string_find_string", "string, string -> string", find)
    functions.member("findAll", "string_find_all_string", "string, string -> list(string)", find_all)
    functions.member("findAll", "string_find_all_string_int", "string, string, int -> list(string)", find_all)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """A pattern ready to search with. Raises EvaluationError if it is none."""
    try:
        return re2.compile(pattern, options=_OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise EvaluationError(f"error parsing regexp: {shown}") from None
    except UnicodeEncodeError:
        raise EvaluationError("error parsing regexp: invalid UTF-8") from None


def _found(pattern: str, text: str) -> Iterator[Any]:
    """The matches from left to right, each as RE2 gives it."""
    try:
        yield from compiled(pattern).finditer(text)
    except UnicodeEncodeError:
        raise EvaluationError("text is not valid Unicode") from None


def matches(text: Any, pattern: Any) -> bool:
    """Whether the pattern is found anywhere in the text."""
    if type(text) is not str or type(pattern) is not str:
        raise no_overload("matches")
    return next(_found(pattern, text), None) is not None


def find(text: str, pattern: str) -> str:
    """The first match, or ""."""
    match = next(_found(pattern, text), None)
    return match.group() if match else ""


def find_all(text: str, pattern: str, count: int = -1) -> tuple[str, ...]:
    """The matches from left to right, at most `count` of them; an empty match right behind another does not count."""
    compiled(pattern)
    found: list[str] = []
    last_end = -1
    if count == 0:
        return ()
    for match in _found(pattern, text):
        start, end = match.span()
        if start != end or start != last_end:
            found.append(match.group())
        if len(found) == count:
            break
        last_end = end
    return tuple(found)
