"""The Delta form of current values, derived by Spark from the drains since the last run."""

from typing import Any

from dagster import AssetExecutionContext, Config, MaterializeResult, asset

from ilyama_assets.automation import after_new_drains
from ilyama_assets.catalog import KINDS, OWNERS, column_schema
from ilyama_assets.derived import DerivedTable
from ilyama_assets.tables import CURRENT_VALUE, METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_assets.transforms.current_values import newest_per_key
from ilyama_assets.transforms.newest_points import IDENTITY, newest_points_of_drains
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.derived_runs import DerivedRun
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.resource import Spark


class CurrentValueConfig(Config):
    """Whether to take up what is new, or to make the whole table anew."""

    rebuild: bool = False


@asset(
    name=CURRENT_VALUE.name,
    deps=[METRIC_DATAPOINT.name, STATE_DATAPOINT.name],
    group_name="serving",
    description=CURRENT_VALUE.description,
    kinds=KINDS,
    owners=OWNERS,
    metadata={"dagster/column_schema": column_schema(CURRENT_VALUE)},
    automation_condition=after_new_drains(),
)
def current_value(
    context: AssetExecutionContext,
    config: CurrentValueConfig,
    records: Records,
    spark: Spark,
    lake: DeltaLake,
) -> MaterializeResult[Any]:
    """Merge the newest value of every key that new drains have touched."""
    table = DerivedTable(CURRENT_VALUE, records.gateway, lake.warehouse, spark.spark_session)
    if table.was_interrupted():
        _take_up(table, spark, lake.warehouse, rebuild=False)
    run = _take_up(table, spark, lake.warehouse, rebuild=config.rebuild)
    context.log.info(f"took up drains {run.from_drain} to {run.to_drain}")
    return MaterializeResult(metadata=table.metadata(run))


def _take_up(
    table: DerivedTable, spark: Spark, warehouse: Warehouse, *, rebuild: bool
) -> DerivedRun:
    with table.next_run(rebuild=rebuild) as run:
        session, settings = spark.spark_session, load_settings()
        points = newest_points_of_drains(session, warehouse, run, tasks=settings.cores)
        newest = newest_per_key(points, stale_after_h=settings.stale_after_h)
        table.merge(newest, run, on=IDENTITY, newer="ts", ties=("source", "kind"))
    return run
