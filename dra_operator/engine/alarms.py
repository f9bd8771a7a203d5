"""When something is worth another look although nothing will happen: ages, backoffs, grace times."""

from __future__ import annotations

import heapq

from dra_operator.api.meta import Key


class Alarms:
    """A pod or claim to be looked at again at a time. Earlier alarms of the same object stay; a look too many does no harm."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, Key]] = []
        self._pending: set[tuple[float, str, Key]] = set()

    def set(self, at: float, kind: str, key: Key) -> None:
        entry = (at, kind, key)
        if entry not in self._pending:
            self._pending.add(entry)
            heapq.heappush(self._heap, entry)

    def due(self, now: float) -> list[tuple[str, Key]]:
        found = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            self._pending.discard(entry)
            found.append((entry[1], entry[2]))
        return found

    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None
