"""Checks of what Postgres remembers against the tables that it remembers it of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from dagster import AssetCheckResult, asset_check
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night
from ilyama_assets.checks.reading import last_closed_drain, read, until
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.tables import REJECTED_BATCHES, STAGED_ROWS
from ilyama_resources.delta.staged_files import PLACES, places_of
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import Records
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_resources.spark.resource import Spark

_UNKNOWN_OF_MESSAGES: Final = ("device_id", "source_table", "schema_hash")
SUMS_AT_ONCE: Final = 50_000
"""So many sums of what waits are compared with the table at a time."""


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
    """Compare the sums of what waits with the rows behind them, portion after portion."""
    staged = read(spark.spark_session, lake.warehouse, STAGED_ROWS)
    found = _Waiting()
    for sums in _waiting(records.gateway):
        found.rows += sum(one.rows for one in sums)
        _look_for(found, sums, staged)
    return report(
        asset=STAGED_ROWS.name,
        check="everything_that_waits_is_there",
        passed=not found.wrong,
        counts={"rows that wait": found.rows, "sums that differ": found.wrong},
        sample=found.sample,
        advice=(
            "Do not release these lineages before the files of the drains named here are restored; "
            "their messages are in `raw_batches`."
        ),
    )


@dataclass
class _Waiting:
    """What was found of the sums that wait."""

    rows: int = 0
    wrong: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)


def _waiting(gateway: Gateway) -> Iterator[list[StagedSum]]:
    """All sums, drain after drain, of which so many are held at a time."""
    sums: list[StagedSum] = []
    while True:
        with gateway.transaction() as tx:
            sums = tx.backlog.waiting_after(sums[-1] if sums else None, limit=SUMS_AT_ONCE)
        if not sums:
            return
        yield sums


def _look_for(found: _Waiting, sums: Sequence[StagedSum], staged: DataFrame) -> None:
    """Add those of the sums that the table does not have as they were counted."""
    drains = F.col("drain_id").between(sums[0].drain_id, sums[-1].drain_id)
    rows = staged.where(drains).fillna("", [*_UNKNOWN_OF_MESSAGES])
    stored = rows.groupBy(*PLACES).agg(F.count("*").alias("stored"))
    waiting = places_of(sums).append_column("waiting", pa.array([one.rows for one in sums]))
    both = staged.sparkSession.createDataFrame(waiting).join(stored, [*PLACES], "left")
    both = both.fillna(0, ["stored"])
    # A whole message is one row of the table, whatever is in it.
    is_there = F.when(F.col("schema_hash") == "", F.col("stored") > 0)
    wrong = both.where(~is_there.otherwise(F.col("stored") == F.col("waiting")))
    if differing := wrong.count():
        found.wrong += differing
        rest = wrong.orderBy(*PLACES).limit(SAMPLE_ROWS - len(found.sample))
        found.sample += rest.withColumnRenamed("stored", "in the table").toArrow().to_pylist()


RECORD_CHECKS = [
    every_rejection_has_a_life,
    everything_that_waits_is_there,
]
