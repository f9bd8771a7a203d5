"""Durations as Go and the Kubernetes API write them ("1h30m", "500ms"), read as seconds.

Not the durations of CEL, which know no upper bound of a year and come with their own arithmetic.
"""

from __future__ import annotations

import re
from fractions import Fraction

from dra_operator.api.errors import InvalidField

#: One pattern for the schemas of our CRDs and for this module.
PATTERN = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|ms|s|m|h))+)$"

_YEAR = 8760 * 3600
_WHOLE = re.compile(PATTERN, re.ASCII)
_PART = re.compile(r"([0-9.]+)(ns|us|ms|s|m|h)")
_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}


def parse_duration(text: object) -> float:
    """Seconds. Raises InvalidField for anything but Go's duration syntax without sign, and above a year."""
    if not isinstance(text, str) or len(text) > 32 or not _WHOLE.fullmatch(text):
        raise InvalidField(f"{text!r:.60} is not a duration: write one such as 30s, 1h30m or 500ms")
    total = sum((Fraction(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), Fraction())
    if total > _YEAR:
        raise InvalidField(f"{text} is too long: at most 8760h (a year)")
    return float(total)
