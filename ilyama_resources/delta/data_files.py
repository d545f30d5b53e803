"""Data files of Delta tables: what a table promises, and files written without being visible.

A file is written straight into its table's directory and stays invisible until a commit names it.
Its statistics are what readers skip files by; wrong ones would lose rows silently.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ilyama_resources.durability import force_to_disk, make_directory

PARTITION = "day"
LONGEST_BOUND = 512
"""A longer text does not go into the log; its file is simply not skipped by that column."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table and what it means."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = True
    skipping: bool = True
    """Whether files carry its smallest and largest value; not worth it for long texts."""
    repeats: bool = True
    """Whether its texts come again, so that a dictionary of them pays."""


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


def as_declared(rows: pa.Table, contract: TableContract) -> pa.Table:
    """Rows of a file in the types of their table: other writers have other Arrow types for them."""
    columns = []
    for found in rows.schema:
        declared = contract.schema.field(found.name).type
        if pa.types.is_dictionary(found.type):
            declared = pa.dictionary(found.type.index_type, declared)
        columns.append(rows[found.name].cast(declared))
    return pa.Table.from_arrays(columns, rows.column_names)


def write_data_file(
    location: Path, contract: TableContract, rows: pa.Table, *, day: date, name: str
) -> DataFile:
    """Write rows of one day into a table's directory, durably and invisibly."""
    directory = location / f"{PARTITION}={day.isoformat()}"
    make_directory(directory)
    path = directory / f"{name}.zstd.parquet"
    with path.open("wb") as file:
        pq.write_table(
            rows,
            file,
            compression="zstd",
            store_schema=False,
            use_dictionary=_dictionaries(contract, rows),
            column_encoding=dict.fromkeys(_whole_numbers(rows), "DELTA_BINARY_PACKED"),
            write_statistics=_numbers(rows),
        )
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


def _dictionaries(contract: TableContract, rows: pa.Table) -> list[str]:
    """Repeated texts; by a dictionary of doubles Spark would not find -0.0 where 0.0 is asked."""
    repeats = {column.name for column in contract.columns if column.repeats}
    return [f.name for f in rows.schema if _is_text(f.type) and f.name in repeats]


def _whole_numbers(rows: pa.Table) -> list[str]:
    """Clocks and counters: as differences they take hardly any room."""
    kinds = (pa.types.is_integer, pa.types.is_timestamp)
    return [f.name for f in rows.schema if any(is_kind(f.type) for is_kind in kinds)]


def _numbers(rows: pa.Table) -> list[str]:
    """Every column but texts: the log has their bounds, and again they cost a third of writing."""
    return [field.name for field in rows.schema if not _is_text(field.type)]


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_binary, pa.types.is_dictionary)
    return any(is_kind(kind) for is_kind in texts)


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
        values = _used(values)
    found = pc.min_max(values)
    low, high = found["min"].as_py(), found["max"].as_py()
    if isinstance(low, str) and max(len(low), len(high)) > LONGEST_BOUND:
        return None
    if pa.types.is_timestamp(kind):
        return low.isoformat(timespec="microseconds"), high.isoformat(timespec="microseconds")
    return low, high


def _used(values: pa.ChunkedArray) -> pa.Array:
    """The texts of dictionaries that stand anywhere; where there is no other, one surely does."""
    dictionaries = [chunk.dictionary for chunk in values.chunks if len(chunk)]
    if not values.null_count and all(len(texts) == 1 for texts in dictionaries):
        return pa.concat_arrays(dictionaries)
    return pc.unique(values).dictionary_decode()


def by_table(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    """Files grouped by the table they belong to."""
    grouped: dict[str, list[DataFile]] = {}
    for file in files:
        grouped.setdefault(file.table, []).append(file)
    return grouped
