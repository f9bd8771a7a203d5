"""Units that quotas or reservations kept back, remembered for their like: a ReplicaSet's pods over a quota are looked at once.

Only what the budgets refused; what does not fit at all is remembered by the Placer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dra_operator.engine.placements import Blocked
from dra_operator.queue.budgets import Scope

_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """`short_of`: the budgets that the unit is short of."""

    blocked: Blocked
    short_of: tuple[Scope, ...]


class Refusals:
    """`key` stands for the question; `moment` for all that the answer depends on, so that a change forgets it."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Hashable, Refusal]] = {}

    def get(self, key: Hashable, moment: Hashable) -> Refusal | None:
        known = self._known.get(key)
        return known[1] if known is not None and known[0] == moment else None

    def note(self, key: Hashable, moment: Hashable, refusal: Refusal) -> None:
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = moment, refusal
