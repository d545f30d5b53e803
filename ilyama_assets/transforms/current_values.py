"""Current values from datapoints."""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.tables import CURRENT_VALUE, METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_assets.transforms.newest_points import IDENTITY
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.derived_runs import DerivedRun


def datapoints_until(session: SparkSession, warehouse: Warehouse, drain_id: int) -> DataFrame:
    """The metrics and states of all drains up to one, in one shape."""
    metrics = _read(session, warehouse, METRIC_DATAPOINT.name).select(
        *_common("metric"),
        F.col("value").alias("value_double"),
        F.lit(None).cast("string").alias("value_text"),
    )
    states = _read(session, warehouse, STATE_DATAPOINT.name).select(
        *_common("state"),
        F.lit(None).cast("double").alias("value_double"),
        F.col("value").alias("value_text"),
    )
    return metrics.unionByName(states).where(F.col("drain_id") <= drain_id)


def days_of_drains(warehouse: Warehouse, run: DerivedRun) -> list[date]:
    """The days on which the drains of a run may have written datapoints."""
    drains = {"drain_id": (run.from_drain, run.to_drain)}
    tables = (METRIC_DATAPOINT.name, STATE_DATAPOINT.name)
    return sorted({day for table in tables for day in warehouse.days_within(table, drains)})


def newest_per_key(points: DataFrame, *, stale_after_h: float) -> DataFrame:
    """The newest value of each key that was not late when it came."""
    # At one moment the smaller name of a source is current, and a metric before a state.
    order = F.struct(-F.unix_micros("ts"), "source", -F.col("revision"), "kind")
    value = F.struct("kind", "value_double", "value_text", "ts", "source", "datapoint_id")
    newest = (
        points.where(~F.col("late"))
        .groupBy(*IDENTITY)
        .agg(F.min_by(value, order).alias("newest"))
        .select(*IDENTITY, "newest.*")
    )
    explained = newest.select(
        "*",
        F.lit("latest").alias("policy"),
        _contributors().alias("contributors"),
        _freshness(stale_after_h).alias("state"),
        F.current_timestamp().alias("updated_at"),
    )
    return explained.select(*CURRENT_VALUE.schema.names)


def _common(kind: str) -> list[Column]:
    named = ("ts", "source", "datapoint_id", "late", "revision", "drain_id", "day")
    return [*map(F.col, IDENTITY), F.lit(kind).alias("kind"), *map(F.col, named)]


def _contributors() -> Column:
    return F.concat(
        F.lit('[{"source":"'),
        F.col("source"),
        F.lit('","datapoint_id":"'),
        F.col("datapoint_id"),
        F.lit('"}]'),
    )


def _freshness(stale_after_h: float) -> Column:
    is_stale = F.col("ts") < F.current_timestamp() - F.make_dt_interval(
        secs=F.lit(stale_after_h * 3600)
    )
    return F.when(is_stale, "stale").otherwise("fresh")


def _read(session: SparkSession, warehouse: Warehouse, table: str) -> DataFrame:
    return session.read.format("delta").load(str(warehouse.location(table)))
