"""Checks of small tables against the ledger, and against what they say themselves."""

from __future__ import annotations

from typing import Final

from dagster import AssetCheckResult, AssetCheckSeverity, asset_check
from pyspark.sql import Column
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night
from ilyama_assets.checks.reading import last_closed_drain, read, sample, until
from ilyama_assets.checks.reports import report
from ilyama_assets.markdown import LONGEST_CELL
from ilyama_assets.tables import (
    BATCH_LEDGER,
    KEY_CONFLICTS,
    QUARANTINED_DATAPOINTS,
    REJECTED_BATCHES,
    SCHEMA_OBSERVATIONS,
)
from ilyama_assets.transforms.wrong_fingerprints import wrong_fingerprints
from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark.resource import Spark

_MESSAGE: Final = ("segment_id", "position", "drain_id")
_OF_A_TABLE: Final = ("drain_id", "device_id", "source_table")


@asset_check(
    asset=REJECTED_BATCHES.name,
    name="every_rejection_is_in_the_ledger",
    additional_deps=[BATCH_LEDGER.name],
    automation_condition=every_night(),
    description="Of every rejected line of the ledger the message is kept, and of no other.",
)
def every_rejection_is_in_the_ledger(
    records: Records, spark: Spark, lake: DeltaLake
) -> AssetCheckResult:
    """Compare rejected messages with the lines that say so, by place and code."""
    closed = last_closed_drain(records.gateway)
    kept = until(read(spark.spark_session, lake.warehouse, REJECTED_BATCHES), closed)
    ledger = until(read(spark.spark_session, lake.warehouse, BATCH_LEDGER), closed)
    refused = ledger.where("outcome = 'rejected'").select(*_MESSAGE, F.col("code").alias("line"))
    both = kept.select(*_MESSAGE, "code").join(refused, [*_MESSAGE], "full")
    wrong = both.where("NOT (code <=> line)")
    count = wrong.count()
    return report(
        asset=REJECTED_BATCHES.name,
        check="every_rejection_is_in_the_ledger",
        passed=count == 0,
        counts={"rejections": kept.count(), "without their line, or without bytes": count},
        sample=sample(wrong, (*_MESSAGE, "code", "line")) if count else [],
        advice=(
            "Look up the places named here in `raw_batches`, which has the bytes of every message, "
            "and find the other writer by the history of both tables."
        ),
    )


@asset_check(
    asset=KEY_CONFLICTS.name,
    name="every_conflict_is_in_the_ledger",
    additional_deps=[BATCH_LEDGER.name],
    automation_condition=every_night(),
    description="As many rows are listed in conflict as the ledger counts, drain by drain.",
)
def every_conflict_is_in_the_ledger(
    records: Records, spark: Spark, lake: DeltaLake
) -> AssetCheckResult:
    """Compare the arrivals of other contents of rows with what the ledger counts of them."""
    closed = last_closed_drain(records.gateway)
    listed = until(read(spark.spark_session, lake.warehouse, KEY_CONFLICTS), closed)
    ledger = until(read(spark.spark_session, lake.warehouse, BATCH_LEDGER), closed)
    arrivals = (
        listed.where(F.col("kind") == ConflictKind.ROW.value)
        .groupBy(*_OF_A_TABLE)
        .agg(F.sum("arrivals").alias("listed"))
    )
    counted = (
        ledger.where("kind = 'rows' AND rows_conflict > 0")
        .groupBy(*_OF_A_TABLE)
        .agg(F.sum("rows_conflict").alias("counted"))
    )
    wrong = arrivals.join(counted, [*_OF_A_TABLE], "full").where("NOT (listed <=> counted)")
    count = wrong.count()
    return report(
        asset=KEY_CONFLICTS.name,
        check="every_conflict_is_in_the_ledger",
        passed=count == 0,
        counts={"conflicts": listed.count(), "sums that differ": count},
        sample=sample(wrong, (*_OF_A_TABLE, "listed", "counted")) if count else [],
        advice="Compare the drains named here in both tables; a conflict is never swallowed.",
    )


@asset_check(
    asset=SCHEMA_OBSERVATIONS.name,
    name="columns_hash_to_their_schema",
    automation_condition=every_night(),
    description="The columns of every schema that was told hash to its fingerprint.",
)
def columns_hash_to_their_schema(spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Compute the fingerprint of each schema anew."""
    observed = read(spark.spark_session, lake.warehouse, SCHEMA_OBSERVATIONS)
    told = observed.where("columns IS NOT NULL").groupBy("source_table", "schema_hash", "columns")
    schemas = told.agg(F.min("drain_id").alias("first_drain"))
    wrong = wrong_fingerprints(schemas)
    count = wrong.count()
    return report(
        asset=SCHEMA_OBSERVATIONS.name,
        check="columns_hash_to_their_schema",
        passed=count == 0,
        counts={"observations": observed.count(), "schemas": schemas.count(), "wrong": count},
        sample=sample(wrong, wrong.columns) if count else [],
        advice=(
            "Intake keeps no columns that do not hash to `schema_hash`, so another writer added "
            "these rows. Find it by the table's history, then remove them."
        ),
    )


@asset_check(
    asset=QUARANTINED_DATAPOINTS.name,
    name="values_fit_their_columns",
    automation_condition=every_night(),
    description="No value had to be set apart, because it fits its column and the CHECK rules.",
)
def values_fit_their_columns(spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """List the keys whose values were set apart, those with the most first."""
    apart = read(spark.spark_session, lake.warehouse, QUARANTINED_DATAPOINTS)
    keys = apart.groupBy("key", "reason").agg(
        F.count("*").alias("values"),
        F.countDistinct("owner_id").alias("devices"),
        F.max("ts").alias("last"),
        F.max_by(_as_long_as_shown("value"), "ts").alias("an example"),
    )
    count = keys.count()
    return report(
        asset=QUARANTINED_DATAPOINTS.name,
        check="values_fit_their_columns",
        passed=count == 0,
        counts={"keys": count, "values set apart": apart.count()},
        sample=sample(keys.orderBy(F.desc("values"), "key"), keys.columns) if count else [],
        advice=(
            "The rows are whole in `row_changes` and `telemetry_samples`. Let the firmware send "
            "values of the type it declares, or declare the type that it sends."
        ),
        severity=AssetCheckSeverity.WARN,
    )


def _as_long_as_shown(column: str) -> Column:
    """A text, of which no more travels than a report tells."""
    return F.substring(column, 1, LONGEST_CELL + 1)


ACCOUNT_CHECKS = [
    every_rejection_is_in_the_ledger,
    every_conflict_is_in_the_ledger,
    columns_hash_to_their_schema,
    values_fit_their_columns,
]
