"""Masks: sets of devices as one number. Those of thousands of devices are long: shifting such a number costs its length, and doing so for
each of its bits the square of it; written as digits it is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

#: Up to so many bits shifting is quicker.
SHORT = 256
#: So few bits are renumbered one by one.
_FEW = 16


def mask_of(bits: Iterable[int], width: int) -> int:
    """The number with these bits, all below `width`."""
    if width <= SHORT:
        found = 0
        for bit in bits:
            found |= 1 << bit
        return found
    digits = bytearray(b"0" * width)
    one = ord("1")
    for bit in bits:
        digits[-1 - bit] = one
    return int(digits, 2)


def bits_of(mask: int) -> list[int]:
    """The bits of a mask, lowest first."""
    bits = []
    if mask.bit_length() > SHORT:
        digits = f"{mask:b}"[::-1]
        at = digits.find("1")
        while at >= 0:
            bits.append(at)
            at = digits.find("1", at + 1)
        return bits
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits


def lowest(mask: int, count: int) -> tuple[int, ...]:
    """The first so many bits of a mask, lowest first; all if there are no more."""
    if mask.bit_length() > SHORT:
        return tuple(bits_of(mask)[:count])
    bits: list[int] = []
    while mask and len(bits) < count:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return tuple(bits)


#: Bits that become bits side by side again: the first one, a mask of their number, and what the first one becomes.
Run = tuple[int, int, int]


def runs_of(order: Sequence[int]) -> tuple[Run, ...]:
    """The runs of a renumbering, in which bit number b becomes `order[b]`."""
    runs: list[Run] = []
    for bit, position in enumerate(order):
        if bit and position == order[bit - 1] + 1:
            first, ones, start = runs.pop()
            runs.append((first, ones << 1 | 1, start))
        else:
            runs.append((bit, 1, position))
    return tuple(runs)


class Renumbering:
    """Bits to other bits: bit number b becomes `order[b]`. `width` is above all of the latter."""

    def __init__(self, order: Sequence[int], width: int) -> None:
        self._bits = len(order)
        self._order, self._pick = order, None
        self._runs: tuple[Run, ...] = ()
        #: The last long mask, and what became of it: the next one often differs from it by a few bits.
        self._last = self._became = 0
        if self._bits > SHORT:
            # Digits are written from the highest on; where there is no bit, the 0 behind the last one is taken.
            source = [self._bits] * width
            for bit, position in enumerate(order):
                source[width - 1 - position] = self._bits - 1 - bit
            self._pick = itemgetter(*source)
        else:
            self._runs = runs_of(order)

    def of(self, mask: int) -> int:
        if self._pick is None:
            found = 0
            for first, ones, start in self._runs:
                found |= (mask >> first & ones) << start
            return found
        changed = mask ^ self._last
        if changed.bit_count() <= _FEW:
            self._became ^= self._one_by_one(changed)
        elif mask.bit_count() <= _FEW:
            return self._one_by_one(mask)
        else:
            self._became = int("".join(self._pick(f"{mask:0{self._bits}b}0")), 2)
        self._last = mask
        return self._became

    def _one_by_one(self, mask: int) -> int:
        found, order = 0, self._order
        while mask:
            low = mask & -mask
            mask ^= low
            found |= 1 << order[low.bit_length() - 1]
        return found
