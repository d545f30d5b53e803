"""Compacted days: Spark reads a day's small files and writes the same rows into few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from ilyama_assets.tables import TABLES
from ilyama_resources.data_files import DataFile, TableContract, write_data_file
from ilyama_resources.delta import Warehouse

SMALL_BYTES = 32 * 1024 * 1024
TARGET_BYTES = 128 * 1024 * 1024
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
    small = [file for file in warehouse.files(contract.name) if file.size < SMALL_BYTES]
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
        if file.day == day.isoformat() and file.size < SMALL_BYTES
    ]
    location = warehouse.location(contract.name)
    size = sum(file.size for file in old)
    rows = session.read.schema(contract.spark_file_schema).parquet(
        *(str(location / file.path) for file in old)
    )
    write = partial(_write, location=str(location), table=contract.name, day=day.isoformat())
    spread = rows.coalesce(max(1, size // TARGET_BYTES))
    written = spread.mapInArrow(write, "file binary").toArrow()["file"]
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
        size,
        sum(file.size for file in new),
    )


def _write(
    batches: Iterator[pa.RecordBatch], *, location: str, table: str, day: str
) -> Iterator[pa.RecordBatch]:
    contract = TABLES[table]
    rows = pa.Table.from_batches(list(batches), contract.file_schema)
    if rows.num_rows:
        name = f"compacted-{uuid4().hex}"
        file = write_data_file(
            Path(location), contract, rows, day=date.fromisoformat(day), name=name
        )
        body = pa.array([msgspec.json.encode(file)], pa.binary())
        yield pa.RecordBatch.from_arrays([body], schema=_FILE_SCHEMA)


def _refuse_difference(old: list[DataFile], new: list[DataFile]) -> None:
    before, after = sum(file.rows for file in old), sum(file.rows for file in new)
    if before != after:
        raise RuntimeError(f"compaction read {before} rows and wrote {after}; nothing was changed")
