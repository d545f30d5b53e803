"""Postgres that is away is told apart from one that refuses."""

from typing import Any, cast

import psycopg2
import pytest
from psycopg2 import errors
from sqlalchemy.exc import OperationalError

from ilyama_resources.postgres.outages import is_outage, is_refusal, may_pass
from ilyama_service.cli.sentences import sentence_of


def told_by_the_server(kind: type[psycopg2.Error], code: str) -> psycopg2.Error:
    """An error as the driver makes it of what the server sends."""
    error: Any = kind("no")
    error.__setstate__({"pgcode": code})
    return cast(psycopg2.Error, error)


AWAY = [
    psycopg2.OperationalError("connection refused"),
    psycopg2.InterfaceError("connection already closed"),
    psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"),
    told_by_the_server(errors.ConnectionFailure, "08006"),
    told_by_the_server(errors.AdminShutdown, "57P01"),
    told_by_the_server(errors.CrashShutdown, "57P02"),
    told_by_the_server(errors.CannotConnectNow, "57P03"),
]
REFUSED = [
    (told_by_the_server(errors.ProgramLimitExceeded, "54000"), False),
    (told_by_the_server(errors.DiskFull, "53100"), True),
    (told_by_the_server(errors.LockNotAvailable, "55P03"), True),
    (told_by_the_server(errors.QueryCanceled, "57014"), True),
    (told_by_the_server(errors.DeadlockDetected, "40P01"), True),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_who_is_not_there_does_not_answer(error: psycopg2.Error) -> None:
    assert is_outage(error)
    assert not is_refusal(error)


@pytest.mark.parametrize(("error", "passes"), REFUSED, ids=lambda of: type(of).__name__)
def test_who_is_there_and_refuses_is_no_outage(error: psycopg2.Error, *, passes: bool) -> None:
    assert not is_outage(error)
    assert is_refusal(error)
    assert may_pass(error) is passes
    told = sentence_of(OperationalError("INSERT", {}, error))
    assert told == "Postgres refuses what it was asked for: (" + _name(error) + ") no."


def _name(error: psycopg2.Error) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


def test_a_broken_rule_is_neither() -> None:
    broken = told_by_the_server(errors.UniqueViolation, "23505")
    assert not is_outage(broken)
    assert not is_refusal(broken)
