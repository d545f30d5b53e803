"""Transactions and locks over the record database.

Errors:
    GatewayUnavailable   Postgres cannot be reached or went away
    GatewayRefused       Postgres answers, but does not do what it was asked for
    LockTaken            another process holds the lock that was asked for
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Self

import psycopg2
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres.api_tokens import ApiTokens
from ilyama_resources.postgres.audit import AuditLog
from ilyama_resources.postgres.current_instances import CurrentInstances
from ilyama_resources.postgres.current_values import CurrentValues
from ilyama_resources.postgres.derived_runs import DerivedRuns
from ilyama_resources.postgres.device_states import DeviceStates
from ilyama_resources.postgres.device_table_moves import DeviceTableMoves
from ilyama_resources.postgres.devices import Devices
from ilyama_resources.postgres.drains import Drains
from ilyama_resources.postgres.events import Events
from ilyama_resources.postgres.gaps import Gaps
from ilyama_resources.postgres.governance.bindings import Bindings
from ilyama_resources.postgres.governance.moved_devices import MovedDevices
from ilyama_resources.postgres.governance.open_reviews import OpenReviews
from ilyama_resources.postgres.governance.policies import Policies
from ilyama_resources.postgres.governance.review_queue import ReviewQueue
from ilyama_resources.postgres.governance.reviews import Reviews
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchemas
from ilyama_resources.postgres.idempotent_answers import IdempotentAnswers
from ilyama_resources.postgres.ledger import Ledger
from ilyama_resources.postgres.lineages import Lineages
from ilyama_resources.postgres.outages import is_outage, is_refusal, may_pass
from ilyama_resources.postgres.pauses import Pauses
from ilyama_resources.postgres.record_version import is_newest, upgrade
from ilyama_resources.postgres.registries import Registries
from ilyama_resources.postgres.rejection_replays import RejectionReplays
from ilyama_resources.postgres.rejections import Rejections
from ilyama_resources.postgres.segments import Segments
from ilyama_resources.postgres.sequence_resets import SequenceResets
from ilyama_resources.postgres.sequences import Sequences
from ilyama_resources.postgres.staged_backlog import StagedBacklog
from ilyama_resources.postgres.warehouses import Warehouses

_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A server that is cut off is given up within seconds; TCP by itself would wait for minutes."""
_migrated: set[str] = set()
"""The addresses whose schema this process has brought to the newest version."""


class GatewayUnavailable(PlatformError):
    """Postgres cannot be reached, or went away in the middle."""


class GatewayRefused(PlatformError):
    """Postgres is there, and refuses; `may_pass` says whether it may do it another time."""

    def __init__(self, sentence: str, *, may_pass: bool) -> None:
        super().__init__(sentence)
        self.may_pass = may_pass


class LockTaken(PlatformError):
    """Another process holds the lock."""


class Transaction:
    """One Postgres transaction; leaving it without `commit` rolls back."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.segments = Segments(connection)
        self.drains = Drains(connection)
        self.devices = Devices(connection)
        self.moved_devices = MovedDevices(connection)
        self.device_states = DeviceStates(connection)
        self.device_table_moves = DeviceTableMoves(connection)
        self.shelved_schemas = ShelvedSchemas(connection)
        self.current_instances = CurrentInstances(connection)
        self.current_values = CurrentValues(connection)
        self.ledger = Ledger(connection)
        self.pauses = Pauses(connection)
        self.backlog = StagedBacklog(connection)
        self.lineages = Lineages(connection)
        self.sequence_resets = SequenceResets(connection)
        self.events = Events(connection)
        self.audit = AuditLog(connection)
        self.rejections = Rejections(connection)
        self.rejection_replays = RejectionReplays(connection)
        self.registries = Registries(connection)
        self.derived_runs = DerivedRuns(connection)
        self.sequences = Sequences(connection)
        self.gaps = Gaps(connection)
        self.warehouses = Warehouses(connection)
        self.policies = Policies(connection)
        self.bindings = Bindings(connection)
        self.reviews = Reviews(connection)
        self.open_reviews = OpenReviews(connection)
        self.review_queue = ReviewQueue(connection)
        self.api_tokens = ApiTokens(connection)
        self.idempotent_answers = IdempotentAnswers(connection)

    def commit(self) -> None:
        """Make everything done so far durable."""
        self._connection.commit()

    def __enter__(self) -> Self:
        """Enter the transaction."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Roll back what was not committed."""
        self._connection.close()


