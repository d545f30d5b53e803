"""Staged rows on their way back: read from the files of `staged_rows`, device by device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ilyama_assets.drains.rebuilding import decided_rows, decided_samples
from ilyama_assets.drains.replayed_messages import in_microseconds
from ilyama_assets.tables import STAGED_ROWS
from ilyama_protocol.intake.lineage_rulings import DECIDED, StagingReason
from ilyama_protocol.intake.outcomes import DecidedRows, DecidedSamples, Message
from ilyama_protocol.limits import INT64_MAX
from ilyama_protocol.topics import MessageKind
from ilyama_resources.delta.data_files import as_declared
from ilyama_resources.delta.staged_files import PLACES, chosen_rows, places_in, places_of
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres.staged_backlog import StagedSum

_OF_MESSAGES = ("payload", "rejection_id", "arrived_at")
"""What only whole messages have; files of older builds name no rejections or first moments."""
_READ = [n for n in STAGED_ROWS.file_schema.names if n not in (*_OF_MESSAGES, "error")]

StagedBatch = DecidedRows | DecidedSamples
_Key = tuple[str, str, str, str, int]


class StagedRowsMissing(Exception):
    """The table does not hold what the records say was set aside."""

    def __init__(self, missing: Sequence[StagedSum]) -> None:
        self.missing = list(missing)
        rows = sum(found.rows for found in missing)
        places = sorted({f"{found.source_table} of {found.device_id}" for found in missing})
        more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
        super().__init__(
            f"{rows:,} staged rows are to be released that staged_rows does not hold as they "
            f"were counted: {places[0]}{more}"
        )


def holds_rows(path: str) -> bool:
    """Whether a file holds decided rows; older builds staged whole messages only."""
    return "source_pk_hash" in pq.read_schema(path).names


def _found(paths: Iterable[str], wanted: pa.Table, columns: list[str]) -> Iterator[pa.Table]:
    """What files hold of it; one that is lost or damaged is told by what it should hold."""
    for path in paths:
        # What is missing for good is told by the sums; a disk may read it another time.
        with Unreadable(Path(path).parent, for_good=True).noted(path):
            if holds_rows(path):
                yield from map(_declared, chosen_rows(path, wanted, columns))


def read_staged(paths: Iterable[str], released: Sequence[StagedSum]) -> dict[str, pa.Table]:
    """What is to be released, by device, in the order it came in.

    Raises:
        StagedRowsMissing: There are not as many rows as a sum says.
    """
    sums = [found for found in released if found.staging_reason in DECIDED]
    parts = _found(paths if sums else (), places_of(sums), _READ)
    rows = pa.concat_tables([STAGED_ROWS.file_schema.empty_table().select(_READ), *parts])
    _refuse_missing(sums, _counted(rows), "rows")
    return dict(_by_device(rows) if rows.num_rows else ())


def _refuse_missing(sums: Sequence[StagedSum], read: Mapping[_Key, int], measure: str) -> None:
    """What is marked as released must have been read: else it would be lost without a word."""
    missing = [found for found in sums if read.get(found[:5], 0) != getattr(found, measure)]
    if missing:
        raise StagedRowsMissing(missing)


def _counted(rows: pa.Table) -> dict[_Key, int]:
    """How many rows there are of each sum."""
    counts = places_in(rows).group_by(list(PLACES)).aggregate([([], "count_all")]).to_pylist()
    return {_key(row): row["count_all"] for row in counts}


def _key(row: Mapping[str, Any]) -> _Key:
    device_id, table, reason, schema_hash = (row[name] or "" for name in PLACES[:4])
    return device_id, table, reason, schema_hash, row["drain_id"]


def staged_batches(
    device_id: str, staged: pa.Table, *, rank: Callable[[str], int]
) -> Iterator[StagedBatch]:
    """What was staged of one device, as it was decided: telemetry, then rows as they were made.

    It is rebuilt when it is asked for; rank tells the place of an epoch.
    """
    is_telemetry = pc.equal(staged["kind"], MessageKind.TELEMETRY)
    samples, rows = staged.filter(is_telemetry), staged.filter(pc.invert(is_telemetry))
    if samples.num_rows:
        yield from decided_samples(device_id, samples)
    if rows.num_rows:
        yield from decided_rows(device_id, _by_commit(rows, rank))


def _by_commit(rows: pa.Table, rank: Callable[[str], int]) -> pa.Table:
    """Batches of rows by epoch and lowest commit_seq; what came together stays together."""
    moments = rows["received_at"].cast(pa.int64()).to_numpy()
    _, batches = np.unique(moments, return_inverse=True)
    lowest = np.full(batches.max() + 1, INT64_MAX)
    np.minimum.at(lowest, batches, rows["commit_seq"].to_numpy())
    epochs = rows["journal_epoch"].combine_chunks().dictionary_encode()
    ranks = np.array([rank(epoch) for epoch in epochs.dictionary.to_pylist()])
    of_rows = ranks[epochs.indices.to_numpy()]
    return rows.take(np.lexsort((rows["row_index"].to_numpy(), moments, lowest[batches], of_rows)))


def _declared(rows: pa.RecordBatch) -> pa.Table:
    found = as_declared(pa.Table.from_batches([rows]), STAGED_ROWS)
    return found.select([name for name in STAGED_ROWS.schema.names if name in found.column_names])


def read_undecided(paths: Iterable[str], released: Sequence[StagedSum]) -> dict[str, list[Message]]:
    """Messages that broke the engine and are to be decided anew, by device and in order.

    Raises:
        StagedRowsMissing: There are not as many bytes as a sum says; how many rows a message
            would have had was a guess.
    """
    broken = [found for found in released if found.staging_reason == StagingReason.ENGINE_ERROR]
    found: dict[str, list[Message]] = {}
    read: Counter[_Key] = Counter()
    for rows in _found(paths if broken else (), places_of(broken), [*_READ, *_OF_MESSAGES]):
        for row in in_microseconds(rows).to_pylist():
            found.setdefault(row["device_id"] or "", []).append(_message(row))
            read[_key(row)] += len(row["payload"])
    _refuse_missing(broken, read, "bytes")
    for messages in found.values():
        messages.sort(key=attrgetter("landed_at"))
    return found


def _message(row: dict[str, Any]) -> Message:
    properties = row["user_properties"]
    return Message(
        row["segment_id"],
        row["position"],
        row["topic"],
        row["payload"],
        row["received_at"],
        user_properties=msgspec.json.decode(properties) if properties else {},
        rejection_id=row.get("rejection_id"),
        arrived_at=row.get("arrived_at"),
    )


def _by_device(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    devices = rows["device_id"].combine_chunks().dictionary_encode()
    codes = devices.indices.to_numpy()
    moments = rows["received_at"].cast(pa.int64()).to_numpy()
    order = np.lexsort((rows["row_index"].to_numpy(), moments, codes))
    rows, codes = rows.take(order), codes[order]
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(codes)], strict=True):
        yield devices.dictionary[codes[begin]].as_py(), rows.slice(begin, end - begin)
