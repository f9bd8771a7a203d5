"""The makers of problems as Hypothesis strategies: a problem that fails is shrunk to one a person can read.

What the makers ask of `random.Random` is read off bytes that Hypothesis draws. Zeros mean "no" for every chance and the first of
every choice, so what is left of a failing problem matters to the failure. One draw a problem, because Hypothesis fills most of a run
with variations of earlier examples that share some of their draws, which find less than as many problems of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.allocator.problems import Choices

_T = TypeVar("_T")
#: Two bytes a choice; enough for nearly all problems, which go on with zeros.
_BYTES = 1024


class Drawn:
    """Choices read off bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def random(self) -> float:
        """Zeros give nearly 1: a chance is taken where the number is below it."""
        return 1 - (self._next() + 1) / 65536

    def randrange(self, stop: int) -> int:
        return self._next() * stop // 65536

    def choice(self, seq: Sequence[_T]) -> _T:
        return seq[self.randrange(len(seq))]

    def sample(self, population: Sequence[_T], k: int) -> list[_T]:
        left = list(population)
        return [left.pop(self.randrange(len(left))) for _ in range(k)]

    def _next(self) -> int:
        pair = self._data[self._at : self._at + 2]
        self._at += 2
        return int.from_bytes(pair, "big") if len(pair) == 2 else 0


def drawn(choose: Callable[[Choices], dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """What a maker makes of Hypothesis's choices."""
    return st.binary(min_size=_BYTES, max_size=_BYTES).map(lambda data: choose(Drawn(data)))
