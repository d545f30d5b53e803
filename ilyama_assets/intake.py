"""The intake assets: one pass over what landed writes them all."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetExecutionContext,
    AssetSpec,
    Config,
    MarkdownMetadataValue,
    MaterializeResult,
    multi_asset,
)

from ilyama_assets.catalog import table_spec
from ilyama_assets.checks.intake import INTAKE_CHECKS, intake_check_results
from ilyama_assets.conflict_report import MOST_CONFLICTS, conflict_table
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.drains.running import Pace, RunReport, drain_day
from ilyama_assets.partitions import ARRIVAL_DAYS
from ilyama_assets.plots import intake_plot
from ilyama_assets.rejection_report import MOST_GROUPS, rejection_table
from ilyama_assets.review_report import MOST_SCHEMAS, review_table
from ilyama_assets.sources import GOVERNANCE, SOURCE_KEYS
from ilyama_assets.tables import (
    BATCH_LEDGER,
    INTAKE_TABLES,
    KEY_CONFLICTS,
    METRIC_DATAPOINT,
    QUARANTINED_DATAPOINTS,
    RAW_BATCHES,
    REJECTED_BATCHES,
    ROW_CHANGES,
    SCHEMA_OBSERVATIONS,
    STAGED_ROWS,
    STATE_DATAPOINT,
    TELEMETRY_SAMPLES,
)
from ilyama_resources.delta.key_conflicts import newest_conflicts
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.rejections import RejectionFilter
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import Settings, load_settings
from ilyama_resources.spark.resource import Spark

POINT_SOURCES = [ROW_CHANGES.name, TELEMETRY_SAMPLES.name]
_NO_CONFLICT = "No key has come with other content."
RULED_ON = [RAW_BATCHES.name, GOVERNANCE]
INTAKE_SPECS: list[AssetSpec] = [
    table_spec(RAW_BATCHES, group="intake", deps=SOURCE_KEYS),
    table_spec(REJECTED_BATCHES, group="intake", deps=[RAW_BATCHES.name]),
    table_spec(BATCH_LEDGER, group="intake", deps=[RAW_BATCHES.name]),
    table_spec(KEY_CONFLICTS, group="intake", deps=[RAW_BATCHES.name]),
    table_spec(ROW_CHANGES, group="edge", deps=RULED_ON),
    table_spec(TELEMETRY_SAMPLES, group="edge", deps=RULED_ON),
    table_spec(SCHEMA_OBSERVATIONS, group="edge", deps=[RAW_BATCHES.name]),
    table_spec(STAGED_ROWS, group="edge", deps=RULED_ON),
    table_spec(METRIC_DATAPOINT, group="datapoints", deps=POINT_SOURCES),
    table_spec(STATE_DATAPOINT, group="datapoints", deps=POINT_SOURCES),
    table_spec(QUARANTINED_DATAPOINTS, group="datapoints", deps=POINT_SOURCES),
]


class IntakeConfig(Config):
    """How a run takes drains; the defaults are those of a run started by hand."""

    idle_s: float | None = None
    max_s: float | None = None
    apart_s: float | None = None
    replay_when_idle: bool = True


@multi_asset(
    name="intake",
    specs=INTAKE_SPECS,
    check_specs=INTAKE_CHECKS,
    partitions_def=ARRIVAL_DAYS,
)
def intake(
    context: AssetExecutionContext,
    config: IntakeConfig,
    records: Records,
    spark: Spark,
    lake: DeltaLake,
) -> Iterator[MaterializeResult[Any] | AssetCheckResult]:
    """Drain what landed on a day; when nothing waits, replay the day."""
    parts = intake_parts(records, spark, lake)
    run = take_in(parts, date.fromisoformat(context.partition_key), config)
    context.log.info(f"drains {run.drains or 'none'}: {dict(run.messages)}")
    yield from results_of(run, parts)


def results_of(
    run: RunReport, parts: Intake
) -> Iterator[MaterializeResult[Any] | AssetCheckResult]:
    """What a run tells Dagster: what became of each table, and whether the books balance."""
    yield from _materializations(run, parts)
    yield from intake_check_results(run)


def intake_parts(records: Records, spark: Spark, lake: DeltaLake) -> Intake:
    """The parts of a drain, from the resources of a run."""
    parts = Intake(
        settings=load_settings(),
        gateway=records.gateway,
        landing=lake.landing,
        warehouse=lake.warehouse,
        session=lambda: spark.spark_session,
    )
    parts.prepare()
    return parts


def take_in(parts: Intake, day: date, config: IntakeConfig) -> RunReport:
    """Drain a day, or replay it when nothing of it waits and that was asked for."""
    settings = parts.settings
    # A run that waits for its turn has its session ready when it comes.
    parts.session()
    with parts.alone():
        if config.replay_when_idle and not parts.waits(day):
            run = RunReport()
            run.add(parts.replay(day))
            return run
        return drain_day(parts, day, _pace(settings, config))


def _pace(settings: Settings, config: IntakeConfig) -> Pace:
    return Pace(
        settings.run_idle_s if config.idle_s is None else config.idle_s,
        settings.run_max_s if config.max_s is None else config.max_s,
        settings.drain_every_s if config.apart_s is None else config.apart_s,
    )


def _materializations(run: RunReport, parts: Intake) -> Iterator[MaterializeResult[Any]]:
    now = datetime.now(UTC)
    with parts.gateway.transaction() as tx:
        plot = intake_plot(tx.ledger.hourly(now - timedelta(days=1)), until=now)
        groups = tx.rejections.largest_groups(RejectionFilter(), limit=MOST_GROUPS)
        schemas = tx.open_reviews.schemas(limit=MOST_SCHEMAS)
    shown: dict[str, dict[str, Any]] = {
        RAW_BATCHES.name: {"intake over the last day": plot},
        BATCH_LEDGER.name: {"intake over the last day": plot},
        REJECTED_BATCHES.name: {"rejections by code, table and firmware": rejection_table(groups)},
        STAGED_ROWS.name: {"schemas that wait for a person": review_table(schemas)},
        KEY_CONFLICTS.name: {"newest conflicts": _conflicts(parts.warehouse.root)},
    }
    for contract in INTAKE_TABLES:
        metadata = shown.get(contract.name, {}) | _metadata(run, parts, contract.name)
        yield MaterializeResult(asset_key=contract.name, metadata=metadata)


def _conflicts(warehouse: Path) -> MarkdownMetadataValue:
    found = newest_conflicts(warehouse, limit=MOST_CONFLICTS)
    otherwise = "No conflict could be read." if found.unreadable else _NO_CONFLICT
    return conflict_table(found.conflicts, otherwise=otherwise)


def _metadata(run: RunReport, parts: Intake, table: str) -> dict[str, Any]:
    return {
        "dagster/row_count": run.written[table],
        "dagster/uri": str(parts.warehouse.location(table)),
        "messages received": run.received,
        "messages by outcome": dict(run.messages),
        "rows received": run.rows["received"],
        "rows new": run.rows["new"],
        "rows duplicate": run.rows["duplicate"],
        "rows in conflict": run.rows["conflict"],
        "rows rejected": run.rows["rejected"],
        "rows staged": run.rows["staged"],
        "rows written": run.written[table],
        "telemetry values out of window": run.out_of_window,
        "bytes received": run.bytes_received,
        "bytes written": run.bytes_written[table],
        "Delta version": parts.warehouse.version(table),
        "drains": _span(run.drains),
    }


def _span(drains: list[int]) -> str:
    if not drains:
        return "none"
    return f"{drains[0]}" if len(drains) == 1 else f"{drains[0]} to {drains[-1]}"
