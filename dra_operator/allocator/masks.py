"""Long masks: sets of thousands of devices as one number. Shifting such a number costs its length, and doing so for each of its bits the
square of it; written as digits it is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

#: Up to so many bits shifting is quicker.
SHORT = 256


def mask_of(bits: Iterable[int], width: int) -> int:
    """The number with these bits, all below `width`."""
    digits = bytearray(b"0" * max(width, 1))
    one = ord("1")
    for bit in bits:
        digits[-1 - bit] = one
    return int(digits, 2)


class Renumbering:
    """Bits to other bits: bit number b becomes `order[b]`. `width` is above all of the latter."""

    def __init__(self, order: Sequence[int], width: int) -> None:
        self._bits = len(order)
        self._order, self._pick = order, None
        if self._bits > SHORT:
            # Digits are written from the highest on; where there is no bit, the 0 behind the last one is taken.
            source = [self._bits] * width
            for bit, position in enumerate(order):
                source[width - 1 - position] = self._bits - 1 - bit
            self._pick = itemgetter(*source)

    def of(self, mask: int) -> int:
        if self._pick is not None:
            return int("".join(self._pick(f"{mask:0{self._bits}b}0")), 2)
        found = 0
        for bit, position in enumerate(self._order):
            if mask >> bit & 1:
                found |= 1 << position
        return found
