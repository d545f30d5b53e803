"""RFC 3339 timestamps as exact instants: integers of nanoseconds since 1970 in UTC."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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


class Instants(NamedTuple):
    """Many instants: cut to microseconds, and the exact first and last of them."""

    microseconds: array[int]
    first: int
    last: int


def instants_of(texts: Sequence[str]) -> Instants | None:
    """Return the instants of one or more texts, None when one of them is not RFC 3339."""
    alike = _alike_microseconds(texts) if len(texts) >= _MANY else None
    if alike is not None:
        exact = (int(alike.min()) * 1_000, int(alike.max()) * 1_000)
        return Instants(array("q", alike.tobytes()), *exact)
    instants = [parse_instant(text) for text in texts]
    known = [instant for instant in instants if instant is not None]
    if len(known) < len(texts):
        return None
    return Instants(array("q", map(microseconds, known)), min(known), max(known))


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


def _alike_microseconds(texts: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """Return the microseconds of UTC texts that all look like the first, None for others."""
    size = len(texts[0])
    if size not in _ALIKE_SIZES or {*map(len, texts)} != {size}:
        return None
    octets = np.frombuffer("".join(texts).encode(), np.uint8)
    if len(octets) != size * len(texts):
        return None
    table = octets.reshape(len(texts), size)
    marks = [*_MARKS, *([_POINT] if size > _WITHOUT_FRACTION else []), (size - 1, b"Zz")]
    if not all(np.isin(table[:, at], [*letters]).all() for at, letters in marks):
        return None
    digits = np.delete(table, [at for at, _ in marks], axis=1) - ord("0")
    if (digits > 9).any():
        return None
    return _civil_microseconds(digits.astype(np.int64))


def _civil_microseconds(digits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Return the microseconds of digits of year, month, day, hour, minute, second and fraction."""
    year = digits[:, :4] @ [1000, 100, 10, 1]
    month, day, hour, minute, second = (digits[:, at : at + 2] @ [10, 1] for at in _PAIRS)
    legal = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    legal &= (hour <= 23) & (minute <= 59) & (second <= 59)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = _MONTH_DAYS[np.minimum(month, 12)] + (leap & (month == 2))
    if not (legal & (day <= longest)).all():
        return None
    # Years that begin in March have their odd day at the end.
    shifted, months = year - (month <= 2), (month + 9) % 12
    days = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    days += (153 * months + 2) // 5 + day - 1 - _DAYS_TO_1970
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    fraction = digits[:, _FIRST_OF_FRACTION:]
    weights = 10 ** np.arange(5, 5 - fraction.shape[1], -1)
    moments: npt.NDArray[np.int64] = seconds * 1_000_000 + fraction @ weights
    return moments


_MANY = 16
_ALIKE_SIZES = (20, *range(22, 28))
"""With no fraction, or with one of up to six digits."""
_WITHOUT_FRACTION = 20
_MARKS = ((4, b"-"), (7, b"-"), (10, b"Tt"), (13, b":"), (16, b":"))
_POINT = (19, b".")
_PAIRS = (4, 6, 8, 10, 12)
_FIRST_OF_FRACTION = 14
_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DAYS_TO_1970 = 719_468


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
