"""Dagster's storage in Postgres, with connections that stay open and fewer questions.

Dagster's own opens a connection for every statement, and asks Postgres the same thing again and
again: a run would open some two hundred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from dagster import DagsterEventType, EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.schedule_storage import PostgresScheduleStorage
from dagster_postgres.utils import create_pg_engine
from sqlalchemy import Connection

_PLANNED: Final = {
    DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
}

_AS_MANY_AS_NEEDED: Final = -1


class _LastingConnections:
    """One connection stays open; who needs more at a time gets more, as if nothing were kept.

    It is tried before it is used, since Postgres may have been started again.
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
            pool_pre_ping=True,
        )

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
    releases have none any more, and stores one by one what a run is going to do.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._tables_seen: set[str] = set()
        self._columns_seen: set[str] = set()
        self._partitions_seen: set[tuple[str, str]] = set()
        super().__init__(*words, **named)

    def store_event(self, event: EventLogEntry) -> None:
        """Store what has happened."""
        self._store([event])

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store together what Dagster tells together."""
        if {event.dagster_event_type for event in events} <= _PLANNED:
            self._store(events)
        else:
            super().store_event_batch(events)

    def _store(self, events: Sequence[EventLogEntry]) -> None:
        if not events:
            return
        rows = [self._event_to_row(event) for event in events]
        number = SqlEventLogStorageTable.c.id
        statement = SqlEventLogStorageTable.insert().returning(number, sort_by_parameter_order=True)
        with self._connect() as connection:
            numbers = connection.scalars(statement, rows if len(rows) > 1 else rows[0]).all()
        numbered = list(zip(events, numbers, strict=True))
        self._store_of_assets([told for told in numbered if _is_of_asset(told[0])])
        for event, event_id in numbered:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, event_id)

    def _store_of_assets(self, numbered: Sequence[tuple[EventLogEntry, int]]) -> None:
        if not numbered:
            return
        events, numbers = zip(*numbered, strict=True)
        with self.index_transaction() as connection:
            self._store_asset_event_tags(connection, events, numbers)
            for event, event_id in numbered:
                self._store_asset_event(connection, event, event_id)

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


def _is_of_asset(event: EventLogEntry) -> bool:
    told = event.dagster_event
    return told is not None and told.event_type in ASSET_EVENTS and told.asset_key is not None
