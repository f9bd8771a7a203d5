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

#: Path prefixes of what remembers answers, and what bounds it.
BOUNDED = {
    "engine._intake._known": "by the kinds, one set each",
    "engine._placer._failures": "forgotten at 10,000",
    "engine._placer._impossible": "forgotten at 10,000",
    "engine._reporter._details._known": "forgotten at its _KEPT",
    "engine._drifting._missing": "sorted out at its _MISSING_KEPT",
    "engine._preempting._again": "sorted out at twice the waiting units",
    "engine._state.expecting": "counted anew from what is there, the most frequent _KINDS",
    "engine._state.view._specs": "a Sharing",
    "engine._state.ledger.changes": "a Trail, shortened at its _LIMIT",
    "engine._state.inventory.memo": "the allocator's own answers, forgotten at its limits",
    "engine._state.inventory.states": "forgotten at its _STATES_LIMIT and _JOURNAL_LIMIT",
    "engine._state.inventory.touched": "a Trail, shortened at its _LIMIT",
    "engine._state.inventory.kinds": "by the kinds of devices that were published",
    "engine._state.inventory._names": "the nodes, once somebody asks",
    "engine._state.inventory.nodes[].view": "one of the states",
}


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


def lasting(counted: Counter[str]) -> Counter[str]:
    """Without the bounded memories."""
    return Counter({path: count for path, count in counted.items() if not path.startswith(tuple(BOUNDED))})


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
