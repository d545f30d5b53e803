"""Stored rows as the batches they came in, as they were decided then."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ilyama_assets.drains.replayed_messages import arrival_of, in_microseconds
from ilyama_protocol.intake.outcomes import DecidedRows, DecidedSamples
from ilyama_protocol.messages import RowBatch, TelemetryBatch
from ilyama_protocol.stored_contents import contents_of

Longs = npt.NDArray[np.int64]
_OF_MESSAGE = (
    "segment_id",
    "position",
    "received_at",
    "topic",
    "user_properties",
    "payload_sha256",
    "batch_id",
    "source_table",
    "schema_hash",
)
_NO_KEY = "{}"


def decided_rows(device_id: str, rows: pa.Table) -> Iterator[DecidedRows]:
    """The rows of one device, message by message; those of one are together, by their index."""
    columns = _Columns(rows)
    for told, begin, end in _messages(rows, (*_OF_MESSAGE, "journal_epoch")):
        arrival = arrival_of(device_id, told)
        indexes = columns.row_index[begin:end]
        late = {*indexes[columns.late[begin:end]].tolist()}
        batch = _batch(told, columns, begin, end)
        yield DecidedRows(arrival, batch, _compact(indexes), late)


def decided_samples(device_id: str, rows: pa.Table) -> Iterator[DecidedSamples]:
    """The telemetry of one device, batch by batch; that of one is together, by its index."""
    moments: Longs = rows["ts"].cast(pa.int64()).to_numpy()
    row_id, fields = rows["row_id"].to_pylist(), rows["fields"].to_pylist()
    for told, begin, end in _messages(rows, (*_OF_MESSAGE, "batch_seq")):
        batch = TelemetryBatch(
            batch_id=told["batch_id"],
            batch_seq=told["batch_seq"],
            source_table=told["source_table"],
            schema_hash=told["schema_hash"],
            cursor_start_us=int(moments[begin:end].min()),
            cursor_end_us=int(moments[begin:end].max()),
            schema_columns=None,
            ts_us=array("q", moments[begin:end].tolist()),
            row_id=row_id[begin:end],
            fields_text=fields[begin:end],
            contents=contents_of(fields[begin:end]),
        )
        yield DecidedSamples(arrival_of(device_id, told), batch)


def _messages(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Every message that rows came in: what is told of it, and where its rows begin and end."""
    received_at = rows["received_at"].cast(pa.int64()).to_numpy()
    # A device's clock stands still for no two messages.
    begins = np.flatnonzero(np.diff(received_at, prepend=received_at[0] - 1))
    told = in_microseconds(rows.select(list(names)).take(begins)).to_pylist()
    for message, (begin, end) in zip(
        told, pairwise([*begins.tolist(), len(received_at)]), strict=True
    ):
        yield message, begin, end


class _Columns:
    """The columns of stored rows, each in the form in which it is cut fastest."""

    def __init__(self, rows: pa.Table) -> None:
        self.row_index: Longs = rows["row_index"].to_numpy()
        self.commit_seq: Longs = rows["commit_seq"].to_numpy()
        self.late = rows["late"].to_numpy().astype(np.bool_)
        self.op: list[str] = rows["op"].to_pylist()
        self.pk: list[str] = rows["pk"].to_pylist()
        self.row: list[str | None] = rows["row"].to_pylist()


def _batch(told: dict[str, Any], columns: _Columns, begin: int, end: int) -> RowBatch:
    indexes, numbers = columns.row_index[begin:end], columns.commit_seq[begin:end]
    row_text = _at_their_place(indexes, columns.row[begin:end], None)
    return RowBatch(
        batch_id=told["batch_id"],
        journal_epoch=told["journal_epoch"],
        source_table=told["source_table"],
        schema_hash=told["schema_hash"],
        first_commit_seq=int(numbers.min()),
        last_commit_seq=int(numbers.max()),
        schema_columns=None,
        commit_seq=array("q", _at_their_place(indexes, numbers.tolist(), 0)),
        op=_at_their_place(indexes, columns.op[begin:end], ""),
        pk_text=_at_their_place(indexes, columns.pk[begin:end], _NO_KEY),
        row_text=row_text,
        contents=contents_of(row_text),
    )


def _at_their_place(indexes: Longs, values: list[Any], absent: Any) -> list[Any]:
    """Values at the index of their row; rows of the batch that are not there are left blank."""
    if indexes[-1] == len(values) - 1:
        return values
    spread = [absent] * (int(indexes[-1]) + 1)
    for index, value in zip(indexes.tolist(), values, strict=True):
        spread[index] = value
    return spread


def _compact(indexes: Longs) -> Sequence[int]:
    whole = indexes[-1] == len(indexes) - 1
    return range(len(indexes)) if whole else indexes.tolist()
