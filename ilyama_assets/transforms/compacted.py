"""Compacted days: tasks of Spark read a day's small files and write the same rows into few.

Rows go from file to file as Arrow columns: through the JVM, row by row, it took the cores away
from drains for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ilyama_assets.tables import TABLES
from ilyama_resources.delta.data_files import (
    DataFile,
    TableContract,
    as_declared,
    write_data_file,
)
from ilyama_resources.delta.warehouse import Warehouse

SMALL_BYTES = 32 * 1024 * 1024
TARGET_BYTES = 128 * 1024 * 1024
SMALL_ROWS = 500_000
MOST_ROWS = 2_000_000
"""So many rows are in memory at once, of the widest table about a gigabyte."""

_FILE_SCHEMA = pa.schema([("file", pa.binary())])


class Compacted(NamedTuple):
    """What compaction did to one table and day."""

    table: str
    day: str
    rows: int
    before: int
    after: int
    bytes_before: int
    bytes_after: int


def days_worth_compacting(
    warehouse: Warehouse, contract: TableContract, *, most_files: int
) -> list[date]:
    """The days of a table with more small files than that."""
    small = [file for file in warehouse.files(contract.name) if is_small(file)]
    days = {file.day for file in small}
    crowded = [day for day in days if sum(file.day == day for file in small) > most_files]
    return sorted(map(date.fromisoformat, crowded))


def compact_day(
    session: SparkSession,
    warehouse: Warehouse,
    contract: TableContract,
    day: date,
    *,
    commit_lock: AbstractContextManager[None],
) -> Compacted:
    """Replace the small files of a day; drains go on meanwhile, but for the commit itself."""
    old = [
        file
        for file in warehouse.files(contract.name)
        if file.day == day.isoformat() and is_small(file)
    ]
    location = warehouse.location(contract.name)
    groups = pa.table({"paths": [[file.path for file in group] for group in _groups(old)]})
    write = partial(_rewritten, location=str(location), table=contract.name, day=day.isoformat())
    frame = session.createDataFrame(groups).coalesce(1)
    written = frame.mapInArrow(write, "file binary").toArrow()["file"]
    new = [msgspec.json.decode(body.as_py(), type=DataFile) for body in written]
    _refuse_difference(old, new)
    with commit_lock:
        warehouse.replace(contract.name, old, new)
    return Compacted(
        contract.name,
        day.isoformat(),
        sum(file.rows for file in new),
        len(old),
        len(new),
        sum(file.size for file in old),
        sum(file.size for file in new),
    )


def is_small(file: DataFile) -> bool:
    """Whether a file is worth being put together with others."""
    return file.size < SMALL_BYTES and file.rows < SMALL_ROWS


def _groups(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Files that will be one, in the order in which they were written."""
    group: list[DataFile] = []
    for file in sorted(files, key=lambda file: file.modified_ms):
        together = [*group, file]
        size, rows = sum(f.size for f in together), sum(f.rows for f in together)
        if group and (size > TARGET_BYTES or rows > MOST_ROWS):
            yield group
            group = []
        group.append(file)
    yield group


def _rewritten(
    batches: Iterator[pa.RecordBatch], *, location: str, table: str, day: str
) -> Iterator[pa.RecordBatch]:
    contract = TABLES[table]
    for paths in (paths for batch in batches for paths in batch.column("paths").to_pylist()):
        file = write_data_file(
            Path(location),
            contract,
            _read(contract, [Path(location, path) for path in paths]),
            day=date.fromisoformat(day),
            name=f"compacted-{uuid4().hex}",
        )
        body = pa.array([msgspec.json.encode(file)], pa.binary())
        yield pa.RecordBatch.from_arrays([body], schema=_FILE_SCHEMA)


def _read(contract: TableContract, paths: Iterable[Path]) -> pa.Table:
    """The rows of several files; a column that a file does not know yet is null in it."""
    tables = [as_declared(pq.ParquetFile(path).read(), contract) for path in paths]
    whole = pa.concat_tables(
        [contract.file_schema.empty_table(), *tables], promote_options="default"
    )
    return whole.select(contract.file_schema.names)


def _refuse_difference(old: list[DataFile], new: list[DataFile]) -> None:
    before, after = sum(file.rows for file in old), sum(file.rows for file in new)
    if before != after:
        raise RuntimeError(f"compaction read {before} rows and wrote {after}; nothing was changed")
