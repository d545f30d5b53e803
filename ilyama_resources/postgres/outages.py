"""What an error of the driver says: Postgres is away, or it is there and refuses.

An error that the server sends has a SQLSTATE; one that the driver makes has none, since nobody
answered. Of those that the server sends, some end the connection with it.
"""

from __future__ import annotations

import psycopg2

_ENDS_THE_CONNECTION = ("08", "57P0")
_MAY_PASS = ("40", "53", "55", "57", "58")


def is_outage(cause: BaseException | None) -> bool:
    """Whether Postgres could not be reached, or went away."""
    if not isinstance(cause, psycopg2.Error):
        return False
    if cause.pgcode is not None:
        return cause.pgcode.startswith(_ENDS_THE_CONNECTION)
    # What the server itself says is always of a narrower class than this one.
    nothing_said = type(cause) is psycopg2.DatabaseError
    return nothing_said or isinstance(cause, psycopg2.OperationalError | psycopg2.InterfaceError)


def is_refusal(cause: BaseException | None) -> bool:
    """Whether Postgres is there, and could not do what it was asked for."""
    return isinstance(cause, psycopg2.OperationalError) and not is_outage(cause)


def may_pass(cause: BaseException | None) -> bool:
    """Whether Postgres may do later what it refuses now."""
    code = cause.pgcode if isinstance(cause, psycopg2.Error) else None
    return code is not None and code.startswith(_MAY_PASS)
