"""What judging many devices by one expression may cost all together.

One evaluation is held to the cost limit, but an expression that goes near the limit on each of ten thousand devices would hold up
everybody else for hours. So expensive expressions are metered, and one that costs too much on average is an error on the devices
that are left. The in-tree scheduler is stopped by its time-out instead; here the outcome must not depend on a clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from dra_operator.cel.costs import Meter
from dra_operator.cel.device import Device
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.selector import COST_LIMIT

__all__ = ["Allowance"]

#: Expressions estimated at no more than this are not worth metering.
_CHEAP = 1_000
#: What judging the first devices may cost, and what each further one adds. A unit is in the order of a microsecond.
_GRANT = 1_000_000
_EACH = 1_000


class Judge(Protocol):
    """A selector, or one conjunct of it."""

    @property
    def estimated_cost(self) -> int: ...

    def matches(self, device: Device) -> bool: ...
    def metered(self, device: Device, meter: Meter) -> bool: ...


class Allowance:
    """Of one expression on the devices of one inventory."""

    __slots__ = ("evaluated", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.evaluated = 0

    def judge(self, by: Judge, device: Device) -> bool:
        """Whether the device matches. Raises EvaluationError, also once the allowance is used up."""
        if by.estimated_cost <= _CHEAP:
            return by.matches(device)
        with self.metered() as meter:
            return by.metered(device, meter)

    @contextmanager
    def metered(self) -> Iterator[Meter]:
        """A meter for one evaluation. Raises EvaluationError once the allowance is used up."""
        if self.spent > _GRANT + _EACH * self.evaluated:
            raise EvaluationError(
                f"too expensive: {self.evaluated} devices cost {self.spent // self.evaluated} units each; "
                "simplify the expression"
            )
        meter = Meter(COST_LIMIT)
        self.evaluated += 1
        try:
            yield meter
        finally:
            self.spent += meter.used
