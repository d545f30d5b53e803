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
from ilyama_protocol.intake.outcomes import DecidedRows
from ilyama_protocol.messages import RowBatch
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
    "journal_epoch",
    "source_table",
    "schema_hash",
)
_NO_KEY = "{}"


def decided_rows(device_id: str, rows: pa.Table) -> Iterator[DecidedRows]:
    """The rows of one device, message by message; they are in order of received_at and index."""
    columns = _Columns(rows)
    for told, (begin, end) in zip(columns.messages, columns.spans, strict=True):
        arrival = arrival_of(device_id, told)
        indexes = columns.row_index[begin:end]
        late = {*indexes[columns.late[begin:end]].tolist()}
        batch = _batch(told, columns, begin, end)
        yield DecidedRows(arrival, batch, _compact(indexes), late)


class _Columns:
    """The columns of stored rows, each in the form in which it is cut fastest."""

    def __init__(self, rows: pa.Table) -> None:
        self.received_at: Longs = rows["received_at"].cast(pa.int64()).to_numpy()
        self.row_index: Longs = rows["row_index"].to_numpy()
        self.commit_seq: Longs = rows["commit_seq"].to_numpy()
        self.late = rows["late"].to_numpy().astype(np.bool_)
        self.op: list[str] = rows["op"].to_pylist()
        self.pk: list[str] = rows["pk"].to_pylist()
        self.row: list[str | None] = rows["row"].to_pylist()
        # A device's clock stands still for no two messages.
        begins = np.flatnonzero(np.diff(self.received_at, prepend=self.received_at[0] - 1))
        self.spans = [*pairwise([*begins.tolist(), len(self.op)])]
        self.messages = in_microseconds(rows.select(_OF_MESSAGE).take(begins)).to_pylist()


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
