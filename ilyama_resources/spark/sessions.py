"""Sessions on a warm Spark Connect server: one per role.

A role's session id is fixed, so that a new process finds the Python workers of the one before it
still warm; it contains the build, so that workers of an older build are never met. Nothing here
imports Dagster or the settings: a process that only asks Spark something has its answer before
they are loaded.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid4, uuid5

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import (
    PythonException,
    SparkConnectGrpcException,
    SparkException,
)
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.logging import logger as client_log

from ilyama_resources.build import LOADED_BUILD

_RETRIES = 6
_BACKOFF_MS = 2_000
"""A server that does not come back within seconds is gone; Spark itself would ask for minutes."""

_CONFIGURATION: dict[str, Any] = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Other readers take Spark's INT96 for nanoseconds, in which years before 1677 cannot be held."""

# What Spark's client raises it also logs with its traceback; who catches it tells a person once.
# It does so disabled, until somebody else configures logging and thereby enables all there is.
client_log.setLevel(logging.CRITICAL)


@contextmanager
def spark_session(remote: str, role: str) -> Iterator[SparkSession]:
    """A session for code that does not run inside Dagster."""
    session = open_session(remote, role)
    try:
        yield session
    finally:
        release(session)


def open_session(remote: str, role: str) -> SparkSession:
    """The warm session of a role; a fresh one when the server has closed it."""
    try:
        session = _session(with_session(remote, role))
        _ = session.version
    except PySparkException:
        session = _session(_addressed(remote, f"{uuid4()}"))
    return session


def with_session(remote: str, role: str) -> str:
    """The address of a role's own session on a server."""
    return _addressed(remote, f"{uuid5(NAMESPACE_URL, f'ilyama:{role}:{LOADED_BUILD}')}")


def _addressed(remote: str, session_id: str) -> str:
    """An address with a session; what is told of a server comes behind a slash."""
    separator = ";" if "/" in remote.removeprefix("sc://") else "/;"
    return f"{remote}{separator}session_id={session_id}"


def release(session: Any) -> None:
    """Close the connection without closing the session on the server."""
    session.release_session_on_close = False
    session.stop()


def _session(remote: str) -> SparkSession:
    session: Any = SparkSession.builder.remote(remote).create()
    session.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, max_backoff=_BACKOFF_MS)]
    )
    for name, value in _CONFIGURATION.items():
        session.conf.set(name, value)
    return cast(SparkSession, session)


def gist(error: PySparkException) -> str:
    """The line of a Spark error that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[-1][:500]


def is_connection_lost(error: PySparkException) -> bool:
    """Whether the server went away, rather than a task of it failed."""
    return isinstance(error, SparkConnectGrpcException) and not isinstance(
        error, PythonException | SparkException
    )
