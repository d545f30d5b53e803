"""Moments as microseconds since 1970 in UTC, and their days."""

from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS_PER_DAY = 86_400_000_000
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Return a moment as microseconds since 1970."""
    return (moment - EPOCH) // _MICROSECOND


def utc(at: int) -> datetime:
    """Return the moment that lies so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=at)


def day_number(at: int) -> int:
    """Return the UTC day of a moment as days since 1970."""
    return at // MICROSECONDS_PER_DAY


def day_of(at: int) -> date:
    """Return the UTC day of a moment."""
    return EPOCH.date() + timedelta(days=day_number(at))
