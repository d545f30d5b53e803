"""Checks of current values: they equal what can be recomputed, in both their forms."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

import pyarrow as pa
from dagster import AssetCheckResult, asset_check
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.automation import every_hour
from ilyama_assets.checks.reading import read
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.tables import CURRENT_VALUE
from ilyama_assets.transforms.current_values import (
    datapoints_until,
    days_of_drains,
    newest_per_key,
)
from ilyama_assets.transforms.newest_points import IDENTITY
from ilyama_protocol.identifiers import escape_key
from ilyama_protocol.intake.state import LineageState, decode_state
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.current_values import CurrentValueRecord
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.resource import Spark

SAMPLE_OWNERS = 100
VALUES = ("kind", "value_double", "value_text", "ts", "source", "policy", "contributors")
COMPARED = (*IDENTITY, *VALUES)
SIDES = ("ours", "theirs")
_TELLS_APART = f"NOT contains(key || instance, '{shown(chr(0))}')"
"""Postgres shows U+0000 as U+FFFD; where it does, two keys may look like one there."""
_REBUILD = (
    "Materialize `current_value` with `rebuild: true`; it is made anew from the datapoints. "
    "If the difference comes back, keep the rows named here and report them."
)


@asset_check(
    asset=CURRENT_VALUE.name,
    name="equals_recomputation",
    automation_condition=every_hour(),
    description=(
        "For a sample of owners, every current value of the days that were last taken up is the "
        "newest of its datapoints."
    ),
)
def equals_recomputation(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Recompute the values of some owners and compare."""
    session, warehouse = spark.spark_session, lake.warehouse
    with records.gateway.transaction() as tx:
        run = tx.derived_runs.last(CURRENT_VALUE.name)
        owners = tx.devices.sample(SAMPLE_OWNERS)
    days = days_of_drains(warehouse, run)
    points = datapoints_until(session, warehouse, run.to_drain)
    points = points.where(F.col("day").isin(days) & F.col("owner_id").isin(owners))
    theirs = newest_per_key(points, stale_after_h=load_settings().stale_after_h)
    ours = read(session, warehouse, CURRENT_VALUE).where(F.col("owner_id").isin(owners))
    compared = _compared(ours, theirs).where(~_is_of_another_day(days))
    return _report(
        "equals_recomputation", compared, {"owners": len(owners), "days recomputed": len(days)}
    )


def _is_of_another_day(days: Sequence[date]) -> Column:
    """Our value is newer than all that was recomputed, on a day that was not."""
    newer = F.col("theirs.ts").isNull() | (F.col("ours.ts") > F.col("theirs.ts"))
    return F.col("ours.ts").isNotNull() & newer & ~F.to_date("ours.ts").isin(list(days))


@asset_check(
    asset=CURRENT_VALUE.name,
    name="served_form_equals_delta_form",
    description="For a sample of owners, what Postgres serves is what the Delta table holds.",
)
def served_form_equals_delta_form(
    records: Records, spark: Spark, lake: DeltaLake
) -> AssetCheckResult:
    """Compare the values that no drain has touched since the Delta form's last run."""
    session = spark.spark_session
    with records.gateway.transaction() as tx:
        taken_up = tx.derived_runs.last(CURRENT_VALUE.name).to_drain
        owners = tx.devices.sample(SAMPLE_OWNERS)
        served = _served_table(tx.current_values.of_owners(owners))
        unserved = tx.current_values.unserved_of(owners)
        states = tx.device_states.of({device_id for device_id, _ in unserved})
    held = _as_shown(read(session, lake.warehouse, CURRENT_VALUE)).where(_TELLS_APART)
    nothing = held.limit(0).withColumn("drain_id", F.lit(0).cast("bigint"))
    ours = session.createDataFrame(served) if served.num_rows else nothing
    settled = F.coalesce(F.col("ours.drain_id"), F.lit(0)) <= taken_up
    named = [*_named_keys(unserved, states)]
    sides = (ours.where(_TELLS_APART), held.where(F.col("owner_id").isin(owners)))
    ours, held = (_without(session, side, unserved, named) for side in sides)
    compared = _compared(ours, held).where(settled)
    counts = {"owners": len(owners), "lineages not served": len(unserved)}
    return _report("served_form_equals_delta_form", compared, counts)


def _compared(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """Both sides of every value, and whether they differ."""
    same_key = [F.col(f"ours.{name}").eqNullSafe(F.col(f"theirs.{name}")) for name in IDENTITY]
    both = ours.alias("ours").join(theirs.alias("theirs"), same_key, "full")
    same = F.lit(True)
    for name in VALUES:
        same = same & F.col(f"ours.{name}").eqNullSafe(F.col(f"theirs.{name}"))
    return both.withColumn("differs", ~same)


def _report(check: str, compared: DataFrame, counts: dict[str, int]) -> AssetCheckResult:
    found = compared.agg(
        F.count("*").alias("values"), F.count_if("differs").alias("wrong")
    ).collect()[0]
    sides = [
        F.coalesce(F.col(f"ours.{name}"), F.col(f"theirs.{name}")).alias(name) for name in IDENTITY
    ] + [F.col(f"{side}.{name}").alias(f"{side} {name}") for name in VALUES for side in SIDES]
    wrong = compared.where("differs").select(*sides)
    return report(
        asset=CURRENT_VALUE.name,
        check=check,
        passed=found["wrong"] == 0,
        counts=counts | {"values compared": found["values"], "values that differ": found["wrong"]},
        sample=wrong.limit(SAMPLE_ROWS).toArrow().to_pylist() if found["wrong"] else [],
        advice=_REBUILD,
    )


def _served_table(values: Iterable[CurrentValueRecord]) -> pa.Table:
    fields = [CURRENT_VALUE.schema.field(name) for name in COMPARED]
    schema = pa.schema([*fields, ("drain_id", pa.int64())])
    return pa.Table.from_pylist([value._asdict() for value in values], schema)


def _as_shown(held: DataFrame) -> DataFrame:
    """The texts as Postgres can hold them."""
    texts = ("key", "instance", "value_text")
    return held.withColumns({name: F.translate(name, "\0", shown("\0")) for name in texts})


def _named_keys(
    lineages: Iterable[Lineage], states: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The keys, each with its device, that were chosen for columns of lineages by name."""
    for device_id, source_table in lineages:
        state = decode_state(states.get(device_id, "{}").encode())
        bindings = state.lineages.get(source_table, LineageState()).accepted_schemas().values()
        chosen = (action for binding in bindings for action in (binding.actions or {}).values())
        yield from ((device_id, shown(action.key)) for action in chosen if action.key is not None)


def _without(
    session: SparkSession,
    values: DataFrame,
    lineages: Collection[Lineage],
    named: Collection[tuple[str, str]],
) -> DataFrame:
    """The values that belong to none of the given lineages, by their usual keys or named ones."""
    if not lineages:
        return values
    rows = [(device_id, escape_key(source_table)) for device_id, source_table in lineages]
    gone = session.createDataFrame(rows, "owner_id string, table string")
    keyed = values.withColumn("table", F.split_part("key", F.lit("."), F.lit(1)))
    left = keyed.join(F.broadcast(gone), ["owner_id", "table"], "left_anti").drop("table")
    if not named:
        return left
    others = session.createDataFrame([*named], "owner_id string, key string")
    return left.join(F.broadcast(others), ["owner_id", "key"], "left_anti")


SERVING_CHECKS = [equals_recomputation, served_form_equals_delta_form]
