"""`ilyama gaps`: numbers of journals and telemetry that never came."""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.gaps import ExplainedGap, GapFilter
from ilyama_resources.postgres.sequences import Gap
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import records, safe


def list_gaps(wanted: GapFilter, *, limit: int, as_json: bool) -> None:
    """List gaps, by device, kind, sequence and number."""
    with records() as (_, gateway), gateway.transaction() as tx:
        gaps = tx.gaps.page(wanted, after=None, limit=limit)
        unlisted = tx.gaps.unlisted(wanted)
    lines = map(_json, gaps) if as_json else _lines(gaps, unlisted)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _json(explained: ExplainedGap) -> str:
    told = explained.gap._asdict() | {
        "rejections": explained.rejections,
        "discarded": explained.discarded,
        "rejection_ids": explained.rejection_ids,
    }
    return msgspec.json.encode(told).decode()


def _lines(gaps: list[ExplainedGap], unlisted: int) -> Iterator[str]:
    """One line for each sequence and below it one for each gap: no name of a device is cut."""
    for _, of_sequence in groupby(gaps, key=lambda explained: explained.gap.scope):
        listed = list(of_sequence)
        yield _heading(listed[0].gap)
        yield from map(_line, listed)
    if unlisted:
        yield f"At least {unlisted:,} numbers of journals never came that are in no listed gap."
    elif not gaps:
        yield "No number is missing."


def _heading(gap: Gap) -> str:
    named = safe(gap.device_id), safe(gap.name)
    if gap.kind == SequenceKind.ROWS:
        return "{}, journal {} (a hint)".format(*named)
    return "{}, telemetry of {}, era {}".format(*named, gap.era)


def _line(explained: ExplainedGap) -> str:
    gap = explained.gap
    line = (
        f"  {gap.first_missing} to {gap.last_missing}: {gap.missing:,} since drain {gap.opened_in}"
    )
    if not explained.rejections:
        return line
    discarded = f", {explained.discarded:,} discarded" if explained.discarded else ""
    more = explained.rejections - len(explained.rejection_ids)
    ids = [*explained.rejection_ids, *([f"and {more:,} more"] if more > 0 else [])]
    return f"{line}, {explained.rejections:,} rejected{discarded}: {' '.join(ids)}"
