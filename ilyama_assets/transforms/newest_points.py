"""The newest datapoints that drains wrote: tasks of Spark read their files as Arrow columns.

Of its files a task hands on one point of each key. The JVM, which would sort all points by their
keys to find the newest, is left with few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ilyama_assets.tables import METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_assets.transforms.newest_in_arrow import merged_rows, newest_rows
from ilyama_resources.delta.data_files import TableContract, as_declared
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.derived_runs import DerivedRun

IDENTITY: Final = ("owner_kind", "owner_id", "key", "instance", "provenance")
"""What a current value is the value of."""

Drains = tuple[int, int]
"""The first and the last."""

_TABLES: Final = {"metric": METRIC_DATAPOINT, "state": STATE_DATAPOINT}
_VALUES: Final = {"metric": "value_double", "state": "value_text"}
_TOLD: Final = (*IDENTITY, "ts", "source", "datapoint_id", "late", "revision")
_POINTS: Final = pa.schema(
    [
        *(METRIC_DATAPOINT.schema.field(name) for name in _TOLD),
        ("kind", pa.string()),
        ("value_double", pa.float64()),
        ("value_text", pa.string()),
    ]
)
_POINTS_DDL: Final = ", ".join(
    (
        *(f"{name} string" for name in IDENTITY),
        "ts timestamp, source string, datapoint_id string, late boolean, revision bigint",
        "kind string, value_double double, value_text string",
    )
)
_FILES: Final = pa.schema([("kind", pa.list_(pa.string())), ("path", pa.list_(pa.string()))])
_MOST_HELD: Final = 2_000_000
"""So many points are in memory at once, about half a gigabyte."""


def newest_points_of_drains(
    session: SparkSession, warehouse: Warehouse, run: DerivedRun, *, tasks: int
) -> DataFrame:
    """Metrics and states of the drains of a run, among them the newest of every key."""
    drains = (run.from_drain, run.to_drain)
    files = [
        (kind, path)
        for kind, contract in _TABLES.items()
        for path in warehouse.files_within(contract.name, {"drain_id": drains})
    ]
    shares = [files[start::tasks] for start in range(tasks)]
    columns = {
        name: [[file[place] for file in share] for share in shares]
        for place, name in enumerate(_FILES.names)
    }
    frame = session.createDataFrame(pa.table(columns, _FILES))
    return frame.mapInArrow(partial(_newest_of_files, drains=drains), _POINTS_DDL)


def newest_points(points: pa.Table) -> pa.Table:
    """The newest of each key; of two at one moment, the source's rank and corrections decide."""
    moments = points["ts"].cast(pa.int64()).to_numpy()
    order = (moments, -_ranked(points["source"]), points["revision"].to_numpy())
    return newest_rows(points, key=IDENTITY, order=order)


def _newest_of_files(
    batches: Iterator[pa.RecordBatch], *, drains: Drains
) -> Iterator[pa.RecordBatch]:
    for share in (share for batch in batches for share in batch.to_pylist()):
        files = [*zip(share["kind"], share["path"], strict=True)]
        for kind in _TABLES:
            paths = [path for its_kind, path in files if its_kind == kind]
            found = (_newest_of_file(path, kind, drains) for path in paths)
            for points in merged_points(found):
                yield from points.to_batches()


def merged_points(found: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The newest points of several tables: of each key one, as far as memory allows."""
    return merged_rows(found, newest_points, most_held=_MOST_HELD)


def _newest_of_file(path: str, kind: str, drains: Drains) -> pa.Table:
    with pq.ParquetFile(path, read_dictionary=[*IDENTITY, "source"]) as file:
        groups = range(file.num_row_groups)
        read = partial(_points, file, contract=_TABLES[kind], drains=drains)
        found = [newest_points(read(group)) for group in groups]
    return newest_points(pa.concat_tables([_told(points, kind) for points in found]))


def _points(
    file: pq.ParquetFile, group: int, *, contract: TableContract, drains: Drains
) -> pa.Table:
    """The points of a row group that may become current."""
    rows = file.read_row_group(group, columns=[*_TOLD, "value", "drain_id"])
    rows = as_declared(rows, contract)
    drain_ids = rows["drain_id"]
    since = pc.greater_equal(drain_ids, drains[0])
    until = pc.less_equal(drain_ids, drains[1])
    return rows.filter(pc.and_(pc.and_(since, until), pc.invert(rows["late"])))


def _told(points: pa.Table, kind: str) -> pa.Table:
    """Points of either kind in one shape."""
    columns = {name: points[name] for name in _TOLD}
    columns["kind"] = pa.array([kind] * points.num_rows, pa.string())
    columns[_VALUES[kind]] = points["value"]
    absent = {
        name: pa.nulls(points.num_rows, _POINTS.field(name).type) for name in _VALUES.values()
    }
    return pa.table(absent | columns).select(_POINTS.names).cast(_POINTS)


def _ranked(names: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Where each name stands among all of them in their order."""
    encoded = names.combine_chunks().dictionary_encode()
    ranks = np.argsort(np.argsort(encoded.dictionary.to_pylist()))
    found: npt.NDArray[np.int64] = ranks[encoded.indices.to_numpy()]
    return found
