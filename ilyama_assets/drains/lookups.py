"""History lookups: what earlier drains stored of the keys that devices ask about.

Every read is limited by literals on the table's own columns, because only those let Delta skip
files. The exact keys travel with the scan, which hands back no more than was asked for: one pass
over the files that may matter, without a join and without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.drains.orders import DeviceNeeds, LookedUp
from ilyama_assets.tables import BATCH_LEDGER, ROW_CHANGES
from ilyama_protocol.intake.history import (
    BatchNeed,
    KnownPayload,
    NewestChange,
    RowKey,
    StoredRow,
)
from ilyama_resources.delta import Warehouse

MOST_LITERALS = 500
Scan = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_PAYLOAD = ("device_id", "payload_sha256", "source_table", "batch_id", "rows_received")
_PK = ("device_id", "source_table", "source_pk_hash")
_KEY = (*_PK, "journal_epoch", "commit_seq")
_CONTENT = (*_KEY, "op", "row")
_CONTENT_SCHEMA = pa.schema([ROW_CHANGES.schema.field(name) for name in _CONTENT])
_CONTENT_DDL = ", ".join(
    f"`{name}` {'bigint' if name == 'commit_seq' else 'string'}" for name in _CONTENT
)
_ONLY_PLACE = "place"
"""Stands in `op` where a row is told only for its place, not for its content."""


def look_up(
    session: SparkSession, warehouse: Warehouse, needs: Sequence[DeviceNeeds]
) -> dict[str | None, LookedUp]:
    """Everything that the devices need to know, by device."""
    found = {need.device_id: LookedUp() for need in needs}
    for device_id, payload in _known_payloads(session, warehouse, needs):
        found[device_id].payloads.append(payload)
    asked = _still_asked(needs, found)
    if asked:
        _add_rows(session, warehouse, asked, found)
    return found


def _known_payloads(
    session: SparkSession, warehouse: Warehouse, needs: Sequence[DeviceNeeds]
) -> Iterator[tuple[str, KnownPayload]]:
    """Batches that came before, byte for byte, and met no conflict and no floor then."""
    hashes = sorted({batch.payload_sha256 for need in needs for batch in need.needs})
    devices = sorted({need.device_id or "" for need in needs})
    ledger = session.read.format("delta").load(str(warehouse.location(BATCH_LEDGER.name)))
    was_stored = F.col("outcome").isin("accepted", "duplicate") & (F.col("kind") == "rows")
    was_clean = (F.col("rows_conflict") == 0) & (F.col("rows_below_floor") == 0)
    same_bytes = _within("payload_sha256", hashes) & _within("device_id", devices)
    lines = ledger.where(was_stored & was_clean & same_bytes).select(*_PAYLOAD)
    wanted = set(hashes)
    for line in lines.toArrow().to_pylist():
        if line["payload_sha256"] in wanted:
            device_id, *payload = (line[name] for name in _PAYLOAD)
            yield device_id, KnownPayload(*payload)


def _still_asked(
    needs: Sequence[DeviceNeeds], found: dict[str | None, LookedUp]
) -> list[tuple[str, BatchNeed]]:
    """The batches that are not known byte for byte."""
    asked = []
    for need in needs:
        known = {payload.payload_sha256 for payload in found[need.device_id].payloads}
        asked += [(need.device_id or "", b) for b in need.needs if b.payload_sha256 not in known]
    return asked


def _add_rows(
    session: SparkSession,
    warehouse: Warehouse,
    asked: Sequence[tuple[str, BatchNeed]],
    found: dict[str | None, LookedUp],
) -> None:
    changes = session.read.format("delta").load(str(warehouse.location(ROW_CHANGES.name)))
    devices = sorted({device_id for device_id, _ in asked})
    tables = sorted({batch.source_table for _, batch in asked})
    epochs = sorted({batch.journal_epoch for _, batch in asked})
    lowest = min(min(batch.commit_seqs) for _, batch in asked)
    may_matter = (F.col("commit_seq") >= lowest) | ~F.col("journal_epoch").isin(epochs)
    near = _within("device_id", devices) & _within("source_table", tables) & may_matter
    rows = changes.where(near).select(*_CONTENT).mapInArrow(_matching(asked), _CONTENT_DDL)
    for row in rows.toArrow().to_pylist():
        _add_row(row, found[row["device_id"]])


def _add_row(row: dict[str, Any], found: LookedUp) -> None:
    table, pk_hash = row["source_table"], row["source_pk_hash"]
    epoch, seq = row["journal_epoch"], row["commit_seq"]
    found.newest.append(NewestChange(table, pk_hash, epoch, seq))
    if row["op"] != _ONLY_PLACE:
        found.stored.append(StoredRow(RowKey(table, epoch, pk_hash, seq), row["op"], row["row"]))


def _matching(asked: Sequence[tuple[str, BatchNeed]]) -> Scan:
    """A scan that keeps the rows under asked keys, and the newest place of each primary key."""
    keys = {
        (device_id, batch.source_table, pk_hash, batch.journal_epoch, seq)
        for device_id, batch in asked
        for pk_hash, seq in zip(batch.pk_hashes, batch.commit_seqs, strict=True)
    }
    hashes = pa.array(sorted({key[2] for key in keys}), pa.string())

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pks = {key[:3] for key in keys}
        newest: dict[tuple[str, ...], int] = {}
        for batch in batches:
            near = batch.filter(pc.is_in(batch["source_pk_hash"], hashes))
            rows = [row for row in near.to_pylist() if _values(row, _PK) in pks]
            yield _batch([row for row in rows if _values(row, _KEY) in keys])
            for row in rows:
                place = _values(row, (*_PK, "journal_epoch"))
                newest[place] = max(row["commit_seq"], newest.get(place, 0))
        yield _batch(
            [
                dict(zip(_CONTENT, (*place, seq, _ONLY_PLACE, None), strict=True))
                for place, seq in newest.items()
            ]
        )

    return scan


def _values(row: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), _CONTENT_SCHEMA)


def _within(name: str, values: Sequence[str]) -> Column:
    """A literal limit: the values themselves, or their range when there are too many."""
    if len(values) <= MOST_LITERALS:
        return F.col(name).isin(list(values))
    return F.col(name).between(values[0], values[-1])
