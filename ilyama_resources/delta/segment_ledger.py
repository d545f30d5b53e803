"""The ledger of one segment, by device and table, from the lines that `batch_ledger` has of it.

Postgres keeps sums of drains and days only; of segments there are too many. Files are chosen by
their statistics, and one segment has no more sums than messages.
"""

from __future__ import annotations

from itertools import starmap
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ilyama_resources.delta.data_files import PARTITION
from ilyama_resources.delta.reading import rows_equal
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres.ledger import (
    LedgerBalance,
    LedgerFilter,
    LedgerPlace,
    LedgerSum,
)
from ilyama_resources.postgres.segments import LandedSegment

_TEXTS = LedgerPlace._fields[1:]
_ROWS = LedgerSum._fields[LedgerSum._fields.index("rows_received") :]


def segment_ledger(
    root: Path, segment_id: str, wanted: LedgerFilter, unreadable: Unreadable
) -> list[LedgerSum]:
    """The sums of a segment in the order of day, device, table, kind and outcome.

    Files that cannot be read are noted; the sums are without what they hold.
    """
    named = {"segment_id": segment_id, "origin": wanted.origin}
    columns = ["received_at", *_TEXTS, *_ROWS]
    found_rows = rows_equal(root, "batch_ledger", columns, equal=named, unreadable=unreadable)
    lines = [*map(_grouped, found_rows)]
    if not lines:
        return []
    counts = ["messages", *_ROWS]
    sums = pa.concat_tables(lines).group_by([PARTITION, *_TEXTS])
    summed = sums.aggregate([(name, "sum") for name in counts])
    names = [PARTITION, *_TEXTS, *(f"{name}_sum" for name in counts)]
    found = zip(*(summed[name].to_pylist() for name in names), strict=True)
    return sorted(line for line in starmap(LedgerSum, found) if _is_wanted(line, wanted))


def segment_balance(
    sums: list[LedgerSum], wanted: LedgerFilter, landed: LandedSegment | None
) -> LedgerBalance:
    """Both sides of a segment's books; what it held counts as soon as a drain has decided it."""
    received = None
    if landed is not None and wanted.day is None and wanted.covers_whole_segments:
        received = landed.messages if landed.is_drained or sums else 0
    totals = {name: sum(getattr(line, name) for line in sums) for name in LedgerBalance._fields[1:]}
    return LedgerBalance(received, **totals)


def _grouped(rows: pa.RecordBatch) -> pa.Table:
    """The lines with their day, one message each, and the empty text for what is unknown."""
    days = pc.cast(rows["received_at"], pa.date32())
    texts = [pc.fill_null(rows[name], "") for name in _TEXTS]
    ones = pa.array([1] * rows.num_rows, pa.int64())
    arrays = [days, *texts, ones, *(rows[name] for name in _ROWS)]
    return pa.Table.from_arrays(arrays, [PARTITION, *_TEXTS, "messages", *_ROWS])


def _is_wanted(line: LedgerSum, wanted: LedgerFilter) -> bool:
    asked = wanted._asdict()
    return all(asked[name] in (None, getattr(line, name)) for name in LedgerPlace._fields)
