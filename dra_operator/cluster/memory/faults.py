"""What may go wrong between the operator and the API server, drawn from a seed, so that a failing run can be played again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, Protocol

from dra_operator.engine.decisions import Decision

#: What becomes of a request: served; refused unserved with 409, 500, or 403 as by an admission policy of somebody else; lost on the way
#: (not served) or on the way back (served).
Fate = Literal["served", "conflict", "error", "denied", "lost", "unanswered"]


class Faults(Protocol):
    """Asked once for every request and every change, in the order they happen."""

    def fate(self, decision: Decision) -> Fate:
        """What becomes of the request that carries out `decision`."""

    def kills(self, decision: Decision, moment: Literal["before", "after"]) -> bool:
        """Whether the operator dies just before or after the API server serves this request."""

    def delay(self, usual: float) -> float:
        """Seconds that a request, an answer or a watch event takes, where it usually takes `usual`."""

    def drops_watch(self, kind: str) -> bool:
        """Whether the watch of a kind breaks with 410 instead of delivering a change."""


class NoFaults:
    """Everything works and takes its usual time."""

    def fate(self, decision: Decision) -> Fate:
        return "served"

    def kills(self, decision: Decision, moment: Literal["before", "after"]) -> bool:
        return False

    def delay(self, usual: float) -> float:
        return usual

    def drops_watch(self, kind: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Rates:
    """How likely each fault is, 0…1, for each request (watch: for each change). `slow`: up to `slowest` seconds instead of the usual."""

    conflict: float = 0.03
    error: float = 0.03
    denied: float = 0.0
    lost: float = 0.02
    unanswered: float = 0.03
    killed: float = 0.01
    watch: float = 0.005
    slow: float = 0.1
    slowest: float = 2.0


class SeededFaults:
    """Faults at the given rates. `budget` is how many of them there are at most, so that a run comes to rest."""

    def __init__(self, seed: int, rates: Rates | None = None, *, budget: int = 60) -> None:
        self._random = random.Random(seed)
        self._rates = rates or Rates()
        self.left = budget

    def _happens(self, rate: float) -> bool:
        if not rate or self.left <= 0 or self._random.random() >= rate:
            return False
        self.left -= 1
        return True

    def fate(self, decision: Decision) -> Fate:
        rates = self._rates
        choices: tuple[tuple[Fate, float], ...] = (
            ("conflict", rates.conflict),
            ("error", rates.error),
            ("denied", rates.denied),
            ("lost", rates.lost),
            ("unanswered", rates.unanswered),
        )
        for fate, rate in choices:
            if self._happens(rate):
                return fate
        return "served"

    def kills(self, decision: Decision, moment: Literal["before", "after"]) -> bool:
        return self._happens(self._rates.killed / 2)

    def delay(self, usual: float) -> float:
        # Slowness is no fault that uses up the budget: it goes on, but by itself it harms nobody.
        if self._random.random() < self._rates.slow:
            return usual + self._random.random() * self._rates.slowest
        return usual * (0.5 + self._random.random())

    def drops_watch(self, kind: str) -> bool:
        return self._happens(self._rates.watch)


class KillOnce(NoFaults):
    """The operator dies once: before or after its request number `number` (from 0) is served."""

    def __init__(self, number: int, moment: Literal["before", "after"]) -> None:
        self._number, self._moment = number, moment
        self._seen = {"before": 0, "after": 0}
        self.happened = False

    def kills(self, decision: Decision, moment: Literal["before", "after"]) -> bool:
        number = self._seen[moment]
        self._seen[moment] += 1
        hit = moment == self._moment and number == self._number
        self.happened = self.happened or hit
        return hit
