"""`ilyama gaps`: numbers of journals and telemetry that never came."""

import msgspec
from rich.markup import escape
from rich.table import Table

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.sequences import ExplainedGap, GapFilter
from ilyama_service.cli.consoles import console
from ilyama_service.cli.recording import records, safe


def list_gaps(*, device: str | None, kind: SequenceKind | None, limit: int, as_json: bool) -> None:
    """List gaps, by device, kind, sequence and number."""
    with records() as (_, gateway), gateway.transaction() as tx:
        gaps = tx.sequences.page(GapFilter(device, kind), after=None, limit=limit)
    if as_json:
        for gap in gaps:
            console.print(_line(gap), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(_table(gaps) if gaps else "No number is missing.")


def _line(explained: ExplainedGap) -> str:
    told = explained.gap._asdict() | {
        "rejections": explained.rejections,
        "rejection_ids": explained.rejection_ids,
    }
    return msgspec.json.encode(told).decode()


def _table(gaps: list[ExplainedGap]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("device", "kind", "sequence", "missing", "since drain", "rejected"):
        table.add_column(name, justify="left")
    for explained in gaps:
        gap = explained.gap
        table.add_row(
            escape(safe(gap.device_id)),
            gap.kind,
            escape(safe(gap.name)),
            f"{gap.first_missing} to {gap.last_missing}",
            str(gap.opened_in),
            str(explained.rejections or ""),
        )
    return table
