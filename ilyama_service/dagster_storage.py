"""Dagster's storage in Postgres, with connections that stay open and fewer questions.

Dagster's own opens a connection for every statement, and asks Postgres the same thing again and
again: a run would open some two hundred.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Self

from dagster import DagsterEventType, EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.schedule_storage import PostgresScheduleStorage
from dagster_postgres.utils import create_pg_engine
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

_PLANNED: Final = {
    DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
}

_NUMBER: Final = SqlEventLogStorageTable.c.id
_INSERT: Final = SqlEventLogStorageTable.insert().returning(_NUMBER, sort_by_parameter_order=True)
_AS_MANY_AS_NEEDED: Final = -1
_TRUSTED_S: Final = 1.0
_LAST_USED: Final = "last used"


class _LastingConnections:
    """One connection stays open; who needs more at a time gets more, as if nothing were kept.

    It is tried when it has not been used for a while: Postgres may have been started again.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Connect when first asked."""
        super().__init__(*words, **named)
        self._engine = create_pg_engine(
            named["postgres_url"],
            named.get("token_provider"),
            isolation_level="AUTOCOMMIT",
            pool_size=1,
            max_overflow=_AS_MANY_AS_NEEDED,
        )
        _try_when_idle(self._engine)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """Make the storage that Dagster's configuration asks for."""
        return cls(inst_data=inst_data, **config_value)

    def dispose(self) -> None:
        """Close what is open."""
        super().dispose()  # type: ignore[misc]
        self._engine.dispose()


def _try_when_idle(engine: Engine) -> None:
    """Ask a connection that was idle whether it is still one; the pool replaces it if not."""

    def try_it(connection: DBAPIConnection, entry: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - entry.info.get(_LAST_USED, 0.0) > _TRUSTED_S:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise DisconnectionError from error

    def note_use(_: object, entry: ConnectionPoolEntry) -> None:
        entry.info[_LAST_USED] = time.monotonic()

    event.listen(engine, "checkout", try_it)
    event.listen(engine, "checkin", note_use)


class LastingSchedules(_LastingConnections, PostgresScheduleStorage):
    """Where Dagster keeps the ticks of its sensors."""


class RememberingRuns(_LastingConnections, PostgresRunStorage):
    """Dagster's own reads the catalog of Postgres for every change of a run.

    It looks whether columns of an older release are there yet; one that was there is there.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._has_stats = self._has_backfills = False
        super().__init__(*words, **named)

    def has_run_stats_index_cols(self) -> bool:
        """Whether runs have the columns of their times."""
        self._has_stats = self._has_stats or super().has_run_stats_index_cols()
        return self._has_stats

    def has_backfill_id_column(self) -> bool:
        """Whether runs have the column of their backfill."""
        self._has_backfills = self._has_backfills or super().has_backfill_id_column()
        return self._has_backfills


class RememberingEventLog(_LastingConnections, PostgresEventLogStorage):
    """Dagster's own reads the catalog of Postgres up to five times for each event.

    And it asks for the partition of a run some thirty times. Tables, columns and days only ever
    come to be; one that was there is there. It notifies listeners of every event, of which its
    releases have none any more, stores one by one what a run is going to do, and each event in
    several transactions. That a step put something out is stored with what it was, which follows
    at once.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._storing = threading.local()
        self._put_out: list[EventLogEntry] = []
        self._one_at_a_time = threading.Lock()
        self._tables_seen: set[str] = set()
        self._columns_seen: set[str] = set()
        self._partitions_seen: set[tuple[str, str]] = set()
        super().__init__(*words, **named)

    def store_event(self, event: EventLogEntry) -> None:
        """Store what has happened, or keep it until what follows is stored."""
        with self._one_at_a_time:
            self._put_out.append(event)
        if event.dagster_event_type is not DagsterEventType.STEP_OUTPUT:
            self._store_what_was_kept()

    def _store_what_was_kept(self) -> None:
        with self._one_at_a_time:
            kept, self._put_out = self._put_out, []
        self._store(kept)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store together what Dagster tells together."""
        if {told.dagster_event_type for told in events} <= _PLANNED:
            self._store(events)
        else:
            super().store_event_batch(events)

    def _store(self, events: Sequence[EventLogEntry]) -> None:
        if not events:
            return
        rows = [self._event_to_row(told) for told in events]
        is_alone = not any(map(_has_followers, events))
        with self._connect() if is_alone else self._one_transaction() as connection:
            numbers = connection.scalars(_INSERT, rows if len(rows) > 1 else rows[0]).all()
            numbered = list(zip(events, numbers, strict=True))
            self._store_of_assets(connection, [one for one in numbered if _is_of_asset(one[0])])
            for told, number in numbered:
                if told.dagster_event_type in ASSET_CHECK_EVENTS:
                    self.store_asset_check_event(told, number)

    def _store_of_assets(
        self, connection: Connection, numbered: Sequence[tuple[EventLogEntry, int]]
    ) -> None:
        if not numbered:
            return
        self._store_asset_event_tags(connection, *zip(*numbered, strict=True))
        for told, number in numbered:
            self._store_asset_event(connection, told, number)

    @contextmanager
    def _one_transaction(self) -> Iterator[Connection]:
        """Let everything that this thread asks for meanwhile be asked in one transaction."""
        with self.index_transaction() as connection:
            self._storing.connection = connection
            try:
                yield connection
            finally:
                self._storing.connection = None

    def _connect(self) -> AbstractContextManager[Connection]:
        storing: Connection | None = getattr(self._storing, "connection", None)
        if storing is not None:
            return nullcontext(storing)
        if self._put_out:
            self._store_what_was_kept()
        return super()._connect()

    def has_table(self, table_name: str) -> bool:
        """Whether there is a table."""
        if table_name not in self._tables_seen and super().has_table(table_name):
            self._tables_seen.add(table_name)
        return table_name in self._tables_seen

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether there is a partition."""
        partition = (partitions_def_name, partition_key)
        if partition not in self._partitions_seen and super().has_dynamic_partition(*partition):
            self._partitions_seen.add(partition)
        return partition in self._partitions_seen

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        """Remove a partition."""
        self._partitions_seen.discard((partitions_def_name, partition_key))
        super().delete_dynamic_partition(partitions_def_name, partition_key)

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._columns_seen and super()._has_asset_key_col_on_connection(
            conn, column_name
        ):
            self._columns_seen.add(column_name)
        return column_name in self._columns_seen


def _has_followers(event: EventLogEntry) -> bool:
    """Whether something else is stored for an event than the event."""
    return _is_of_asset(event) or event.dagster_event_type in ASSET_CHECK_EVENTS


def _is_of_asset(event: EventLogEntry) -> bool:
    told = event.dagster_event
    return told is not None and told.event_type in ASSET_EVENTS and told.asset_key is not None
