"""How much an object graph holds: the entries of every container below an object, by the path of attributes that leads there.

What lives and dies with claims and pods must be found empty when they are gone, whoever added the container and whatever it is for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

#: Looked into; what is of no class of ours is not, and neither are immutable containers, which cannot grow.
PACKAGE = "dra_operator"
GROWING = (dict, list, set, deque)


def entries(root: Any, name: str = "engine") -> Counter[str]:
    """Entries by path. Members of containers are all one path: `engine._state.units[]` stands for every unit."""
    counted: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([(name, root)])
    while waiting:
        path, item = waiting.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, GROWING):
            counted[path] += len(item)
        waiting.extend((path + step, value) for step, value in _below(item))
    return +counted


def _below(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        for key, value in tuple(item.items()):
            yield "[]", key
            yield "[]", value
    elif isinstance(item, (list, set, frozenset, tuple, deque)):
        for value in tuple(item):
            yield "[]", value
    elif type(item).__module__.split(".")[0] == PACKAGE and not isinstance(item, type):
        for field in _fields(item):
            if (value := getattr(item, field, None)) is not None:
                yield f".{field}", value


def _fields(item: Any) -> Iterator[str]:
    yield from getattr(item, "__dict__", ())
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
