"""Changing nested values without touching the originals: what is not changed is shared, so that its comments stay with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dra_operator.api.errors import described
from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.remarks import Untranslatable

Object = Mapping[str, Any]


def dig(value: Any, *path: str) -> Any:
    """The value under nested fields, None where one is missing."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def changed(value: Object, **fields: Any) -> dict[str, Any]:
    """A copy with some fields set, in the place they had; None takes a field out."""
    merged = {**value, **fields}
    return {name: item for name, item in merged.items() if not (name in fields and item is None)}


def with_field(value: Object, name: str, item: Any, before: str) -> dict[str, Any]:
    """A copy with a new field, put before another one."""
    result: dict[str, Any] = {}
    for key, old in value.items():
        if key == before:
            result[name] = item
        result[key] = old
    return {**result, name: item}


def replaced(value: Any, path: FieldPath, new: Any) -> Any:
    """A copy in which the field at `path` is `new`; the containers on the way are copied, nothing else."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [replaced(item, rest, new) if index == step else item for index, item in enumerate(value)]
    return {**value, step: replaced(value.get(step), rest, new)}


def mapping(value: Any, path: FieldPath) -> Object:
    """`value` if it is a mapping (nothing counts as an empty one). Raises Untranslatable."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Untranslatable(path, f"expected a mapping, found {described(value)}")
    return value


def items(value: Any, path: FieldPath) -> Sequence[Any]:
    """`value` if it is a list (nothing counts as an empty one). Raises Untranslatable."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Untranslatable(path, f"expected a list, found {described(value)}")
    return value


def mapped(value: Any, path: FieldPath, change: Callable[[Object, FieldPath], Any]) -> Any:
    """A list of mappings, each changed. The list itself where nothing was."""
    before = items(value, path)
    after = [change(mapping(item, (*path, index)), (*path, index)) for index, item in enumerate(before)]
    return value if all(new is old for new, old in zip(after, before, strict=True)) else after


def only(value: Object, path: FieldPath, *known: str) -> None:
    """Refuse fields that have no translation."""
    for name in value:
        if name not in known:
            raise Untranslatable(
                (*path, name), f"the field `{name}` has no counterpart in v1; remove it, or say it another way"
            )


def text(value: Any, path: FieldPath, what: str) -> str:
    """A text that must be there."""
    if not isinstance(value, str) or not value:
        raise Untranslatable(
            path, f"{what} is missing" if value in (None, "") else f"{what} is {described(value)}, not text"
        )
    return str(value)


def mappings_below(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Object]]:
    """All mappings in a value with their paths, outermost first."""
    if isinstance(value, Mapping):
        yield path, value
        for name, item in value.items():
            yield from mappings_below(item, (*path, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from mappings_below(item, (*path, index))
