"""Scans of tables on the workers of Spark: chosen files, read as Arrow columns, no shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from ilyama_resources.delta.warehouse import Bounds, Warehouse


class TableFile(NamedTuple):
    """A data file and the table it belongs to."""

    table: str
    path: str


Batches: TypeAlias = Iterator[pa.RecordBatch]
Scan: TypeAlias = Callable[[Batches], Batches]
NO_END = 2**63 - 1
"""After every drain."""

_FILES = pa.schema(
    [("files", pa.list_(pa.struct([("table", pa.string()), ("path", pa.string())])))]
)


class TableScans:
    """Reads tables of the warehouse on so many tasks."""

    def __init__(self, session: SparkSession, warehouse: Warehouse, *, tasks: int) -> None:
        self._session = session
        self._warehouse = warehouse
        self._tasks = tasks

    def rows(
        self, tables: Sequence[str], bounds: Bounds, scan: Scan, ddl: str
    ) -> list[dict[str, Any]]:
        """What a scan hands back of the files that may hold rows within the bounds."""
        files = [
            TableFile(table, path)._asdict()
            for table in tables
            for path in self._warehouse.files_within(table, bounds)
        ]
        if not files:
            return []
        groups = [files[start :: self._tasks] for start in range(self._tasks)]
        shares = pa.table({"files": [group for group in groups if group]}, _FILES)
        frame = self._session.createDataFrame(shares).mapInArrow(scan, ddl)
        return list(frame.toArrow().to_pylist())


def files_of(batches: Batches) -> Iterator[TableFile]:
    """The files that a task is to read."""
    for batch in batches:
        for group in batch.column("files").to_pylist():
            yield from (TableFile(**file) for file in group)
