"""Which Kubernetes Events are worth a write: not the same again and again, and not more than people can read."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from dra_operator.engine.decisions import RecordEvent
from dra_operator.operator.settings import EventSettings

#: How many Events are remembered for the sake of repeats.
MEMORY = 10_000


class EventGate:
    """A memory of recent Events and a token bucket. `now` is seconds on any steady clock."""

    def __init__(self, settings: EventSettings) -> None:
        self._settings = settings
        self._seen: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._tokens = float(settings.burst)
        self._filled = 0.0

    def refuses(self, event: RecordEvent, now: float) -> Literal["repeated", "rate"] | None:
        """Why `event` is not written; None: write it (it is counted as written)."""
        identity = (event.regarding.get("uid", ""), event.reason, event.note)
        last = self._seen.get(identity)
        if last is not None and now - last < self._settings.repeat:
            return "repeated"
        self._tokens = min(self._settings.burst, self._tokens + (now - self._filled) * self._settings.rate)
        self._filled = now
        if self._tokens < 1:
            return "rate"
        self._tokens -= 1
        self._seen[identity] = now
        self._seen.move_to_end(identity)
        while len(self._seen) > MEMORY:
            self._seen.popitem(last=False)
        return None
