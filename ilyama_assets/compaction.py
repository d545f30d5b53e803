"""Compaction: the many small files of a day become few, and nothing else changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dagster import AssetExecutionContext, Config, MaterializeResult, MetadataValue, asset

from ilyama_assets.automation import now_and_then
from ilyama_assets.catalog import KINDS, OWNERS
from ilyama_assets.checks.reports import table_of
from ilyama_assets.mirrors.compacting import compact_mirrors
from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_assets.tables import CURRENT_VALUE, INTAKE_TABLES, SEQUENCE_GAPS
from ilyama_assets.transforms.compacted import compact_day, days_worth_compacting
from ilyama_resources.delta.device_tables import DEVICE_TABLES, mirror_names
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.resource import Spark

ROLLED_UP_AFTER = timedelta(days=1)
FORGOTTEN_AFTER = timedelta(days=7)
REJECTIONS_KEPT = timedelta(days=90)


class CompactionConfig(Config):
    """How many files of a table and day are too many."""

    most_files: int = 16


@asset(
    deps=[*(contract.name for contract in INTAKE_TABLES), DEVICE_TABLES],
    group_name="lifecycle",
    description="Small files of a day, rewritten into few; readers see the same rows.",
    kinds=KINDS,
    owners=OWNERS,
    automation_condition=now_and_then(),
)
def compaction(
    context: AssetExecutionContext,
    config: CompactionConfig,
    records: Records,
    spark: Spark,
    lake: DeltaLake,
) -> MaterializeResult[Any]:
    """Compact every table and day that has too many small files."""
    warehouse, gateway = lake.warehouse, records.gateway
    with gateway.lock("compaction"):
        done = [
            compact_day(
                spark.spark_session,
                warehouse,
                contract,
                day,
                commit_lock=gateway.lock(f"table {contract.name}"),
            )
            for contract in INTAKE_TABLES
            if warehouse.holds(contract.name)
            for day in days_worth_compacting(warehouse, contract, most_files=config.most_files)
        ]
    parts = MirrorParts.of(spark.spark_session, gateway, warehouse, load_settings())
    done += compact_mirrors(parts, most_files=config.most_files)
    for result in done:
        context.log.info(f"{result.table} {result.day}: {result.before} files became few")
    removed = sum(warehouse.vacuum(table) for table in sweepable(warehouse, gateway))
    keep = timedelta(days=load_settings().run_keep_days)
    now = datetime.now(UTC)
    # A segment that nobody remembers, and that still lies there, would be taken once more.
    lake.landing.put_away(gateway, now=now)
    compact_records(gateway, now=now, keep=keep)
    return MaterializeResult(
        metadata={
            "tables and days": len(done),
            "files before": sum(result.before for result in done),
            "files after": sum(result.after for result in done),
            "bytes before": sum(result.bytes_before for result in done),
            "bytes after": sum(result.bytes_after for result in done),
            "orphans removed": removed,
            "compacted": table_of([result._asdict() for result in done])
            if done
            else MetadataValue.text("nothing needed it"),
        }
    )


def compact_records(gateway: Gateway, *, now: datetime, keep: timedelta) -> None:
    """Let the books of days past not grow with the number of their drains and segments."""
    with gateway.transaction() as tx:
        tx.ledger.roll_up(before=now.date() - ROLLED_UP_AFTER)
        tx.segments.forget(drained_before=now - FORGOTTEN_AFTER)
        tx.backlog.forget(released_before=now - keep)
        tx.drains.forget(closed_before=now - keep)
        tx.drains.forget_log(before=now - keep)
        tx.derived_runs.forget(closed_before=now - keep)
        tx.sequences.forget_rejections(received_before=now - REJECTIONS_KEPT)
        tx.commit()


def sweepable(warehouse: Warehouse, gateway: Gateway) -> list[str]:
    """Tables whose orphans can go: an unfinished drain may be older than they are kept for."""
    with gateway.transaction() as tx:
        at_rest = tx.drains.unfinished() is None
    derived = (CURRENT_VALUE, SEQUENCE_GAPS)
    contracts = (*derived, *INTAKE_TABLES) if at_rest else derived
    held = [contract.name for contract in contracts if warehouse.holds(contract.name)]
    return held + mirror_names(warehouse.root)
