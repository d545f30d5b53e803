"""The newest change of every primary key, with what is needed to mirror it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.tables import ROW_CHANGES
from ilyama_assets.transforms.newest_in_arrow import merged_rows, newest_rows
from ilyama_resources.delta.data_files import as_declared
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.derived_runs import DerivedRun

KEY: Final = ("device_id", "source_table", "source_pk_hash")
PLACE: Final = ("epoch_rank", "commit_seq")
"""Where a change stands among those of its primary key: the highest is the newest."""

_TOLD: Final = (
    *("journal_epoch", "op", "pk", "row", "schema_hash"),
    *("batch_id", "received_at", "drain_id"),
)
CHANGE: Final = (*KEY, "commit_seq", *_TOLD)
"""What of a change it takes to find the newest of a primary key, and to mirror it."""
_TYPES: Final = {"commit_seq": "bigint", "received_at": "timestamp", "drain_id": "bigint"}
CHANGE_DDL: Final = ", ".join(f"{name} {_TYPES.get(name, 'string')}" for name in CHANGE)
_PATHS: Final = pa.list_(pa.string())
_MOST_HELD: Final = 400_000
"""So many changes are in memory at once; a row may be long."""
MOST_LITERALS: Final = 1_000
"""More values than these are not named in a statement; hardly a file would be left out by them."""
Epochs = Mapping[str, Mapping[str, int]]
"""The ranks of the epochs of each device."""

SORT: Final = ("device_id", "source_table", "schema_hash")
"""Changes that have these in common are mirrored by the same columns of the same table."""


def changes_until(row_changes: DataFrame, drain_id: int) -> DataFrame:
    """The changes of all drains up to one that may be seen in a mirror: a late one never is."""
    return row_changes.where((F.col("drain_id") <= drain_id) & ~F.col("late"))


def sorts_of(changes: DataFrame) -> DataFrame:
    """Devices, tables and schemas that changes are of, and since when."""
    return changes.groupBy(*SORT).agg(F.min(F.unix_micros("received_at")).alias("since"))


def newest_change_per_key(
    changes: DataFrame, *, ranks: DataFrame, bindings: DataFrame
) -> DataFrame:
    """The highest change of each primary key, with its mirror and whether its schema was bound.

    Args:
        changes: rows of `row_changes`.
        ranks: the order of the epochs of each device: device_id, journal_epoch, epoch_rank.
        bindings: per device, table and schema: the mirror, and holds_from, null when not bound.
    """
    ranked = changes.join(F.broadcast(ranks), ["device_id", "journal_epoch"], "left").fillna(
        0, ["epoch_rank"]
    )
    place = F.struct(*PLACE)
    newest = (
        ranked.groupBy(*KEY)
        .agg(F.max_by(F.struct(*PLACE, *_TOLD), place).alias("newest"))
        .select(*KEY, "newest.*")
    )
    is_bound = F.coalesce(F.unix_micros("received_at") >= F.col("holds_from"), F.lit(False))
    bound = newest.join(F.broadcast(bindings), [*SORT], "left").withColumn("bound", is_bound)
    return bound.select("mirror", *KEY, *PLACE, *_TOLD, "bound")


def newest_changes_of_drains(
    session: SparkSession, warehouse: Warehouse, run: DerivedRun, *, epochs: Epochs, tasks: int
) -> DataFrame:
    """Changes of the drains of a run, among them the newest of every primary key.

    Tasks read the files as Arrow columns; of what they read they hand on as little as they can.
    """
    drains = (run.from_drain, run.to_drain)
    files = warehouse.files_within(ROW_CHANGES.name, {"drain_id": drains})
    shares = pa.table({"paths": pa.array([files[n::tasks] for n in range(tasks)], _PATHS)})
    read = partial(_newest_of_files, run=run, epochs=epochs)
    return session.createDataFrame(shares).mapInArrow(read, CHANGE_DDL)


def keys_of_drains(changes: DataFrame, drains: Sequence[int]) -> DataFrame:
    """The primary keys that some drains changed."""
    few = changes.where(F.col("drain_id").between(min(drains), max(drains)))
    wanted = changes.sparkSession.createDataFrame([(n,) for n in drains], "drain_id bigint")
    own = few.join(F.broadcast(wanted), ["drain_id"], "left_semi")
    return own.select(*KEY).distinct()


def deletes_of_keys(changes: DataFrame, keys: DataFrame, places: pa.Table) -> DataFrame:
    """The deletes among the changes of some primary keys, in the devices and tables of these."""
    deletes = changes.where(F.col("op") == "delete")
    for name in places.column_names:
        values = pc.unique(places[name]).to_pylist()
        if len(values) <= MOST_LITERALS:
            # Files are left out by literals only.
            deletes = deletes.where(F.col(name).isin(values))
    return deletes.select(*CHANGE).join(keys, [*KEY], "left_semi")


def _newest_of_files(
    batches: Iterator[pa.RecordBatch], *, run: DerivedRun, epochs: Epochs
) -> Iterator[pa.RecordBatch]:
    newest = partial(_newest, epochs=epochs)
    for share in (share for batch in batches for share in batch["paths"].to_pylist()):
        found = (newest(changes) for path in share for changes in _changes(path, run))
        for changes in merged_rows(found, newest, most_held=_MOST_HELD):
            yield from changes.to_batches()


def _changes(path: str, run: DerivedRun) -> Iterator[pa.Table]:
    """The changes of a file that a mirror may show, by row group."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            rows = as_declared(file.read_row_group(group, [*CHANGE, "late"]), ROW_CHANGES)
            drain_ids = rows["drain_id"]
            since = pc.greater_equal(drain_ids, run.from_drain)
            until = pc.less_equal(drain_ids, run.to_drain)
            shown = pc.and_(pc.and_(since, until), pc.invert(rows["late"]))
            yield rows.filter(shown).select([*CHANGE])


def _newest(changes: pa.Table, *, epochs: Epochs) -> pa.Table:
    ranks = _ranks(changes, epochs)
    return newest_rows(changes, key=KEY, order=(ranks, changes["commit_seq"].to_numpy()))


def _ranks(changes: pa.Table, epochs: Epochs) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rank of the epoch of each change."""
    told = zip(changes["device_id"].to_pylist(), changes["journal_epoch"].to_pylist(), strict=True)
    return np.fromiter((epochs.get(d, {}).get(e, 0) for d, e in told), np.int64)
