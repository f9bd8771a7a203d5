"""Doubles as decimal digits, the way Go writes them. Only text; arithmetic is in `cel.operators`."""

from __future__ import annotations

import math


def double_text(value: float) -> str:
    """A double as Go's %g prints it: shortest digits, an exponent below -4 and from 6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = shortest(value)
    if exponent < -4 or exponent >= 6:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + plain_digits(digits, exponent)


def shortest(value: float) -> tuple[str, str, int]:
    """(sign, shortest digits, decimal exponent of the first digit) of a finite double."""
    mantissa, _, power = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    exponent = int(power or 0) + len(whole) - 1
    digits = whole + fraction
    stripped = digits.lstrip("0")
    if not stripped:
        return sign, "0", 0
    exponent -= len(digits) - len(stripped)
    return sign, stripped.rstrip("0") or "0", exponent


def plain_digits(digits: str, exponent: int) -> str:
    """Digits with the decimal point where the exponent puts it."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
