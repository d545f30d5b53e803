"""Dagster's event log in Postgres: a run writes it while it works, and asks nothing twice."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Final

from dagster import EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from sqlalchemy import Connection

MOST_WAITING: Final = 1_000


class RememberingEventLog(PostgresEventLogStorage):
    """Dagster's own, but for two things.

    That reads the catalog of Postgres up to five times for each event, and asks for the partition
    of a run some thirty times. Tables, columns and days only ever come to be; one that was there
    is there.

    And it lets a run wait for each of its events. Here a thread writes them, in their order and as
    many together as wait. Who reads sees them all, and whoever learns that a run has begun or ended
    finds all its events before that; at the end of the process the rest is written.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._tables_seen: set[str] = set()
        self._columns_seen: set[str] = set()
        self._partitions_seen: set[tuple[str, str]] = set()
        self._behind = _WrittenBehind(self._store_together)
        super().__init__(*words, **named)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> RememberingEventLog:
        """Make the storage that Dagster's configuration asks for."""
        return cls(inst_data=inst_data, **config_value)

    def store_event(self, event: EventLogEntry) -> None:
        """Store what happened, at once or soon."""
        if _can_wait(event):
            self._behind.take(event)
        else:
            self._behind.wait()
            super().store_event(event)

    def _store_together(self, events: Sequence[EventLogEntry]) -> None:
        """What Dagster does for each, with one insert for all."""
        rows = [self._event_to_row(event) for event in events]
        number = SqlEventLogStorageTable.c.id
        statement = SqlEventLogStorageTable.insert().returning(number, sort_by_parameter_order=True)
        with self._connect() as connection:
            numbers = list(connection.scalars(statement, rows))
        numbered = list(zip(events, numbers, strict=True))
        of_assets = [told for told in numbered if _is_of_asset(told[0])]
        if of_assets:
            with self.index_transaction() as connection:
                self._store_asset_event_tags(connection, *zip(*of_assets, strict=True))
                for event, event_id in of_assets:
                    self._store_asset_event(connection, event, event_id)
        for event, event_id in numbered:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, event_id)

    def dispose(self) -> None:
        """Write what waits, and let go of the database."""
        self._behind.wait()
        super().dispose()

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

    def _connect(self) -> AbstractContextManager[Connection]:
        self._behind.wait()
        return super()._connect()


def _can_wait(event: EventLogEntry) -> bool:
    """Whether it is of a run, and does not say how that stands."""
    told = event.dagster_event
    return bool(event.run_id) and (told is None or not told.is_job_event)


def _is_of_asset(event: EventLogEntry) -> bool:
    told = event.dagster_event
    return told is not None and told.event_type in ASSET_EVENTS and told.asset_key is not None


class _WrittenBehind:
    """Events that a thread stores in their order while their sender goes on."""

    def __init__(self, store: Callable[[Sequence[EventLogEntry]], None]) -> None:
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._events: deque[EventLogEntry] = deque()
        self._waiting: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="event-log")
        self._writer: int | None = None

    def take(self, event: EventLogEntry) -> None:
        """Have an event stored soon; raises what went wrong with one before."""
        if self._process != os.getpid():
            self._begin()  # Threads do not follow into a fork.
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= MOST_WAITING):
            self._waiting.popleft().result()
        self._events.append(event)
        self._waiting.append(self._thread.submit(self._write))

    def wait(self) -> None:
        """Return when all is stored."""
        if threading.get_ident() == self._writer or self._process != os.getpid():
            return
        while self._waiting:
            self._waiting.popleft().result()

    def _write(self) -> None:
        """Store what has come until now; whoever comes later finds nothing left."""
        self._writer = threading.get_ident()
        events = [self._events.popleft() for _ in range(len(self._events))]
        if events:
            self._store(events)
