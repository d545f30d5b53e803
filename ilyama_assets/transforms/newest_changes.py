"""The newest change of every primary key, with what is needed to mirror it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

KEY: Final = ("device_id", "source_table", "source_pk_hash")
PLACE: Final = ("epoch_rank", "commit_seq")
"""Where a change stands among those of its primary key: the highest is the newest."""

_TOLD: Final = (
    *("journal_epoch", "op", "pk", "row", "schema_hash"),
    *("batch_id", "received_at", "drain_id"),
)
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
