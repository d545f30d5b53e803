"""RFC 3339 timestamps as exact instants, and days of microsecond timestamps."""

import re
from datetime import date, timedelta
from fractions import Fraction
from functools import cache

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def instant(value: object) -> Fraction | None:
    """Seconds since the year 0 began, or None when the value is no RFC 3339 timestamp.

    Year 0 can be written but not meant: only an offset may carry such a text into year 1.
    """
    match = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[part]) for part in range(1, 7))
    offset = _offset_seconds(match)
    if (
        offset is None
        or not _exists(year, month, day)
        or max(hour - 23, minute - 59, second - 59) > 0
    ):
        return None
    whole = _days_before(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset
    if not _days_before(1, 1, 1) * 86400 <= whole < _days_before(10000, 1, 1) * 86400:
        return None
    return whole + Fraction(int((match[7] or "").ljust(9, "0")), 10**9)


def microseconds(text: str) -> int:
    """A timestamp in microseconds since 1970, what is finer cut off."""
    seconds = instant(text)
    assert seconds is not None, text
    return int((seconds - _days_before(1970, 1, 1) * 86400) * 10**6 // 1)


def _offset_seconds(match: re.Match[str]) -> int | None:
    if match[8] is None:
        return 0
    hours, minutes = int(match[9]), int(match[10])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _exists(year: int, month: int, day: int) -> bool:
    if not 1 <= month <= 12:
        return False
    leap_day = 1 if month == 2 and _is_leap(year) else 0
    return 1 <= day <= _MONTH_DAYS[month - 1] + leap_day


def _days_before(year: int, month: int, day: int) -> int:
    leap_days = (year + 3) // 4 - (year + 99) // 100 + (year + 399) // 400
    leap_day = 1 if month > 2 and _is_leap(year) else 0
    return year * 365 + leap_days + sum(_MONTH_DAYS[: month - 1]) + leap_day + day - 1


def utc_day(microseconds: int) -> str:
    """The UTC day of a timestamp, as `2026-04-28`."""
    return _day(microseconds // 86_400_000_000)


@cache
def _day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
