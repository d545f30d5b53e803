"""Errors of the world outside, as one sentence for the person at the terminal."""

import errno

from ilyama_resources.errors import PlatformError

_FULL = "No space left on device"
DISK_FULL = (
    "the disk is full. Nothing is lost: free some space and run the command again, "
    "it goes on where it stopped."
)


def sentence_of(error: BaseException) -> str | None:
    """What to tell a person, or None when the error is our own fault and needs its traceback."""
    if _is_disk_full(error):
        return DISK_FULL
    if isinstance(error, PlatformError):
        return str(error)
    origin = type(error).__module__.partition(".")[0]
    if origin in ("pyspark", "grpc"):
        return f"Spark does not answer: {_first_line(error)}. Run the command again."
    if origin in ("sqlalchemy", "psycopg2") and "Operational" in type(error).__name__:
        from ilyama_resources.postgres.outages import is_refusal

        if is_refusal(getattr(error, "orig", error)):
            return f"Postgres refuses what it was asked for: {_first_line(error)}."
        return f"Postgres does not answer: {_first_line(error)}. Run the command again."
    if origin == "dagster_postgres" and error.__cause__ is not None:
        return sentence_of(error.__cause__)
    return None


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return _FULL in str(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:300]
