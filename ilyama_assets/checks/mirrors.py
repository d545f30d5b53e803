"""The check of device tables: they equal what can be recomputed from all row changes."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dagster import AssetCheckResult, AssetCheckSeverity, asset_check
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.mirrors.columns import Affinities, KindsByColumn, continued_columns
from ilyama_assets.mirrors.moving import MirrorProgress
from ilyama_assets.mirrors.newest import Newest, newest_of, stored_changes
from ilyama_assets.mirrors.placing import Remembered, remembered
from ilyama_assets.mirrors.writing import MirrorParts, MirrorTable
from ilyama_assets.transforms.mirrored_rows import described
from ilyama_protocol.mirror_names import LONGEST_NAME
from ilyama_protocol.mirror_types import MOST_COLUMNS, widened
from ilyama_resources.delta.device_tables import DEVICE_TABLES, Mirror, MirrorColumn
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.derived_runs import DerivedRun
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.resource import Spark

SAMPLE_DEVICES: Final = 100
SAMPLE_TABLES: Final = 20
_SHOWN: Final = 500
_KEY: Final = ("device_id", "__source_pk_hash")
_REBUILD: Final = (
    "Materialize `device_tables` with `rebuild: true`; all tables are made anew from the row "
    "changes. If the difference comes back, keep the rows named here and report them."
)
_NO_PLACE: Final = (
    f"A device table has at most {MOST_COLUMNS:,} columns, with names of at most {LONGEST_NAME} "
    "characters, and keeps those that it has, also when it is rebuilt. What the columns that are "
    "left out hold is in `row_changes`. Give them shorter names on the device, or a table of their "
    "own, or ignore them when its next schema is approved."
)


class LeftTable(NamedTuple):
    """A table as the last run has left it, whatever later ones make of it."""

    mirror: Mirror
    version: int | None
    """None: no run has made it."""
    columns: Sequence[MirrorColumn]


class Chosen(NamedTuple):
    """What is compared, at one moment between two runs."""

    run: DerivedRun
    known: Remembered
    tables: Sequence[LeftTable]

    @property
    def devices(self) -> list[str]:
        """The devices whose rows are compared."""
        return [*self.known.projects]


class Compared(NamedTuple):
    """What a comparison of one table has found."""

    mirror: Mirror
    rows: int
    wrong: int
    missing: Sequence[str]
    """Columns that are bound and never reached the table."""
    narrow: Sequence[str]
    """Columns whose type does not hold all values that fit them."""
    left_out: Sequence[str]
    """Columns for which there is no place in the table."""
    sample: Sequence[dict[str, object]]


@asset_check(
    asset=DEVICE_TABLES,
    name="mirror_parity",
    automation_condition=every_night(),
    description=(
        "For a sample of devices, every row of their device tables is the newest of its changes "
        "and is there once, "
        "every row whose newest change is no delete is there, and so is every bound column, "
        "wide enough for all values that fit it; a column for which there is no place is a warning."
    ),
)
def mirror_parity(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """Recompute the rows of some devices and compare."""
    parts = MirrorParts.of(spark.spark_session, records.gateway, lake.warehouse, load_settings())
    chosen = chosen_tables(parts, SAMPLE_DEVICES)
    return mirror_report(chosen, list(compared_mirrors(parts, chosen)))


def mirror_report(chosen: Chosen, found: Sequence[Compared]) -> AssetCheckResult:
    """What a person is told; a limit that a device has met warns, and hides nothing else."""
    faults = {
        "rows that differ": sum(table.wrong for table in found),
        "columns that are missing": sum(len(table.missing) for table in found),
        "columns that are too narrow": sum(len(table.narrow) for table in found),
    }
    is_wrong = any(faults.values())
    left_out = [row for table in found for row in _told(table.mirror, table.left_out, "left out")]
    advice = [text for text, applies in ((_REBUILD, is_wrong), (_NO_PLACE, left_out)) if applies]
    return report(
        asset=DEVICE_TABLES,
        check="mirror_parity",
        passed=not is_wrong and not left_out,
        counts={
            "devices": len(chosen.devices),
            "tables compared": len(found),
            "rows compared": sum(table.rows for table in found),
            **faults,
            "columns that are left out": len(left_out),
        },
        sample=[*(row for table in found for row in table.sample), *left_out],
        advice=" ".join(advice),
        severity=AssetCheckSeverity.ERROR if is_wrong else AssetCheckSeverity.WARN,
    )


def chosen_tables(parts: MirrorParts, most_devices: int) -> Chosen:
    """Some tables of some devices; runs wait while they are noted, not while they are compared."""
    with MirrorProgress(parts.gateway).alone():
        with parts.gateway.transaction() as tx:
            run = tx.derived_runs.last(DEVICE_TABLES)
            devices = tx.devices.sample(most_devices)
        known = remembered(parts.gateway, devices)
        with parts.gateway.transaction() as tx:
            # Asked last: of those that had moved when they were remembered, none is missed.
            known = known.without(tx.device_table_moves.devices())
        mirrors = _mirrors(known)
        some = random.sample(mirrors, min(SAMPLE_TABLES, len(mirrors)))
        return Chosen(run, known, [*_left_tables(parts, run, some)])


def _mirrors(known: Remembered) -> list[Mirror]:
    """The tables that rows of devices belong to."""
    found = {
        known.mirror_of(device_id, source_table)
        for device_id, state in known.states.items()
        for source_table, lineage in state.lineages.items()
        if lineage.watermarks
    }
    return sorted(found, key=lambda mirror: mirror.name)


def _left_tables(
    parts: MirrorParts, run: DerivedRun, mirrors: Sequence[Mirror]
) -> Iterator[LeftTable]:
    """The tables as a run left them; of one that is further, the rest of its run is awaited."""
    following = run._replace(number=run.number + 1)
    for mirror in mirrors:
        table = MirrorTable(mirror, parts, following)
        if not table.is_done:
            version = parts.warehouse.version(mirror.name) if table.is_made else None
            yield LeftTable(mirror, version, table.columns)


def compared_mirrors(parts: MirrorParts, chosen: Chosen) -> Iterator[Compared]:
    """Compare tables as they were when they were chosen; their files stay for a week."""
    tables = {left.mirror.name: left for left in chosen.tables}
    sources = sorted({left.mirror.source_table for left in chosen.tables})
    changes = stored_changes(parts, chosen.run.to_drain).where(
        F.col("device_id").isin(chosen.devices) & F.col("source_table").isin(sources)
    )
    with newest_of(parts, changes, chosen.known) as newest:
        kinds = newest.kinds(tables, few={})
        for name, left in tables.items():
            yield _compared(parts, newest, left, chosen.devices, kinds.get(name, {}))


def _compared(
    parts: MirrorParts,
    newest: Newest,
    left: LeftTable,
    devices: Sequence[str],
    kinds: KindsByColumn,
) -> Compared:
    mirror, columns = left.mirror, left.columns
    theirs = described(newest.rows_of(mirror, columns), columns)
    ours = theirs.limit(0) if left.version is None else _stored(parts, mirror, left.version)
    both = _both(ours.where(F.col("device_id").isin([*devices])), theirs)
    rows, wrong = both.agg(F.count("*"), F.count_if("differs")).collect()[0]
    affinities = newest.placing.affinities_of(mirror)
    missing = [] if left.version is None else _missing_columns(columns, affinities)
    left_out = continued_columns(columns, affinities, kinds).left_out
    narrow = _narrow_columns(columns, kinds)
    told = [*_told(mirror, missing, "no such column"), *_told(mirror, narrow, "too narrow")]
    sample = told + (_sample(both, mirror) if wrong else [])
    return Compared(mirror, rows, wrong, missing, narrow, left_out, sample)


def _stored(parts: MirrorParts, mirror: Mirror, version: int) -> DataFrame:
    """The rows of a table in one of its versions."""
    reader = parts.session.read.format("delta").option("versionAsOf", version)
    return reader.load(str(parts.warehouse.location(mirror.name)))


def _missing_columns(columns: Sequence[MirrorColumn], affinities: Affinities) -> list[str]:
    """Those that the next run would add without a single change."""
    planned = continued_columns(columns, affinities, {}).columns
    return [column.original for column in planned[len(columns) :]]


def _narrow_columns(columns: Sequence[MirrorColumn], kinds: KindsByColumn) -> list[str]:
    """Those that cannot hold all values that fit them; both sides would lack these alike."""
    return [
        column.original
        for column in columns
        if widened(column.type, column.affinity, kinds.get(column.original, ())) != column.type
    ]


def _told(mirror: Mirror, columns: Sequence[str], ours: str) -> Iterator[dict[str, object]]:
    place = dict.fromkeys((*_KEY, "copies"))
    for column in columns:
        yield {"table": mirror.name, **place, "ours": ours, "theirs": column[:_SHOWN]}


def _both(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """Both sides of every row, how often it is in ours, and whether they differ."""
    copies = (F.count("*").alias("copies"), F.any_value("ours").alias("ours"))
    own, other = _as_one(ours, "ours").groupBy(*_KEY).agg(*copies), _as_one(theirs, "theirs")
    is_doubled = F.coalesce("copies", F.lit(0)) > 1
    differs = is_doubled | ~F.col("ours").eqNullSafe(F.col("theirs"))
    return own.join(other, [*_KEY], "full").withColumn("differs", differs)


def _as_one(rows: DataFrame, side: str) -> DataFrame:
    whole = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    return rows.select(*_KEY, whole.alias(side))


def _sample(both: DataFrame, mirror: Mirror) -> list[dict[str, object]]:
    shown = [F.left(F.to_json(side), F.lit(_SHOWN)).alias(side) for side in ("ours", "theirs")]
    place = (F.lit(mirror.name).alias("table"), *_KEY, "copies")
    wrong = both.where("differs").select(*place, *shown)
    return list(wrong.limit(SAMPLE_ROWS).toArrow().to_pylist())


MIRROR_CHECKS = [mirror_parity]
