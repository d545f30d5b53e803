"""Gaps as a table: the numbers that never came, as the records have them now."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from dagster import MaterializeResult, asset

from ilyama_assets.automation import now_and_then
from ilyama_assets.catalog import OWNERS, column_schema
from ilyama_assets.gap_report import MOST_SHOWN, gap_table
from ilyama_assets.tables import BATCH_LEDGER, ROW_CHANGES, SEQUENCE_GAPS, TELEMETRY_SAMPLES
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.gaps import ExplainedGap, GapFilter
from ilyama_resources.postgres.resource import Records

PORTION = 10_000
"""So many gaps are held in memory at a time."""


@asset(
    name=SEQUENCE_GAPS.name,
    deps=[BATCH_LEDGER.name, ROW_CHANGES.name, TELEMETRY_SAMPLES.name],
    group_name="intake",
    description=SEQUENCE_GAPS.description,
    kinds={"deltalake", "postgres"},
    owners=OWNERS,
    metadata={"dagster/column_schema": column_schema(SEQUENCE_GAPS)},
    automation_condition=now_and_then(),
)
def sequence_gaps(records: Records, lake: DeltaLake) -> MaterializeResult[Any]:
    """Write the gaps that are open now in the place of those written before."""
    with (
        records.gateway.lock(f"table {SEQUENCE_GAPS.name}"),
        records.gateway.transaction() as tx,
    ):
        gaps = _Counted(tx.gaps.in_portions(rows=PORTION))
        rows = pa.RecordBatchReader.from_batches(SEQUENCE_GAPS.schema, map(gaps_batch, gaps))
        version = lake.warehouse.renew(SEQUENCE_GAPS, rows)
        widest = {kind: tx.gaps.widest(kind, limit=MOST_SHOWN) for kind in SequenceKind}
        unlisted = tx.gaps.unlisted(GapFilter())
    metadata: dict[str, Any] = {
        "dagster/row_count": gaps.count,
        "dagster/uri": str(lake.warehouse.location(SEQUENCE_GAPS.name)),
        "bytes": sum(file.size for file in lake.warehouse.files(SEQUENCE_GAPS.name)),
        "Delta version": version,
        "widest gaps of telemetry": gap_table(widest[SequenceKind.TELEMETRY]),
        "widest gaps of journals, a hint": gap_table(widest[SequenceKind.ROWS]),
        "numbers of journals in no listed gap, at least": unlisted,
    }
    return MaterializeResult(metadata=metadata)


class _Counted:
    """Portions of gaps, and how many gaps were in those that are through."""

    def __init__(self, portions: Iterable[Sequence[ExplainedGap]]) -> None:
        self._portions = portions
        self.count = 0

    def __iter__(self) -> Iterator[Sequence[ExplainedGap]]:
        for portion in self._portions:
            self.count += len(portion)
            yield portion


def gaps_batch(gaps: Iterable[ExplainedGap]) -> pa.RecordBatch:
    """Gaps in the shape of their table."""
    return pa.RecordBatch.from_pylist([*map(gap_row, gaps)], SEQUENCE_GAPS.schema)


def gap_row(explained: ExplainedGap) -> dict[str, Any]:
    """A gap as its table has it."""
    gap = explained.gap
    of_rows = gap.kind == SequenceKind.ROWS
    return gap._asdict() | {
        "source_table": None if of_rows else gap.name,
        "journal_epoch": gap.name if of_rows else None,
        "missing": gap.last_missing - gap.first_missing + 1,
        "rejections": explained.rejections,
        "rejection_ids": msgspec.json.encode(explained.rejection_ids).decode(),
    }
