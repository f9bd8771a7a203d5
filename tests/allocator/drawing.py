"""The makers of problems as Hypothesis strategies: a problem that fails is shrunk to one a person can read.

What the makers ask of `random.Random` is drawn by Hypothesis. Its draws shrink towards "no" for every chance and to the first of
every choice, so that what is left of a failing problem matters to the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.allocator.problems import Choices

_T = TypeVar("_T")
_STEPS = 1000


class Drawn:
    """Choices drawn by Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def random(self) -> float:
        """Shrinks towards 1: a chance is taken where the number is below it."""
        return (_STEPS - 1 - self._draw(_below(_STEPS))) / _STEPS

    def randrange(self, stop: int) -> int:
        return self._draw(_below(stop))

    def choice(self, seq: Sequence[_T]) -> _T:
        return seq[self.randrange(len(seq))]

    def sample(self, population: Sequence[_T], k: int) -> list[_T]:
        left = list(population)
        return [left.pop(self.randrange(len(left))) for _ in range(k)]


@cache
def _below(stop: int) -> st.SearchStrategy[int]:
    return st.integers(0, stop - 1)


@st.composite
def drawn(draw: st.DrawFn, choose: Callable[[Choices], dict[str, Any]]) -> dict[str, Any]:
    """What a maker makes of Hypothesis's choices."""
    return choose(Drawn(draw))
