"""Checks that Spark runs over whole tables: what the tables promise, on every row they hold."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    asset_check,
)
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night, now_and_then
from ilyama_assets.checks.reading import last_closed_drain, read, sample, until
from ilyama_assets.checks.reports import report
from ilyama_assets.tables import (
    BATCH_LEDGER,
    DATAPOINT_RULES,
    METRIC_DATAPOINT,
    QUARANTINED_DATAPOINTS,
    RAW_BATCHES,
    ROW_CHANGES,
    STATE_DATAPOINT,
    TELEMETRY_SAMPLES,
)
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark.resource import Spark

ROW_KEY = ("device_id", "source_table", "journal_epoch", "source_pk_hash", "commit_seq")
FRESH_WITHIN = timedelta(hours=1)


def _rule_check(contract: TableContract, rule: str) -> AssetChecksDefinition:
    @asset_check(
        asset=contract.name,
        name=rule,
        automation_condition=every_night(),
        description=f"Every row keeps the table's CHECK constraint `{rule}`.",
    )
    def check(spark: Spark, lake: DeltaLake) -> AssetCheckResult:
        rows = read(spark.spark_session, lake.warehouse, contract)
        in_breach = ~F.expr(DATAPOINT_RULES[rule])
        found = rows.agg(F.count("*").alias("rows"), F.count_if(in_breach).alias("breaches"))
        total, breaches = found.collect()[0]
        quarantined = read(spark.spark_session, lake.warehouse, QUARANTINED_DATAPOINTS)
        return report(
            asset=contract.name,
            check=rule,
            passed=breaches == 0,
            counts={
                "rows": total,
                "rows in breach": breaches,
                "rows quarantined": quarantined.where(F.col("reason") == rule).count(),
            },
            sample=sample(
                rows.where(in_breach),
                ("datapoint_id", "owner_kind", "owner_id", "key", "drain_id"),
            )
            if breaches
            else [],
            advice=(
                "A writer other than intake added these rows. Find it by the table's history, then "
                "remove them; intake sets such rows apart in `quarantined_datapoints`."
            ),
        )

    return check


class Uniqueness(NamedTuple):
    """A key that no two rows of a table share."""

    contract: TableContract
    check: str
    key: tuple[str, ...]
    description: str


UNIQUENESS = (
    Uniqueness(
        ROW_CHANGES,
        "one_row_per_dedup_key_in_table",
        ROW_KEY,
        "Over the whole table, no two rows share a dedup key.",
    ),
    Uniqueness(
        TELEMETRY_SAMPLES,
        "one_sample_per_row_of_a_batch_in_table",
        ("device_id", "batch_id", "row_index"),
        "Over the whole table, no two samples are the same row of the same batch.",
    ),
    *(
        Uniqueness(
            contract,
            "one_value_per_moment_in_table",
            ("datapoint_id", "revision"),
            "Over the whole table, a series has one value at a moment, and one per correction.",
        )
        for contract in (METRIC_DATAPOINT, STATE_DATAPOINT)
    ),
)


def _uniqueness_check(rule: Uniqueness) -> AssetChecksDefinition:
    @asset_check(
        asset=rule.contract.name,
        name=rule.check,
        automation_condition=every_night(),
        description=rule.description,
    )
    def check(spark: Spark, lake: DeltaLake) -> AssetCheckResult:
        rows = read(spark.spark_session, lake.warehouse, rule.contract)
        repeated = rows.groupBy(*rule.key).agg(
            F.count("*").alias("rows"), F.collect_set("drain_id").alias("drains")
        )
        repeated = repeated.where("rows > 1")
        count = repeated.count()
        return report(
            asset=rule.contract.name,
            check=rule.check,
            passed=count == 0,
            counts={"rows": rows.count(), "repeated keys": count},
            sample=sample(repeated, (*rule.key, "rows", "drains")) if count else [],
            advice="Stop intake and look at the drains named here: no row may be stored twice.",
        )

    return check


@asset_check(
    asset=BATCH_LEDGER.name,
    name="ledger_balance_in_table",
    automation_condition=every_night(),
    description="Per segment, device and table, what was received is accounted for.",
)
def ledger_balance_in_table(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Compare the ledger's sums with the messages that were stored."""
    closed = last_closed_drain(records.gateway)
    ledger = until(read(spark.spark_session, lake.warehouse, BATCH_LEDGER), closed)
    accounted = F.expr("rows_new + rows_duplicate + rows_rejected + rows_staged")
    unbalanced = (
        ledger.groupBy("segment_id", "device_id", "source_table", "origin")
        .agg(F.sum("rows_received").alias("received"), F.sum(accounted).alias("accounted"))
        .where("received <> accounted")
    )
    landed = ledger.where("origin IN ('live', 'rejection')").groupBy("segment_id")
    lines = landed.agg(F.count("*").alias("lines"))
    stored = until(read(spark.spark_session, lake.warehouse, RAW_BATCHES), closed)
    messages = stored.groupBy("segment_id").agg(F.count("*").alias("messages"))
    missing = messages.join(lines, "segment_id", "full").where("NOT (messages <=> lines)")
    off, lost = unbalanced.count(), missing.count()
    return report(
        asset=BATCH_LEDGER.name,
        check="ledger_balance_in_table",
        passed=off == 0 and lost == 0,
        counts={"lines": ledger.count(), "sums out of balance": off, "segments incomplete": lost},
        sample=(
            sample(unbalanced, ("segment_id", "device_id", "source_table", "origin"))
            if off
            else sample(missing, ("segment_id", "messages", "lines"))
            if lost
            else []
        ),
        advice="Look up the segments named here in `raw_batches` and `batch_ledger`.",
    )


@asset_check(
    asset=RAW_BATCHES.name,
    name="intake_is_fresh",
    automation_condition=now_and_then(),
    description="Nothing that landed has been waiting for a drain for more than an hour.",
)
def intake_is_fresh(records: Records) -> AssetCheckResult:
    """Look at what waits and at a drain that does not come to an end."""
    with records.gateway.transaction() as tx:
        waiting = tx.segments.waiting_since(datetime.now(UTC) - FRESH_WITHIN)
        pending = sum(day.segments for day in tx.segments.pending())
        unfinished = tx.drains.unfinished()
    return report(
        asset=RAW_BATCHES.name,
        check="intake_is_fresh",
        passed=waiting == 0,
        counts={
            "segments waiting": pending,
            "of them for over an hour": waiting,
            "unfinished drains": int(unfinished is not None),
        },
        sample=[unfinished._asdict()] if unfinished is not None and waiting else [],
        advice="See `ilyama drains`; then `ilyama drain` takes up what waits.",
        severity=AssetCheckSeverity.WARN,
    )


TABLE_CHECKS = [
    *(
        _rule_check(contract, rule)
        for contract in (METRIC_DATAPOINT, STATE_DATAPOINT)
        for rule in DATAPOINT_RULES
    ),
    *map(_uniqueness_check, UNIQUENESS),
    ledger_balance_in_table,
    intake_is_fresh,
]
