"""The Delta warehouse: tables that drains add files to, each drain exactly once.

A commit carries the drain's number as an application transaction of the table; a commit that finds
its number already recorded has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from ilyama_resources.delta.data_files import PARTITION, DataFile, TableContract
from ilyama_resources.durability import force_to_disk, make_directory

ORPHANS_KEPT_H = 7 * 24
"""A task may still be writing, and a reader still reading; never sweep behind them."""

Bounds = Mapping[str, tuple[Any, Any]]
"""Columns, each with the lowest and the highest value that is asked for."""

FileBounds = tuple[str, tuple[tuple[Any, Any] | None, ...]]
"""A file, and what its statistics say of columns."""

PROPERTIES = {
    # Every commit reads the log since the last checkpoint.
    "delta.checkpointInterval": "10",
    # Every commit lists all of the log: 1,650 entries cost it 16 ms, those of a busy day 0.5 s.
    "delta.logRetentionDuration": "interval 1 hour",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


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
        """Create a table, with its constraints, when it is missing, or add what it lacks."""
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
                configuration=PROPERTIES,
            )
        known = {field.name for field in table.schema().fields}
        added = [field for field in contract.schema if field.name not in known]
        if added:
            table.alter.add_columns(Schema.from_arrow(pa.schema(added)).fields)
        declared = table.metadata().configuration
        changed = {name: v for name, v in PROPERTIES.items() if declared.get(name) != v}
        if changed:
            table.alter.set_table_properties(changed)
        for name, expression in contract.constraints.items():
            if f"delta.constraints.{name}" not in declared:
                table.alter.add_constraint({name: expression})
        self._tables[contract.name] = table

    def holds(self, table: str) -> bool:
        """Whether a table was made already: the first drain, or the first derived run, does."""
        return DeltaTable.is_deltatable(str(self.location(table)))

    def recorded(self, table: str) -> int:
        """The highest drain that the table has taken; 0 when none."""
        return self._current(table).transaction_version(self._transaction_id(table)) or 0

    def add(self, table: str, drain_id: int, files: Sequence[DataFile]) -> int:
        """Make a drain's files visible, once, and return the table's version."""
        current, transaction = self._current(table), self._transaction_id(table)
        if not files or (current.transaction_version(transaction) or 0) >= drain_id:
            return current.version()
        current.create_write_transaction(
            [_add_action(file) for file in files],
            mode="append",
            schema=current.schema(),
            partition_by=[PARTITION],
            commit_properties=CommitProperties(
                app_transactions=[Transaction(transaction, drain_id)],
                custom_metadata={"drain": str(drain_id)},
            ),
        )
        version = self._current(table).version()
        self._force_log(table, version)
        return version

    def files(self, table: str) -> list[DataFile]:
        """The files of a table's newest version."""
        actions = pa.table(self._current(table).get_add_actions(flatten=True))
        columns = [actions[name].to_pylist() for name in ("path", "size_bytes", "num_records")]
        partition = f"partition.{PARTITION}"
        partitioned = partition in actions.column_names
        days = actions[partition].to_pylist() if partitioned else [""] * actions.num_rows
        told = zip(*columns, days, strict=True)
        return [
            DataFile(table, path, size, rows, str(day), 0, "{}") for path, size, rows, day in told
        ]

    def files_within(self, table: str, bounds: Bounds) -> list[str]:
        """The paths of files that may hold rows within the bounds, by their statistics."""
        location = self.location(table)
        return [str(location / path) for path in self._within(table, bounds)["path"].to_pylist()]

    def bounds_of_files(self, table: str, columns: Sequence[str]) -> list[FileBounds]:
        """The paths of all files, each with the lowest and highest value of columns, if known."""
        actions = pa.table(self._current(table).get_add_actions(flatten=True))
        location = self.location(table)
        bounds = zip(*(_bounds(actions, column) for column in columns), strict=True)
        paths = actions["path"].to_pylist()
        return [(str(location / path), told) for path, told in zip(paths, bounds, strict=True)]

    def days_within(self, table: str, bounds: Bounds) -> set[date]:
        """The days that may hold rows within the bounds, by the statistics of their files."""
        return set(self._within(table, bounds)[f"partition.{PARTITION}"].to_pylist())

    def _within(self, table: str, bounds: Bounds) -> pa.Table:
        return within(pa.table(self._current(table).get_add_actions(flatten=True)), bounds)

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

    def renew(self, contract: TableContract, rows: pa.Table | pa.RecordBatchReader) -> int:
        """Put rows in the place of all that a table holds; the version that has them."""
        self.ensure(contract)
        write_deltalake(self.location(contract.name), rows, mode="overwrite")
        return self.version(contract.name)

    def overwrite(
        self, table: str, number: int, made_of: Callable[[DeltaTable], pa.Table | None]
    ) -> bool:
        """Put rows and columns, made of what a table holds, in its place; a number counts once.

        False: nothing was made of it. Whoever commits meanwhile makes this fail.
        """
        current, transaction = self._current(table), self._transaction_id(table)
        if (current.transaction_version(transaction) or 0) >= number:
            return True
        rows = made_of(current)
        if rows is None:
            return False
        write_deltalake(
            current,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            # Tried again it would come behind a commit that it knows nothing of, and keep its rows.
            commit_properties=CommitProperties(
                app_transactions=[Transaction(transaction, number)], max_commit_retries=0
            ),
        )
        for file in self.files(table):
            force_to_disk(self.location(table) / file.path)
        self._force_log(table, self.version(table))
        return True

    def vacuum(self, table: str) -> int:
        """Remove files that no version of the last days names, and return how many there were."""
        gone = self._current(table).vacuum(retention_hours=ORPHANS_KEPT_H, dry_run=False, full=True)
        return len(gone)

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


def within(actions: pa.Table, bounds: Bounds) -> pa.Table:
    """Those of a table's files that may hold rows within the bounds, by their statistics."""
    keep = pa.array([True] * actions.num_rows, pa.bool_())
    for column, (lowest, highest) in bounds.items():
        of_partition = f"partition.{column}"
        low, high = (
            (of_partition, of_partition)
            if of_partition in actions.column_names
            else (f"min.{column}", f"max.{column}")
        )
        if low in actions.column_names:
            reaches = pc.greater_equal(actions[high], lowest)
            begins = pc.less_equal(actions[low], highest)
            keep = pc.and_(keep, pc.fill_null(pc.and_(reaches, begins), True))
    return actions.filter(keep)


def _bounds(actions: pa.Table, column: str) -> list[tuple[Any, Any] | None]:
    names = (f"min.{column}", f"max.{column}")
    if not {*names} <= {*actions.column_names}:
        return [None] * actions.num_rows
    pairs = zip(*(actions[name].to_pylist() for name in names), strict=True)
    return [None if None in pair else pair for pair in pairs]


def _add_action(file: DataFile, *, data_change: bool = True) -> AddAction:
    partition = {PARTITION: file.day}
    return AddAction(
        file.path, file.size, partition, file.modified_ms, data_change, file.statistics
    )


def _remove_action(file: DataFile) -> RemoveAction:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return RemoveAction(file.path, False, now_ms, file.size, {PARTITION: file.day})
