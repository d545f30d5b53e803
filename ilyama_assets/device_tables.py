"""Device tables: the tables of the devices as they are now, typed, one per project and table."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    Config,
    MaterializeResult,
    TableColumn,
    TableSchema,
    asset,
)
from deltalake import DeltaTable

from ilyama_assets.automation import now_and_then_after_new_drains
from ilyama_assets.catalog import KINDS, OWNERS
from ilyama_assets.derived import Progress
from ilyama_assets.markdown import markdown_table
from ilyama_assets.mirrors.moving import MirrorProgress
from ilyama_assets.mirrors.taking_up import Touched, take_up
from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_assets.tables import ROW_CHANGES
from ilyama_assets.transforms.mirrored_rows import OWN_COLUMNS
from ilyama_resources.delta.device_tables import DEVICE_TABLES, Mirror, columns_of
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.derived_runs import DerivedRun
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.resource import Spark

MOST_SHOWN: Final = 50
_SHOWN_OF_NAME: Final = 100
DESCRIPTION: Final = (
    "The rows of the devices' own tables as they are now, one Delta table per project and source "
    "table, with a typed column for each of the device's."
)
COMMON_COLUMNS: Final = TableSchema(
    [
        TableColumn("device_id", "string", description="device that has the row"),
        *(
            TableColumn(name, kind, description=meaning)
            for name, (_, kind, meaning) in OWN_COLUMNS.items()
        ),
    ]
)


class DeviceTablesConfig(Config):
    """Whether to take up what is new, or to make all tables anew."""

    rebuild: bool = False


@asset(
    name=DEVICE_TABLES,
    deps=[ROW_CHANGES.name],
    group_name="edge",
    description=DESCRIPTION,
    kinds=KINDS,
    owners=OWNERS,
    metadata={"dagster/column_schema": COMMON_COLUMNS},
    automation_condition=now_and_then_after_new_drains(),
)
def device_tables(
    context: AssetExecutionContext,
    config: DeviceTablesConfig,
    records: Records,
    spark: Spark,
    lake: DeltaLake,
) -> MaterializeResult[Any]:
    """Merge what new drains say of the rows of devices into the tables that mirror them."""
    parts = MirrorParts.of(spark.spark_session, records.gateway, lake.warehouse, load_settings())
    progress = MirrorProgress(records.gateway)
    if progress.was_interrupted():
        bring_up(progress, parts, rebuild=False)
    run, touched = bring_up(progress, parts, rebuild=config.rebuild)
    context.log.info(f"took up drains {run.from_drain} to {run.to_drain}")
    return MaterializeResult(metadata=metadata_of(parts.warehouse, run, touched))


def bring_up(
    progress: Progress, parts: MirrorParts, *, rebuild: bool
) -> tuple[DerivedRun, list[Touched]]:
    """Take up the next run, and tell which tables it touched."""
    with progress.next_run(rebuild=rebuild) as run:
        touched = take_up(parts, run)
    return run, touched


def metadata_of(
    warehouse: Warehouse, run: DerivedRun, touched: Sequence[Touched]
) -> dict[str, Any]:
    """What a person sees of a run, with a line for each table that it touched."""
    lines = [_line(warehouse, one) for one in touched if warehouse.holds(one.mirror.name)]
    left_out = (_left_out(one.mirror, name) for one in touched for name in one.left_out)
    return {
        "dagster/row_count": sum(int(line["rows"]) for line in lines),
        "dagster/uri": str(warehouse.location(DEVICE_TABLES)),
        "bytes": sum(int(line["bytes"]) for line in lines),
        "drains": f"{run.from_drain} to {run.to_drain}",
        "derived run": run.number,
        "tables touched": len(lines),
        "tables": markdown_table(lines[:MOST_SHOWN], otherwise="No table was touched."),
        "columns left out": sum(len(one.left_out) for one in touched),
        "some columns left out": markdown_table(
            [*islice(left_out, MOST_SHOWN)], otherwise="Every column found its place."
        ),
    }


def _left_out(mirror: Mirror, column: str) -> dict[str, str | int]:
    return {
        "project": mirror.project_id or "",
        "source table": mirror.source_table,
        "column": column[:_SHOWN_OF_NAME],
        "length of its name": len(column),
    }


def _line(warehouse: Warehouse, touched: Touched) -> dict[str, str | int]:
    mirror = touched.mirror
    files = warehouse.files(mirror.name)
    return {
        "project": mirror.project_id or "",
        "source table": mirror.source_table,
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size for file in files),
        "columns": len(columns_of(DeltaTable(warehouse.location(mirror.name)))),
        "left out": len(touched.left_out),
        "Delta version": warehouse.version(mirror.name),
        "directory": mirror.name,
    }
