"""The funnel of one request: how many devices fall out at each step, and why. The steps are in the order of `explanation.WHYS`.

Nothing is looked at here: that is `looking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_operator.allocator.plan import Way
from dra_operator.explain.explanation import WHYS, Step, Tally, counted, most_first

#: Holders looked up by name: each costs a look at its pods, and nobody reads more.
_NAMED_HOLDERS = 48
_ORDER = {why: number for number, why in enumerate(WHYS)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a device falls out. `detail` says which taint, node problem… it was, `holder` which claim (UID) has it."""

    why: str
    index: int | None = None
    detail: str = ""
    holder: str = ""

    @property
    def step(self) -> tuple[int, int]:
        return _ORDER[self.why], self.index or 0


@dataclass(slots=True)
class Row:
    """One way's funnel: devices by step, and within a step by detail."""

    counts: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    details: dict[tuple[str, int | None], Counter[str]] = field(default_factory=dict)
    #: Devices allocated, by the claim (UID) that has them.
    holders: Counter[str] = field(default_factory=Counter)
    usable: int = 0
    most_on_a_node: int = 0

    def add(self, verdict: Verdict | None, devices: int = 1) -> None:
        """None: nothing keeps it from being used."""
        if verdict is None:
            self.usable += devices
            return
        key = (verdict.why, verdict.index)
        self.counts[key] += devices
        if verdict.holder:
            self.holders[verdict.holder] += devices
        elif verdict.detail:
            self.details.setdefault(key, Counter())[verdict.detail] += devices

    def add_allocated(self, holders: Iterable[str], devices: int) -> None:
        """So many devices that are allocated, by the claims (UIDs) that have them."""
        self.counts["allocated", None] += devices
        self.holders.update(holders)

    @property
    def devices(self) -> int:
        return sum(self.counts.values()) + self.usable

    def steps(self, way: Way, holder: Callable[[str], str]) -> tuple[Step, ...]:
        keys = sorted(self.counts, key=lambda key: (_ORDER[key[0]], key[1] or 0))
        return tuple(
            Step(why, self.counts[why, index], _text(why, index, way), index, self._details(why, index, holder))
            for why, index in keys
        )

    def _details(self, why: str, index: int | None, holder: Callable[[str], str]) -> Tally:
        if why != "allocated":
            return most_first(self.details.get((why, index), Counter()).items())
        named: Counter[str] = Counter()
        ranked = self.holders.most_common()
        for uid, devices in ranked[:_NAMED_HOLDERS]:
            named[holder(uid)] += devices
        rest = ranked[_NAMED_HOLDERS:]
        others = ((f"{counted(len(rest), 'other claim')}", sum(devices for _, devices in rest)),) if rest else ()
        return (*most_first(named.items()), *others)


#: Each says what the devices are, after their number.
_TEXTS = {
    "error": "on which a selector fails",
    "pool": "in pools that cannot be used",
    "unsupported": "in need of features that are off",
    "size": "without the capacity asked for",
    "taint": "with taints that are not tolerated",
    "attribute": "without an attribute that a constraint compares",
    "node": "on nodes that are out of the question",
    "allocated": "allocated",
    "held": "held for others",
    "reserved": "reserved for others",
    "capacity": "short of capacity",
    "counters": "short of shared counters",
}


def _text(why: str, index: int | None, way: Way) -> str:
    if why == "class":
        several = len(way.filter.device_class.selectors) > 1
        return f"not of class {way.detail.device_class_name}" + (f" (selector {index})" if several else "")
    if why == "request":
        several = len(way.filter.expressions) > 1
        return f"not matching the request's selector{f' {index}' if several else ''}"
    return _TEXTS[why]
