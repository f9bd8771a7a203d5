"""Rounds along the line of waiting units: what their reports say is brought up to date at a bounded rate, however many wait.

Every unit that leaves shifts the positions behind it, and every device that comes or goes changes the counts in many messages; a report
for each of these would be a write a unit a change. Whoever is served, starved or blocked for another reason has a report at once.
"""

from __future__ import annotations

from dra_operator.engine.line import Line
from dra_operator.engine.state import State
from dra_operator.queue.units import Unit

#: Units looked at in one pass, and seconds between two such passes of a round.
AT_A_TIME, _APART = 20, 1.0


class Rounds:
    """A round begins when anything may be out of date, at most one in `report_lazy` seconds."""

    def __init__(self, state: State, line: Line) -> None:
        self._state, self._line = state, line
        self._seen = (-1, -1)
        self._outdated = False
        self._began = float("-inf")
        self._at: int | None = None
        self._due = float("-inf")

    def outdated(self) -> None:
        """Units were not looked at that may be told something else now."""
        self._outdated = True

    def next_units(self, now: float) -> list[Unit]:
        """Those whose turn it is: their reports are to be worked out. Notes their positions."""
        seen = self._state.queue_changes, self._state.usage.taken_total
        if self._seen != seen:
            self._seen, self._outdated = seen, True
        if self._at is None:
            if not self._outdated or now < self._began + self._state.settings.report_lazy:
                return []
            self._at, self._began, self._due, self._outdated = 0, now, now, False
        if now < self._due:
            return []
        units = self._line.some(self._at, AT_A_TIME)
        for number, unit in enumerate(units, self._at + 1):
            unit.position = number
        self._at += AT_A_TIME
        self._due = now + _APART
        if self._at >= len(self._line):
            self._at = None
        return units

    def next_wake(self) -> float | None:
        if self._at is not None:
            return self._due
        return self._began + self._state.settings.report_lazy if self._outdated and len(self._line) else None
