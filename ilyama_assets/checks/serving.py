"""Checks of current values: they equal what can be recomputed, in both their forms."""

from collections.abc import Iterable

import pyarrow as pa
from dagster import AssetCheckResult, asset_check
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.checks.tables import read
from ilyama_assets.tables import CURRENT_VALUE
from ilyama_assets.transforms.current_values import IDENTITY, all_datapoints, newest_per_key
from ilyama_protocol.identifiers import escape_key
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.current_values import CurrentValueRecord, Lineage
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark import Spark

SAMPLE_OWNERS = 20
COMPARED = (
    *IDENTITY,
    "kind",
    "value_double",
    "value_text",
    "ts",
    "source",
    "policy",
    "contributors",
)
_REBUILD = (
    "Materialize `current_value` with `rebuild: true`; it is made anew from the datapoints. "
    "If the difference comes back, keep the rows named here and report them."
)


@asset_check(
    asset=CURRENT_VALUE.name,
    name="equals_recomputation",
    description="For a sample of owners, every current value is the newest of its datapoints.",
)
def equals_recomputation(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Recompute the values of some owners and compare."""
    session, warehouse = spark.spark_session, lake.warehouse
    held = read(session, warehouse, CURRENT_VALUE)
    owners = [row.owner_id for row in _some_owners(held).collect()]
    with records.gateway.transaction() as tx:
        taken_up = tx.derived_runs.last(CURRENT_VALUE.name).to_drain
    points = all_datapoints(session, warehouse).where(F.col("drain_id") <= taken_up)
    ours = held.where(F.col("owner_id").isin(owners)).select(*COMPARED)
    theirs = newest_per_key(points.where(F.col("owner_id").isin(owners))).select(*COMPARED)
    wrong = ours.exceptAll(theirs).unionByName(theirs.exceptAll(ours))
    count = wrong.count()
    return report(
        asset=CURRENT_VALUE.name,
        check="equals_recomputation",
        passed=count == 0,
        counts={"owners compared": len(owners), "values compared": ours.count(), "differ": count},
        sample=wrong.limit(SAMPLE_ROWS).toArrow().to_pylist(),
        advice=_REBUILD,
    )


@asset_check(
    asset=CURRENT_VALUE.name,
    name="served_form_equals_delta_form",
    description="What Postgres serves is what the Delta table holds.",
)
def served_form_equals_delta_form(
    records: Records, spark: Spark, lake: DeltaLake
) -> AssetCheckResult:
    """Compare the values that no drain has touched since the Delta form's last run."""
    session = spark.spark_session
    with records.gateway.transaction() as tx:
        taken_up = tx.derived_runs.last(CURRENT_VALUE.name).to_drain
        served = _served_table(tx.current_values.all())
        unserved = tx.current_values.all_unserved()
    held = _as_shown(read(session, lake.warehouse, CURRENT_VALUE)).select(*COMPARED)
    nothing = held.limit(0).withColumn("drain_id", F.lit(0).cast("bigint"))
    ours = session.createDataFrame(served) if served.num_rows else nothing
    settled = ours.where(F.col("drain_id") <= taken_up).select(*COMPARED)
    lacking = held.join(ours, list(IDENTITY), "left_anti")
    wrong = settled.exceptAll(held).unionByName(_without(session, lacking, unserved))
    count = wrong.count()
    return report(
        asset=CURRENT_VALUE.name,
        check="served_form_equals_delta_form",
        passed=count == 0,
        counts={
            "values compared": served.num_rows,
            "lineages not served": len(unserved),
            "differ": count,
        },
        sample=wrong.limit(SAMPLE_ROWS).toArrow().to_pylist(),
        advice=_REBUILD,
    )


def _some_owners(held: DataFrame) -> DataFrame:
    """A sample that changes from run to run."""
    return held.select("owner_id").distinct().orderBy(F.rand()).limit(SAMPLE_OWNERS)


def _served_table(values: Iterable[CurrentValueRecord]) -> pa.Table:
    fields = [CURRENT_VALUE.schema.field(name) for name in COMPARED]
    schema = pa.schema([*fields, ("drain_id", pa.int64())])
    return pa.Table.from_pylist([value._asdict() for value in values], schema)


def _as_shown(held: DataFrame) -> DataFrame:
    """The texts as Postgres can hold them."""
    texts = ("key", "instance", "value_text")
    return held.withColumns({name: F.translate(name, "\0", shown("\0")) for name in texts})


def _without(session: SparkSession, values: DataFrame, lineages: Iterable[Lineage]) -> DataFrame:
    """The values that belong to none of the given lineages."""
    rows = [(device_id, escape_key(source_table)) for device_id, source_table in lineages]
    gone = session.createDataFrame(rows, "owner_id string, table string")
    keyed = values.withColumn("table", F.split_part("key", F.lit("."), F.lit(1)))
    return keyed.join(F.broadcast(gone), ["owner_id", "table"], "left_anti").select(*COMPARED)


SERVING_CHECKS = [equals_recomputation, served_form_equals_delta_form]
