"""Which reports are to be looked at, and when. Knows nothing of what they say.

A pass looks at what has changed, not at all that will be written some time: in a burst a thousand reports wait for its end.
"""

from __future__ import annotations

from typing import NamedTuple

from dra_operator.api.meta import Key


class Due(NamedTuple):
    """When a stale report is to be looked at again, in seconds since the epoch: while no placement is under way, and while some are."""

    quiet: float
    busy: float

    def at(self, quiet: bool) -> float:
        return self.quiet if quiet else self.busy


WHEN_ANSWERED = Due(float("inf"), float("inf"))


class Schedule:
    """The stale reports by the keys of their claims, each to be looked at in the next pass or when it is due."""

    def __init__(self) -> None:
        self._due: dict[Key, Due | None] = {}
        self._changed: dict[Key, None] = {}
        #: No due time is before this.
        self._earliest = WHEN_ANSWERED

    def __len__(self) -> int:
        return len(self._due)

    def look_at(self, key: Key) -> None:
        """In the next pass: something has changed."""
        self._due[key] = None
        self._changed[key] = None

    def put_off(self, key: Key, due: Due) -> None:
        self._due[key] = due
        self._changed.pop(key, None)
        self._keep_in_mind(due)

    def drop(self, key: Key) -> None:
        """It is not stale any more."""
        self._due.pop(key, None)
        self._changed.pop(key, None)
        if not self._due:
            self._earliest = WHEN_ANSWERED

    def due(self, key: Key) -> Due | None:
        """None: to be looked at, due or not."""
        return self._due[key]

    def in_turn(self, now: float, *, quiet: bool) -> list[Key]:
        """Those to look at now, what has changed and what is due: each is to be looked at again, put off or dropped."""
        if now < self._earliest.at(quiet):
            return list(self._changed)
        turn: list[Key] = []
        self._earliest = WHEN_ANSWERED
        for key, due in self._due.items():
            if due is None or due.at(quiet) <= now:
                turn.append(key)
            else:
                self._keep_in_mind(due)
        return turn

    def next_turn(self, *, quiet: bool) -> float:
        """When the next one can be due; infinite where none is put off."""
        return self._earliest.at(quiet)

    def _keep_in_mind(self, due: Due) -> None:
        self._earliest = Due(min(self._earliest.quiet, due.quiet), min(self._earliest.busy, due.busy))
