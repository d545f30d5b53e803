"""Checks of what Postgres remembers against the tables that it remembers it of."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from dagster import AssetCheckResult, asset_check
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night
from ilyama_assets.checks.reading import last_closed_drain, read, until
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.tables import REJECTED_BATCHES, STAGED_ROWS
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.resource import Records
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_resources.spark.resource import Spark

_UNKNOWN_OF_MESSAGES: Final = ("device_id", "source_table", "schema_hash")
_SUM: Final = ("device_id", "source_table", "staging_reason", "schema_hash", "drain_id")


@asset_check(
    asset=REJECTED_BATCHES.name,
    name="every_rejection_has_a_life",
    automation_condition=every_night(),
    description="Postgres knows every rejected message, and the table has every one it knows.",
)
def every_rejection_has_a_life(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Compare, drain by drain, how many messages were rejected for the first time."""
    closed = last_closed_drain(records.gateway)
    with records.gateway.transaction() as tx:
        known = Counter(tx.rejections.first_seen(until=closed))
    kept = until(read(spark.spark_session, lake.warehouse, REJECTED_BATCHES), closed)
    first = kept.groupBy("rejection_id").agg(F.min("drain_id").alias("drain_id"))
    drains = first.groupBy("drain_id").count().toArrow().to_pylist()
    stored = Counter({drain["drain_id"]: drain["count"] for drain in drains})
    wrong = [
        {"drain_id": drain_id, "in the table": stored[drain_id], "in Postgres": known[drain_id]}
        for drain_id in sorted(stored.keys() | known.keys())
        if stored[drain_id] != known[drain_id]
    ]
    return report(
        asset=REJECTED_BATCHES.name,
        check="every_rejection_has_a_life",
        passed=not wrong,
        counts={"rejections": stored.total(), "drains that differ": len(wrong)},
        sample=wrong[:SAMPLE_ROWS],
        advice=(
            "Either another writer changed the table, or the records were restored from a backup "
            "older than it. What only the table has cannot be replayed by its id."
        ),
    )


@asset_check(
    asset=STAGED_ROWS.name,
    name="everything_that_waits_is_there",
    automation_condition=every_night(),
    description="The table has every row that Postgres remembers as waiting for its release.",
)
def everything_that_waits_is_there(
    records: Records, spark: Spark, lake: DeltaLake
) -> AssetCheckResult:
    """Compare the sums of what waits with the rows behind them."""
    with records.gateway.transaction() as tx:
        waiting = tx.backlog.waiting()
    staged = read(spark.spark_session, lake.warehouse, STAGED_ROWS)
    staged = staged.where(F.col("drain_id").isin({one.drain_id for one in waiting}))
    rows = staged.fillna("", [*_UNKNOWN_OF_MESSAGES]).groupBy(*_SUM).count()
    stored = {tuple(row[name] for name in _SUM): row["count"] for row in rows.toArrow().to_pylist()}
    wrong = [
        _compared(one, found)
        for one in waiting
        if not _is_there(one, found := stored.get(_key(one), 0))
    ]
    return report(
        asset=STAGED_ROWS.name,
        check="everything_that_waits_is_there",
        passed=not wrong,
        counts={"rows that wait": sum(one.rows for one in waiting), "sums that differ": len(wrong)},
        sample=wrong[:SAMPLE_ROWS],
        advice=(
            "Do not release these lineages before the files of the drains named here are restored; "
            "their messages are in `raw_batches`."
        ),
    )


def _is_there(one: StagedSum, stored: int) -> bool:
    """Whether the table has what waits; a whole message is one row of it, whatever is in it."""
    return stored == one.rows if one.schema_hash else stored > 0


def _key(one: StagedSum) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in _SUM)


def _compared(one: StagedSum, stored: int) -> dict[str, Any]:
    return dict(zip(_SUM, _key(one), strict=True)) | {"waiting": one.rows, "in the table": stored}


RECORD_CHECKS = [
    every_rejection_has_a_life,
    everything_that_waits_is_there,
]
