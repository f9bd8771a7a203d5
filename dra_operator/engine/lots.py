"""Lots: waiting units that are alike, so that the first of them that does not fit speaks for the others. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Hashable

from dra_operator.engine.rows import Row, Spot
from dra_operator.queue.budgets import Scope
from dra_operator.queue.fairness import NO_SHARE, Share
from dra_operator.queue.units import Unit, UnitKey

#: So many units that are alike are all looked at when something changes, and of more only the first ones, until one does not fit.
FEW = 16


class Lot:
    """Units that are alike (`units`) in one row, and those of them that are `starved`. `eager`: their policy preempts at once.

    `lacks_node`, `short_of`, `only_short`: what its units said of themselves when they were tried last, `preemption_note` its first
    one (`Unit`).

    `strict` is the name of their policy if that is Strict, else None. Then `behind` is the unit that they were told they stand behind
    and `untold` those that were not told so.
    """

    def __init__(self, key: Hashable, share: Share = NO_SHARE) -> None:
        self.key, self.share = key, share
        self.units, self.starved = Row(share), Row(share)
        self.eager = False
        self.lacks_node = False
        self.short_of: set[Scope] = set()
        self.only_short = True
        self.preemption_note = ""
        self.strict: str | None = None
        self.behind: UnitKey | None = None
        self.untold: dict[UnitKey, None] = {}

    @property
    def many(self) -> bool:
        """Too many for all of them to be looked at."""
        return len(self.units) > FEW

    @property
    def contenders(self) -> Row:
        """Those that devices may be held or freed for."""
        return self.units if self.eager else self.starved

    def add(self, spot: Spot) -> None:
        self.units.add(spot)
        if self.strict is not None:
            self.untold[spot[-1]] = None

    def remove(self, spot: Spot) -> None:
        self.units.remove(spot)
        self.starved.remove(spot)
        self.untold.pop(spot[-1], None)

    def note(self, unit: Unit) -> None:
        self.lacks_node = self.lacks_node or unit.lacks_node
        self.short_of.update(unit.short_of)
        self.only_short = self.only_short and unit.only_short

    def forget(self) -> None:
        """All of it is to be tried again."""
        self.lacks_node, self.short_of, self.only_short = False, set(), True