class Gateway:
    """The door to the records of one platform."""

    def __init__(self, url: str) -> None:
        self.url = url

    @cached_property
    def _engine(self) -> Engine:
        return create_engine(self.url, pool_pre_ping=True, pool_size=4, connect_args=_PATIENCE)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction; it takes effect only when it is committed."""
        with _as_gateway_errors(), Transaction(self._engine.connect()) as transaction:
            yield transaction

    @contextmanager
    def lock(self, name: str, *, wait: bool = True, shared: bool = False) -> Iterator[None]:
        """Hold a lock that dies with this process, alone or with others, or raise LockTaken."""
        with _as_gateway_errors(), self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            lock = _AdvisoryLock(connection, _lock_key(name), shared=shared)
            if not lock.take(wait=wait):
                raise LockTaken(name)
            try:
                yield
            finally:
                lock.release()

    def is_free(self, name: str) -> bool:
        """Whether nobody holds a lock."""
        try:
            with self.lock(name, wait=False):
                return True
        except LockTaken:
            return False

    def migrate(self) -> None:
        """Bring the schema to the newest version, once; safe to call from several processes."""
        if self.url in _migrated:
            return
        if not self.is_migrated():
            with self.lock("migrations"), self._engine.connect() as connection:
                upgrade(connection)
                connection.commit()
        _migrated.add(self.url)

    def ping(self) -> None:
        """Ask Postgres for a sign of life; GatewayUnavailable when there is none."""
        with _as_gateway_errors(), self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def is_migrated(self) -> bool:
        """Tell whether the schema is the newest version."""
        with _as_gateway_errors(), self._engine.connect() as connection:
            return is_newest(connection)

    def ensure_database(self, name: str) -> str:
        """Create a database beside this one when it is missing, and return its URL."""
        url = make_url(self.url).set(database=name)
        with self.lock(f"database {name}"), self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            query = text("SELECT 1 FROM pg_database WHERE datname = :name")
            if connection.scalar(query, {"name": name}) is None:
                quoted = connection.dialect.identifier_preparer.quote_identifier(name)
                connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
        return url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()


def _lock_key(name: str) -> int:
    digest = hashlib.sha256(f"ilyama {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


class _AdvisoryLock:
    def __init__(self, connection: Connection, key: int, *, shared: bool) -> None:
        self._connection = connection
        self._key = {"key": key}
        self._suffix = "_shared" if shared else ""

    def take(self, *, wait: bool) -> bool:
        verb = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        taken = self._connection.scalar(text(f"SELECT {verb}{self._suffix}(:key)"), self._key)
        return taken is not False

    def release(self) -> None:
        if not self._connection.invalidated and not self._connection.closed:
            verb = f"pg_advisory_unlock{self._suffix}"
            self._connection.execute(text(f"SELECT {verb}(:key)"), self._key)


@contextmanager
def _as_gateway_errors() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg2.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        if getattr(error, "connection_invalidated", False) or is_outage(cause):
            raise GatewayUnavailable(f"Postgres does not answer: {reason}") from error
        if is_refusal(cause):
            told = f"Postgres refuses what it was asked for: {reason}"
            raise GatewayRefused(told, may_pass=may_pass(cause)) from error
        raise
    except NoConnectionFree as error:
        raise GatewayUnavailable("Postgres has no connection free: all are in use") from error
