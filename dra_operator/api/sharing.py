"""One object in memory for equal values that many API objects carry: the labels of a ReplicaSet's pods, the attributes of a
model's devices, node names. Each JSON document is decoded by itself, so that without this a cluster of 5,000 nodes holds the
text "Running" twenty thousand times.

What is shared must never be changed in place. Nothing here is needed for correctness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

import orjson

H = TypeVar("H", bound=Hashable)
T = TypeVar("T")
EMPTY: Mapping[str, str] = MappingProxyType({})

#: Values remembered of each sort. When there are more, they are all forgotten: what is in use stays, new ones are shared anew.
LIMIT = 16_384


def shared_text(value: Any) -> Any:
    """The same text; anything else unchanged. Forgotten by itself when nobody has it any more.

    Not for what a single object is called: the interpreter's table grows with every text that comes and goes before it is made anew.
    """
    return sys.intern(value) if value.__class__ is str else value


def required_text(data: Mapping[str, Any], name: str) -> Any:
    """The shared text of a field that must be there. Raises KeyError; null is nothing there."""
    value = data[name]
    if value is None:
        raise KeyError(name)
    return shared_text(value)


class Sharing:
    """Values by something hashable that they are made of."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for an equal `key` before, else `make()`. Keys that differ only in type (1, true) are equal: leave them out."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= LIMIT:
                self._known.clear()
            known = self._known[key] = make()
        return cast(T, known)


_VALUES = Sharing()
_TEXTS = Sharing()


def packed(value: Any) -> bytes:
    """JSON text to be kept, a fifth of the memory of what it is decoded to. Raises TypeError where it is no JSON."""
    return bytes(memoryview(orjson.dumps(value)))  # a copy: orjson's own answer keeps the room its buffer had grown to


def shared(value: H) -> H:
    """An equal value seen before, or this one. For tuples and frozen dataclasses of texts."""
    return _VALUES.get(value, lambda: value) if value else value


def shared_texts(data: Any) -> Mapping[str, str]:
    """An equal map of texts seen before, or this one; maps with other values unchanged. Nothing: the empty map."""
    if not data:
        return EMPTY
    if not isinstance(data, dict) or any(value.__class__ is not str for value in data.values()):
        return cast(Mapping[str, str], data)
    return _TEXTS.get(tuple(data.items()), lambda: {key: shared_text(value) for key, value in data.items()})
