"""Copying and normalising JSON values.

Objects in the store are never changed in place: a writer copies, changes the copy and stores that. Knows nothing of kinds.
"""

from __future__ import annotations

from typing import Any

import orjson

Object = dict[str, Any]


def clone(value: Any) -> Any:
    """A deep copy of a JSON value; many times faster than `copy.deepcopy`, which must expect anything."""
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        return _clone(value)


def _clone(value: Any) -> Any:
    """For what orjson cannot write: integers beyond 64 bits."""
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clone(item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """A deep copy without null fields: JSON null means "not set" to the API server."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    return value


def without_empties(value: Any) -> Any:
    """A deep copy without nulls and empty lists, as typed objects are written (`omitempty`).

    Empty maps stay: an empty selector or struct has a meaning.
    """
    if isinstance(value, dict):
        return {key: without_empties(item) for key, item in value.items() if item is not None and item != []}
    if isinstance(value, list | tuple):
        return [without_empties(item) for item in value]
    return value


def dig(value: Any, *path: str) -> Any:
    """The value under nested fields, None where one is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
