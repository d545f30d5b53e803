"""What a person is told when the world outside fails."""

import errno

import pytest
from dagster_postgres.utils import DagsterPostgresException
from pyspark.errors import PySparkException
from sqlalchemy.exc import OperationalError

from ilyama_resources.errors import PlatformError
from ilyama_service.cli.sentences import DISK_FULL, sentence_of


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PlatformError("drain 3 is held"), "drain 3 is held"),
        (OSError(errno.ENOSPC, "No space left on device"), DISK_FULL),
        (RuntimeError("commit failed: No space left on device (os error 28)"), DISK_FULL),
        (
            PySparkException("connection refused\nat ..."),
            "Spark does not answer: connection refused",
        ),
        (OperationalError("SELECT 1", {}, Exception("gone")), "Postgres does not answer: "),
    ],
    ids=["our own", "disk full", "disk full elsewhere", "spark", "postgres"],
)
def test_a_failure_outside_is_a_sentence(error: Exception, told: str) -> None:
    assert (sentence_of(error) or "").startswith(told)


def test_dagster_that_gave_up_on_postgres_says_what_was_wrong() -> None:
    gave_up = DagsterPostgresException("too many retries for DB connection")
    gave_up.__cause__ = OperationalError("SELECT 1", {}, Exception("gone"))

    assert (sentence_of(gave_up) or "").startswith("Postgres does not answer: ")


def test_a_bug_keeps_its_traceback() -> None:
    assert sentence_of(KeyError("row")) is None
