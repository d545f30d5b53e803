"""Dagster's storage in Postgres, without asking Postgres the same thing again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster._serdes import ConfigurableClassData
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.run_storage import PostgresRunStorage
from sqlalchemy import Connection


class RememberingRuns(PostgresRunStorage):
    """Dagster's own reads the catalog of Postgres for every change of a run.

    It looks whether columns of an older release are there yet; one that was there is there.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._has_stats = self._has_backfills = False
        super().__init__(*words, **named)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> RememberingRuns:
        """Make the storage that Dagster's configuration asks for."""
        return cls(inst_data=inst_data, **config_value)

    def has_run_stats_index_cols(self) -> bool:
        """Whether runs have the columns of their times."""
        self._has_stats = self._has_stats or super().has_run_stats_index_cols()
        return self._has_stats

    def has_backfill_id_column(self) -> bool:
        """Whether runs have the column of their backfill."""
        self._has_backfills = self._has_backfills or super().has_backfill_id_column()
        return self._has_backfills


class RememberingEventLog(PostgresEventLogStorage):
    """Dagster's own reads the catalog of Postgres up to five times for each event.

    And it asks for the partition of a run some thirty times. Tables, columns and days only ever
    come to be; one that was there is there.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        """Know of nothing yet."""
        self._tables_seen: set[str] = set()
        self._columns_seen: set[str] = set()
        self._partitions_seen: set[tuple[str, str]] = set()
        super().__init__(*words, **named)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> RememberingEventLog:
        """Make the storage that Dagster's configuration asks for."""
        return cls(inst_data=inst_data, **config_value)

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
