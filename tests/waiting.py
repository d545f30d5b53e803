"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable

from sqlalchemy import create_engine, text

from ilyama_resources.postgres import Gateway

_WAITING = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def eventually(
    condition: Callable[[], bool], *, within_s: float = 60, every_s: float = 0.02
) -> bool:
    """Tell whether `condition` comes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def somebody_waits(gateway: Gateway) -> bool:
    """Tell whether a transaction waits to be alone."""
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        waiting = connection.scalar(_WAITING)
    engine.dispose()
    return bool(waiting)
