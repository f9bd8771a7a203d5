"""Paths of messages, found again in the objects they are about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dra_operator.api.fieldpath import FieldPath, parse_path


def find_path(value: Any, text: str) -> FieldPath:
    """A path in text, found again in the object: keys may hold any character."""
    found: list[str | int] = []
    rest = text
    while rest:
        rest = rest.removeprefix(".")
        if isinstance(value, Mapping):
            bracketed = rest.startswith("[")
            body = rest[1:] if bracketed else rest
            keys = sorted((str(key) for key in value), key=len, reverse=True)
            key = next((key for key in keys if body.startswith(key) and _ends(body[len(key) :], bracketed)), None)
            if key is None:
                return (*found, *parse_path(rest))
            found.append(key)
            value = value.get(key)
            rest = body[len(key) :].removeprefix("]" if bracketed else "")
        elif isinstance(value, list) and (match := re.match(r"\[([0-9]+)\]", rest)):
            found.append(int(match[1]))
            value = value[int(match[1])] if int(match[1]) < len(value) else None
            rest = rest[match.end() :]
        else:
            return (*found, *parse_path(rest))
    return tuple(found)


def _ends(rest: str, bracketed: bool) -> bool:
    return rest.startswith("]") if bracketed else not rest or rest[0] in ".["


def value_at(value: Any, path: FieldPath) -> Any:
    """The value at a path; None where there is none."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
