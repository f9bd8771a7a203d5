"""Due times by key, for what many objects wait for at once: a pass asks for those that are due, and never looks at the others.

`alarms` wakes pods, claims and groups by name; here whoever sets a time decides what it is about.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Entries that mean nothing any more, beyond as many as mean something, before they are sorted out.
_SPARE = 64


class Timers(Generic[Key]):
    """One time a key (seconds since the epoch); a later `set` replaces it."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def set(self, key: Key, at: float) -> None:
        if self._at.get(key) == at:
            return
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 2 * len(self._at) + _SPARE:
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)
        if not self._at:
            self._heap.clear()

    def next(self) -> float | None:
        """The earliest time of all."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, now: float) -> Key | None:
        """One key that is due, earliest first and those of one time in the order they were set; it has no time any more then."""
        at = self.next()
        if at is None or at > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._at[key]
        return key

    def due(self, now: float) -> list[Key]:
        """All keys that are due."""
        found: list[Key] = []
        while (key := self.pop(now)) is not None:
            found.append(key)
        return found
