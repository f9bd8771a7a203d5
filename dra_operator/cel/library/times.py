"""Timestamps and durations: texts as Go reads and writes them, and the parts of a date.

Source: the CEL specification; Go's `time` package for the formats.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.library.decimals import plain_digits, shortest
from dra_operator.cel.operators import timestamp
from dra_operator.cel.values import INT64_MAX, Duration, Timestamp

_SECOND = 10**9
_CYCLE, _CYCLE_DAYS = 400, 146_097
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_PART = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


def declare(functions: Registry) -> None:
    """Add the accessors of timestamps and durations."""
    for name, part, suffix in (
        ("getFullYear", lambda at: at.year, "year"),
        ("getMonth", lambda at: at.month - 1, "month"),
        ("getDayOfYear", lambda at: at.timetuple().tm_yday - 1, "day_of_year"),
        ("getDayOfMonth", lambda at: at.day - 1, "day_of_month"),
        ("getDate", lambda at: at.day, "day_of_month_1_based"),
        ("getDayOfWeek", lambda at: at.isoweekday() % 7, "day_of_week"),
        ("getHours", lambda at: at.hour, "hours"),
        ("getMinutes", lambda at: at.minute, "minutes"),
        ("getSeconds", lambda at: at.second, "seconds"),
        ("getMilliseconds", lambda at: at.microsecond // 1000, "milliseconds"),
    ):
        _declare_part(functions, name, part, suffix)
    for name, suffix, unit in (
        ("getHours", "hours", 3600 * _SECOND),
        ("getMinutes", "minutes", 60 * _SECOND),
        ("getSeconds", "seconds", _SECOND),
        ("getMilliseconds", "milliseconds", 10**6),
    ):
        functions.member(name, f"duration_to_{suffix}", "duration -> int", _whole(unit))


def _declare_part(functions: Registry, name: str, part: Any, suffix: str) -> None:
    def zoned(value: Timestamp, zone: str) -> int:
        at, years = _calendar(value.ns, _zone(zone))
        return int(part(at)) + (years if name == "getFullYear" else 0)

    def utc(value: Timestamp) -> int:
        return zoned(value, "")

    functions.member(name, f"timestamp_to_{suffix}", "timestamp -> int", utc)
    functions.member(name, f"timestamp_to_{suffix}_with_tz", "timestamp, string -> int", zoned)


def _whole(unit: int) -> Any:
    def count(value: Duration) -> int:
        return abs(value.ns) // unit * (1 if value.ns >= 0 else -1)

    return count


def _calendar(ns: int, zone: tzinfo) -> tuple[datetime, int]:
    """The date and time in a zone, and the years to add to it: at the ends of the range a zone leads out of what Python has.

    The calendar, days of the week included, repeats after 400 years.
    """
    at = _EPOCH + timedelta(microseconds=ns // 1000)
    years = -_CYCLE if at.year <= 1 else _CYCLE if at.year >= 9999 else 0
    return (at.replace(year=at.year - years)).astimezone(zone), years


def _zone(name: str) -> tzinfo:
    hours, colon, minutes = name.partition(":")
    if colon:
        for part in (hours, minutes):
            if not _OFFSET_PART.fullmatch(part):
                raise EvaluationError(f'strconv.Atoi: parsing "{part}": invalid syntax')
        offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        if abs(offset) >= 24 * 60:
            raise EvaluationError(f"time zone offset {name} is out of range")
        return timezone(timedelta(minutes=offset))
    if name in ("", "UTC", "Local"):
        # The control plane's local time is UTC: its images know no other.
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def parse_duration(text: str) -> Duration:
    """Go's duration text: "1h30m", "-1.5s", "0". Raises EvaluationError."""
    rest = text.lstrip("+-") if len(text) - len(text.lstrip("+-")) <= 1 else ""
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            break
        unit = _UNITS[part[3]]
        # Go drops what is finer than a nanosecond.
        fraction = Fraction(int(part[2][:30] or 0), 10 ** len(part[2][:30])) if part[2] else Fraction(0)
        if len(part[1].lstrip("0")) > 20:
            break
        total += int(part[1] or 0) * unit + int(fraction * unit)
        position = part.end()
    limit = INT64_MAX + text.startswith("-")
    if not rest or position < len(rest) or total > limit:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(-total if text.startswith("-") else total)


def duration_text(value: Duration) -> str:
    """Seconds with the fraction a double has, then "s"."""
    whole, rest = divmod(abs(value.ns), _SECOND)
    seconds = whole + rest / 1e9
    _, digits, exponent = shortest(seconds)
    return ("-" if value.ns < 0 else "") + plain_digits(digits, exponent) + "s"


def parse_timestamp(text: str) -> Timestamp:
    """An RFC 3339 instant. Raises EvaluationError."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _no_timestamp()
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, off_hours, off_minutes = match.groups()[6:]
    offset = 0
    if sign:
        if int(off_hours) > 24 or int(off_minutes) > 60:
            raise _no_timestamp()
        offset = (int(off_hours) * 60 + int(off_minutes)) * (-1 if sign == "-" else 1)
    try:
        # Year 0 exists for Go but not for Python; 400 years later the calendar is the same.
        local = datetime(year or _CYCLE, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _no_timestamp() from None
    seconds = (local - _EPOCH) // timedelta(seconds=1) - offset * 60 - (0 if year else _CYCLE_DAYS * 86400)
    return timestamp(seconds * _SECOND + int((fraction or "0")[:9].ljust(9, "0")), offset)


def _no_timestamp() -> EvaluationError:
    return EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many digits of the second as needed, in the offset it was written in."""
    at, years = _calendar(value.ns, timezone(timedelta(minutes=value.offset)))
    ns = value.ns % _SECOND
    local = f"{at.year + years:04d}-{at:%m-%dT%H:%M:%S}"
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    if not value.offset:
        return f"{local}{fraction}Z"
    hours, minutes = divmod(abs(value.offset), 60)
    return f"{local}{fraction}{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
