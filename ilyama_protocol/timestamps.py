"""RFC 3339 timestamps as exact instants: integers of nanoseconds since 1970 in UTC."""

import re
from datetime import date

_RFC3339 = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_SECOND = (date(1, 1, 1).toordinal() - _EPOCH_DAY) * 86_400
_LAST_SECOND = (date(9999, 12, 31).toordinal() - _EPOCH_DAY + 1) * 86_400 - 1
_LAST_DAY_OF_YEAR_0 = date(1, 1, 1).toordinal() - 1


def parse_instant(text: str) -> int | None:
    """Return the instant in nanoseconds, or None when the text is not RFC 3339.

    Leap seconds, more than nine digits of fraction, and instants outside the years 0001 to 9999
    in UTC are refused.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    day = _ordinal(int(match[1]), month=int(match[2]), day=int(match[3]))
    if day is None:
        return None
    clock = int(match[4]) * 3_600 + int(match[5]) * 60 + int(match[6])
    seconds = (day - _EPOCH_DAY) * 86_400 + clock - _offset_seconds(match)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        return None
    return seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0"))


def instant_of(text: str) -> int:
    """Return the instant in nanoseconds of a text that is known to be RFC 3339.

    Raises:
        ValueError: It is not.
    """
    instant = parse_instant(text)
    if instant is None:
        raise ValueError(f"{text!r} is not an RFC 3339 timestamp")
    return instant


def microseconds(instant: int) -> int:
    """Cut an instant to the microseconds that are kept of it."""
    return instant // 1_000


def _ordinal(year: int, *, month: int, day: int) -> int | None:
    # The last day of year 0 reaches year 1 in UTC by its offset; `date` does not know it.
    if (year, month, day) == (0, 12, 31):
        return _LAST_DAY_OF_YEAR_0
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return None


def _offset_seconds(match: re.Match[str]) -> int:
    if match[8] is None:
        return 0
    seconds = int(match[9]) * 3_600 + int(match[10]) * 60
    return -seconds if match[8] == "-" else seconds
