"""Row changes of a day, rebuilt as the accepted rows they were."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from ilyama_assets.drains.replayed_messages import (
    StoredLine,
    affinities_then,
    arrival_of,
    by_message,
)
from ilyama_protocol.contents import MixedContents
from ilyama_protocol.intake.datapoints import datapoints_of
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.messages import RowBatch


def rebuilt_rows(device_id: str, state: DeviceState, changes: pa.Table) -> Iterator[AcceptedRows]:
    """The accepted rows of every message, in order of arrival."""
    keys = KnownKeys(device_id)
    for message in by_message(changes):
        yield _rebuilt(device_id, state, message, keys)


def _rebuilt(
    device_id: str, state: DeviceState, rows: Sequence[StoredLine], keys: KnownKeys
) -> AcceptedRows:
    """The accepted rows of one message, as they were when they first came."""
    first = rows[0]
    size = max(row["row_index"] for row in rows) + 1
    batch = _batch(first, rows, size)
    indexes = [row["row_index"] for row in rows]
    return AcceptedRows(
        arrival_of(device_id, first),
        batch,
        indexes,
        {row["row_index"] for row in rows if row["late"]},
        keys,
        keys.numbers(batch.pk_text),
        datapoints_of(batch, indexes, affinities_then(state, first)),
    )


def _batch(first: StoredLine, rows: Sequence[StoredLine], size: int) -> RowBatch:
    by_index = {row["row_index"]: row for row in rows}
    decode = msgspec.json.decode
    at = [by_index.get(i) for i in range(size)]
    return RowBatch(
        batch_id=first["batch_id"],
        journal_epoch=first["journal_epoch"],
        source_table=first["source_table"],
        schema_hash=first["schema_hash"],
        first_commit_seq=min(row["commit_seq"] for row in rows),
        last_commit_seq=max(row["commit_seq"] for row in rows),
        schema_columns=None,
        commit_seq=array("q", [row["commit_seq"] if row else 0 for row in at]),
        op=[row["op"] if row else "" for row in at],
        pk_text=[row["pk"] if row else "{}" for row in at],
        row_text=[row["row"] if row else None for row in at],
        contents=MixedContents(
            [decode(row["row"]) if row and row["row"] is not None else None for row in at]
        ),
    )
