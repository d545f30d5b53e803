"""The Delta warehouse: tables that drains add files to, each drain exactly once.

Data files are written straight into a table's directory and stay invisible until a commit names
them. A commit carries the drain's number as an application transaction of the table; a commit
that finds its number already recorded has nothing left to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from ilyama_resources.durability import force_to_disk, make_directory

PARTITION = "day"
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table and what it means."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = True
    skipping: bool = True
    """Whether files carry its smallest and largest value; not worth it for long texts."""


@dataclass(frozen=True)
class TableContract:
    """What a table promises to those who read it."""

    name: str
    description: str
    columns: tuple[TableColumn, ...]
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the whole table, its partition column included."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    @property
    def spark_file_schema(self) -> str:
        """The schema of a data file in Spark's words."""
        names = {pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
        names |= {pa.string(): "string", pa.binary(): "binary"}
        return ", ".join(f"`{f.name}` {names.get(f.type, 'timestamp')}" for f in self.file_schema)

    @property
    def file_schema(self) -> pa.Schema:
        """The Arrow schema of a data file, which leaves the partition column to its directory."""
        return pa.schema([f for f in self.schema if f.name != PARTITION])


class DataFile(msgspec.Struct, frozen=True):
    """A written, not yet visible file of a table."""

    table: str
    path: str
    size: int
    rows: int
    day: str
    modified_ms: int
    statistics: str


class Warehouse:
    """The directory of Delta tables that belongs to one record database."""

    def __init__(self, root: Path, identity: str) -> None:
        self.root = root
        self.identity = identity
        self._tables: dict[str, DeltaTable] = {}

    def location(self, table: str) -> Path:
        """The directory of a table."""
        return self.root / table

    def ensure(self, contract: TableContract) -> None:
        """Create a table, with its constraints, when it is missing."""
        location = self.location(contract.name)
        try:
            table = DeltaTable(location)
        except TableNotFoundError:
            make_directory(location)
            table = DeltaTable.create(
                location,
                schema=contract.schema,
                mode="ignore",
                partition_by=[PARTITION] if PARTITION in contract.schema.names else None,
                name=contract.name,
                description=contract.description,
                configuration=_PROPERTIES,
            )
        declared = table.metadata().configuration
        for name, expression in contract.constraints.items():
            if f"delta.constraints.{name}" not in declared:
                table.alter.add_constraint({name: expression})
        self._tables[contract.name] = table

    def recorded(self, table: str) -> int:
        """The highest drain that the table has taken; 0 when none."""
        return self._current(table).transaction_version(self._transaction_id(table)) or 0

    def add(self, table: str, drain_id: int, files: Sequence[DataFile]) -> int:
        """Make a drain's files visible, once, and return the table's version."""
        current = self._current(table)
        if not files or self.recorded(table) >= drain_id:
            return current.version()
        current.create_write_transaction(
            [_add_action(file) for file in files],
            mode="append",
            schema=current.schema(),
            partition_by=[PARTITION],
            commit_properties=CommitProperties(
                app_transactions=[Transaction(self._transaction_id(table), drain_id)],
                custom_metadata={"drain": str(drain_id)},
            ),
        )
        version = self._current(table).version()
        self._force_log(table, version)
        return version

    def files(self, table: str) -> list[DataFile]:
        """The files of a table's newest version."""
        actions = pa.table(self._current(table).get_add_actions(flatten=True))
        columns = ("path", "size_bytes", "num_records", f"partition.{PARTITION}")
        told = zip(*(actions[column].to_pylist() for column in columns), strict=True)
        return [
            DataFile(table, path, size, rows, str(day), 0, "{}") for path, size, rows, day in told
        ]

    def replace(self, table: str, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Put files in the place of others that hold the same rows, in one commit."""
        current = self._current(table)
        current.create_write_transaction(
            [
                *(_remove_action(file) for file in old),
                *(_add_action(file, data_change=False) for file in new),
            ],
            mode="append",
            schema=current.schema(),
            partition_by=[PARTITION],
        )
        self._force_log(table, self._current(table).version())

    def version(self, table: str) -> int:
        """The newest version of a table."""
        return self._current(table).version()

    def transaction_id(self, table: str) -> str:
        """The name under which a table remembers the drains it has taken."""
        return self._transaction_id(table)

    def _current(self, table: str) -> DeltaTable:
        known = self._tables.get(table)
        if known is None:
            known = self._tables[table] = DeltaTable(self.location(table))
        else:
            known.update_incremental()
        return known

    def _transaction_id(self, table: str) -> str:
        return f"ilyama:{self.identity}:{table}"

    def _force_log(self, table: str, version: int) -> None:
        log = self.location(table) / "_delta_log"
        force_to_disk(log / f"{version:020}.json")
        force_to_disk(log)


def write_data_file(
    location: Path, contract: TableContract, rows: pa.Table, *, day: date, name: str
) -> DataFile:
    """Write rows of one day into a table's directory, durably and invisibly."""
    directory = location / f"{PARTITION}={day.isoformat()}"
    make_directory(directory)
    path = directory / f"{name}.zstd.parquet"
    with path.open("wb") as file:
        pq.write_table(rows, file, compression="zstd", store_schema=False, write_statistics=True)
        file.flush()
        os.fsync(file.fileno())
    force_to_disk(directory)
    written = path.stat()
    return DataFile(
        contract.name,
        f"{directory.name}/{path.name}",
        written.st_size,
        rows.num_rows,
        day.isoformat(),
        written.st_mtime_ns // 1_000_000,
        statistics(contract, rows),
    )


def statistics(contract: TableContract, rows: pa.Table) -> str:
    """The statistics by which readers skip files, in Delta's JSON."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in contract.columns:
        if not column.skipping or column.name == PARTITION:
            continue
        values = rows[column.name]
        nulls[column.name] = values.null_count
        bounds = _bounds(values)
        if bounds is not None:
            lowest[column.name], highest[column.name] = bounds
    counts = {"numRecords": rows.num_rows, "nullCount": nulls}
    return json.dumps(counts | {"minValues": lowest, "maxValues": highest}, ensure_ascii=False)


def _bounds(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if values.null_count == len(values) or pa.types.is_boolean(kind):
        return None
    if pa.types.is_dictionary(values.type):
        values = pc.unique(values).dictionary_decode()
    found = pc.min_max(values)
    low, high = found["min"].as_py(), found["max"].as_py()
    if pa.types.is_timestamp(kind):
        return low.isoformat(timespec="microseconds"), high.isoformat(timespec="microseconds")
    return low, high


def _add_action(file: DataFile, *, data_change: bool = True) -> AddAction:
    partition = {PARTITION: file.day}
    return AddAction(
        file.path, file.size, partition, file.modified_ms, data_change, file.statistics
    )


def _remove_action(file: DataFile) -> RemoveAction:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return RemoveAction(file.path, False, now_ms, file.size, {PARTITION: file.day})


def by_table(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    """Files grouped by the table they belong to."""
    grouped: dict[str, list[DataFile]] = {}
    for file in files:
        grouped.setdefault(file.table, []).append(file)
    return grouped
