"""Kubernetes quantities ("80Gi", "500m", "1e3"): exact values that print as the API server prints them.

This module knows the text forms, the order and the sums of quantities. It is not a number type for general use:
it cannot multiply, and what a quantity means (bytes, cores) is the reader's business.

Source: k8s.io/apimachinery `pkg/api/resource` and the API documentation of `Quantity`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, total_ordering

__all__ = ["Format", "Quantity"]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NANO = 9
_UNIT = 10**9
# The API server takes any exponent, but exact values pay for it in digits and nobody can compute with them.
_MAX_EXPONENT = 1_000
_MAX_DIGITS = 4_000
# Zero keeps the scale it was written with, within reason.
_LEAST_SCALE = 30
# Up to this many decimal digits apimachinery keeps a value as int64 and scale; see `Quantity.stored_int64`.
_INT64_DIGITS = 18
_BINARY_DIGITS = 15

_REPAIR = "write a number with an optional suffix, such as 80Gi or 500m"
_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE][-+]?[0-9]+", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


class Format(StrEnum):
    """How a quantity was written, hence how it is written again."""

    BinarySI = "BinarySI"
    DecimalSI = "DecimalSI"
    DecimalExponent = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An exact amount in units of 10^-9. Compares, sorts and hashes by value: `1024Ki == 1Mi`.

    `nano` is the value times 10^9. Build one with `parse`, `from_int` or `from_milli`.
    """

    nano: int
    format: Format = Format.DecimalSI
    # How apimachinery stores it: the power of ten of the mantissa, and whether that is an int64 or a big integer.
    _scale: int = 0
    _fits: bool = True
    # The text it was parsed from, where apimachinery prints that again.
    _text: str | None = None

    @staticmethod
    def parse(text: str) -> Quantity:
        """Read a quantity, rounding away from zero beyond 10^-9 as Kubernetes does.

        Raises ValueError with the reason for text that is no quantity.
        """
        return _parse(text)

    @staticmethod
    def from_int(value: int, format: Format = Format.DecimalSI) -> Quantity:
        """A whole amount."""
        return Quantity(value * _UNIT, format)

    @staticmethod
    def from_milli(value: int, format: Format = Format.DecimalSI) -> Quantity:
        """An amount in thousandths."""
        return Quantity(value * 10**6, format, -3)

    def as_int64(self) -> int | None:
        """The value if it is a whole number within int64, else None."""
        return _exact_int64(self.nano, _UNIT)

    def milli(self) -> int | None:
        """The value in thousandths if that is a whole number within int64, else None."""
        return _exact_int64(self.nano, 10**6)

    def value(self) -> int:
        """The value as a whole number, rounded away from zero (not limited to int64)."""
        magnitude = -(-abs(self.nano) // _UNIT)
        return magnitude if self.nano >= 0 else -magnitude

    def stored_int64(self) -> int | None:
        """What apimachinery's `AsInt64` answers: None also for whole numbers it holds as fractions.

        "1000m" and "1.5Gi" are such. CEL's `isInteger` and `asInteger` are defined by it.
        """
        if not self._fits or self._scale < 0:
            return None
        return self.as_int64()

    def approximate_float(self) -> float:
        """The value as a double, computed as apimachinery's `AsApproximateFloat64` computes it."""
        scale = self._scale
        mantissa = _mantissa(self.nano, scale)
        try:
            base = float(mantissa)
        except OverflowError:
            base = float("inf") if mantissa > 0 else float("-inf")
        return base if scale == 0 else base * float(f"1e{scale}")

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def __add__(self, other: Quantity) -> Quantity:
        shape = self.format if self.nano else other.format
        return Quantity(self.nano + other.nano, shape, *_sum_scale(self, other))

    def __sub__(self, other: Quantity) -> Quantity:
        shape = self.format if self.nano else other.format
        return Quantity(self.nano - other.nano, shape, *_sum_scale(self, -other))

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format, self._scale, self._fits)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        """The canonical text, or the text it came from where that has the canonical suffix already."""
        return self._text if self._text is not None else _canonical(self.nano, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def _exact_int64(nano: int, unit: int) -> int | None:
    whole, rest = divmod(nano, unit)
    return whole if not rest and _INT64_MIN <= whole <= _INT64_MAX else None


def _mantissa(nano: int, scale: int) -> int:
    return nano // _ten(scale + _NANO) if scale >= -_NANO else nano * _ten(-_NANO - scale)


def _sum_scale(left: Quantity, right: Quantity) -> tuple[int, bool]:
    """How a sum is stored: at the finer scale, and as int64 if both were and neither the parts nor the sum overflow."""
    if left._fits and right._fits:
        if not right.nano:
            return left._scale, True
        if not left.nano:
            return right._scale, True
    scale = min(left._scale, right._scale)
    mantissas = (_mantissa(n, scale) for n in (left.nano, right.nano, left.nano + right.nano))
    fits = left._fits and right._fits and all(_INT64_MIN <= m <= _INT64_MAX for m in mantissas)
    return scale, fits


@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    if not text:
        raise ValueError(f"a quantity must not be empty; {_REPAIR}")
    parts = _SHAPE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{_shown(text)} is not a quantity; {_REPAIR}")
    sign, whole, _, fraction, suffix = parts.groups(default="")
    whole = whole.lstrip("0")
    if len(whole) + len(fraction) > _MAX_DIGITS:
        raise ValueError(f"{_shown(text)} has too many digits for a quantity")
    power_of_two, power_of_ten, shape = _interpret(suffix, text)
    digits = whole + fraction
    mantissa = int(digits or "0")
    scale = power_of_ten - len(fraction)
    if shape is Format.BinarySI:
        held = not fraction and _BINARY_DIGITS - max(len(whole), 1) - int(power_of_two * 3 / 10) - 1 >= 0
        magnitude = mantissa * 2**power_of_two
        held = held and magnitude <= _INT64_MAX
    else:
        held = max(len(whole), 1) + len(fraction) <= _INT64_DIGITS and power_of_ten - len(fraction) >= -_NANO
        magnitude = mantissa
    nano = _to_nano(magnitude, power_of_ten - len(fraction))
    kept: str | None = None
    if held:
        if shape is Format.BinarySI:
            kept = text if mantissa & 7 else None
        elif (power_of_ten - len(fraction)) % 3 == 0 and _starts_canonical(whole, fraction):
            kept = text
    else:
        if nano or scale < -_LEAST_SCALE:
            scale = -_NANO
        if not whole + fraction and "0" not in text:
            raise ValueError(f"{_shown(text)} is not a quantity: it has no digits; {_REPAIR}")
        if shape is Format.BinarySI:
            # Only binary quantities are capped; below 1 they become decimal.
            nano, scale = (nano, scale) if nano <= _INT64_MAX * _UNIT else (_INT64_MAX * _UNIT, 0)
            shape = Format.DecimalSI if 0 < nano < _UNIT else shape
    if text == "0":
        kept = text
    return Quantity(-nano if sign == "-" else nano, shape, scale, held, kept)


def _starts_canonical(whole: str, fraction: str) -> bool:
    digits = (whole or "0") + fraction
    return digits[0] != "0" and not digits.endswith("000")


def _to_nano(magnitude: int, exponent: int) -> int:
    """The magnitude times 10^exponent in 10^-9, rounded up."""
    shift = exponent + _NANO
    if shift >= 0:
        return magnitude * _ten(shift)
    # So small that anything but zero rounds up to one: do not build the divisor.
    if -shift > _MAX_DIGITS + _MAX_EXPONENT:
        return 1 if magnitude else 0
    return -(-magnitude // _ten(-shift))


def _ten(exponent: int) -> int:
    """10 to a power that is not negative."""
    power: int = 10**exponent
    return power


def _interpret(suffix: str, text: str) -> tuple[int, int, Format]:
    """(power of two, power of ten, format) of a suffix."""
    if suffix in _DECIMAL:
        return 0, _DECIMAL[suffix], Format.DecimalSI
    if suffix in _BINARY:
        return _BINARY[suffix], 0, Format.BinarySI
    if _EXPONENT.fullmatch(suffix):
        exponent = int(suffix[1:]) if len(suffix) < 12 else _MAX_EXPONENT * (-2 if suffix[1] == "-" else 2)
        if exponent > _MAX_EXPONENT:
            raise ValueError(f"the exponent of quantity {_shown(text)} is above {_MAX_EXPONENT}")
        return 0, exponent, Format.DecimalExponent
    raise ValueError(
        f"quantity {_shown(text)} has an unknown suffix {_shown(suffix)}; "
        "use n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 64 else repr(text[:61] + "...")


def _canonical(nano: int, format: Format) -> str:
    """No fraction, no precision lost, the largest suffix possible."""
    if not nano:
        return "0"
    sign, magnitude = ("-", -nano) if nano < 0 else ("", nano)
    if format is Format.BinarySI and magnitude >= 1024 * _UNIT and magnitude % _UNIT == 0:
        amount, step = magnitude // _UNIT, 0
        while step < len(_BINARY_SUFFIX) - 1 and amount % 1024 == 0:
            amount, step = amount // 1024, step + 1
        return f"{sign}{amount}{_BINARY_SUFFIX[step]}"
    amount, exponent = magnitude, -_NANO
    largest = _MAX_EXPONENT + _MAX_DIGITS if format is Format.DecimalExponent else max(_DECIMAL_SUFFIX)
    while exponent < largest and amount % 1000 == 0:
        amount, exponent = amount // 1000, exponent + 3
    if format is Format.DecimalExponent:
        return f"{sign}{amount}e{exponent}" if exponent else f"{sign}{amount}"
    return f"{sign}{amount}{_DECIMAL_SUFFIX[exponent]}"
