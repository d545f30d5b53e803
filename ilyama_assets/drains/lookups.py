"""History lookups: what earlier drains stored of the keys that devices ask about.

Files are chosen by the statistics of the table, before anything is read. What is left is scanned
by Spark's workers in one pass, without a join and without a shuffle: the exact keys travel with
the scan, which hands back no more than was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ilyama_assets.drains.orders import DeviceNeeds, LookedUp
from ilyama_assets.drains.staged_reading import holds_rows
from ilyama_assets.drains.table_scans import NO_END, TableScans, files_of
from ilyama_assets.drains.telemetry_lookups import look_up_telemetry
from ilyama_assets.tables import BATCH_LEDGER, ROW_CHANGES, STAGED_ROWS
from ilyama_protocol.intake.history import (
    BatchNeed,
    KnownPayload,
    NewestChange,
    RowKey,
    StoredRow,
    TelemetryNeed,
)
from ilyama_protocol.intake.lineage_rulings import DECIDED
from ilyama_resources.delta.data_files import as_declared
from ilyama_resources.delta.warehouse import Bounds, Warehouse

Asked = Sequence[tuple[str, BatchNeed]]

_PAYLOAD = ("device_id", "payload_sha256", "source_table", "batch_id", "rows_received")
_JUDGED = ("origin", "kind", "outcome", "code", "rows_conflict", "rows_below_floor")
_PK = ("device_id", "source_table", "source_pk_hash")
_KEY = (*_PK, "journal_epoch", "commit_seq")
_CONTENT = (*_KEY, "op", "row")
_ONLY_PLACE = "place"
"""Stands in `op` where a row is told only for its place, not for its content."""


class HistoryLookup:
    """Looks into the tables for what devices need to know."""

    def __init__(self, session: SparkSession, warehouse: Warehouse, *, tasks: int) -> None:
        self._scans = TableScans(session, warehouse, tasks=tasks)

    def look_up(self, needs: Sequence[DeviceNeeds]) -> dict[str | None, LookedUp]:
        """Everything that the devices need to know, by device."""
        found = {need.device_id: LookedUp() for need in needs}
        every = [(need.device_id or "", asked) for need in needs for asked in need.needs]
        rows = [(device_id, need) for device_id, need in every if isinstance(need, BatchNeed)]
        if rows:
            self._look_up_rows(rows, found)
        look_up_telemetry(
            self._scans,
            [(device_id, need) for device_id, need in every if isinstance(need, TelemetryNeed)],
            found,
        )
        return found

    def _look_up_rows(self, asked: Asked, found: dict[str | None, LookedUp]) -> None:
        for row in self._known_payloads(asked):
            device_id, *payload = (row[name] for name in _PAYLOAD)
            if device_id in found:
                found[device_id].payloads.append(KnownPayload(*payload))
        asked = _still_asked(asked, found)
        for row in self._rows(asked) if asked else ():
            _add_row(row, found[row["device_id"]])

    def _known_payloads(self, asked: Asked) -> list[dict[str, Any]]:
        """Batches that came before, byte for byte, and met no conflict and no floor then."""
        hashes = sorted({need.payload_sha256 for _, need in asked if need.payload_sha256})
        devices = sorted({device_id for device_id, _ in asked})
        after = min(need.after_drain for _, need in asked)
        bounds = {"device_id": (devices[0], devices[-1]), "drain_id": (after + 1, NO_END)}
        scan = partial(_payload_rows, hashes=hashes)
        return self._scan((BATCH_LEDGER.name,), bounds, scan, _PAYLOAD)

    def _rows(self, asked: Asked) -> list[dict[str, Any]]:
        """The rows under asked keys, and the newest place of each primary key."""
        devices = sorted({device_id for device_id, _ in asked})
        tables = sorted({batch.source_table for _, batch in asked})
        after = min(batch.after_drain for _, batch in asked)
        bounds = {
            "device_id": (devices[0], devices[-1]),
            "source_table": (tables[0], tables[-1]),
            "drain_id": (after + 1, NO_END),
        }
        scan = partial(_matching_rows, asked=asked)
        return self._scan((ROW_CHANGES.name, STAGED_ROWS.name), bounds, scan, _CONTENT)

    def _scan(
        self, tables: Sequence[str], bounds: Bounds, scan: Any, columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        ddl = ", ".join(
            f"`{name}` {'bigint' if name in ('commit_seq', 'rows_received') else 'string'}"
            for name in columns
        )
        return self._scans.rows(tables, bounds, scan, ddl)


def _still_asked(asked: Asked, found: dict[str | None, LookedUp]) -> Asked:
    """The batches that are not known byte for byte."""
    known = {
        (device_id, payload.payload_sha256)
        for device_id, of_device in found.items()
        for payload in of_device.payloads
    }
    return [a for a in asked if (a[0], a[1].payload_sha256) not in known]


def _add_row(row: dict[str, Any], found: LookedUp) -> None:
    table, pk_hash = row["source_table"], row["source_pk_hash"]
    epoch, seq = row["journal_epoch"], row["commit_seq"]
    found.newest.append(NewestChange(table, pk_hash, epoch, seq))
    if row["op"] != _ONLY_PLACE:
        found.stored.append(StoredRow(RowKey(table, epoch, pk_hash, seq), row["op"], row["row"]))


def _payload_rows(
    batches: Iterator[pa.RecordBatch], *, hashes: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    wanted = pa.array(hashes, pa.string())
    for file in files_of(batches):
        lines = pq.read_table(file.path, columns=[*_PAYLOAD, *_JUDGED], partitioning=None)
        lines = as_declared(lines, BATCH_LEDGER)
        near = lines.filter(pc.is_in(lines["payload_sha256"], wanted))
        clean = pc.and_(pc.equal(near["rows_conflict"], 0), pc.equal(near["rows_below_floor"], 0))
        stored = pc.is_in(near["outcome"], pa.array(["accepted", "duplicate"]))
        # Of what was staged, rows were decided; a message that broke the engine was not.
        staged = pc.is_in(near["code"], pa.array(sorted(DECIDED)))
        stored = pc.or_(stored, pc.and_(pc.equal(near["outcome"], "staged"), staged))
        decided = pc.is_in(near["origin"], pa.array(["live", "rejection"]))
        of_rows = pc.and_(pc.equal(near["kind"], "rows"), decided)
        kept = near.filter(pc.and_(clean, pc.and_(stored, of_rows)))
        yield from _as_batches(kept.select(list(_PAYLOAD)))


def _matching_rows(batches: Iterator[pa.RecordBatch], *, asked: Asked) -> Iterator[pa.RecordBatch]:
    keys = {
        (device_id, batch.source_table, pk_hash, batch.journal_epoch, seq)
        for device_id, batch in asked
        for pk_hash, seq in zip(batch.pk_hashes, batch.commit_seqs, strict=True)
    }
    devices = pa.array(sorted({key[0] for key in keys}), pa.string())
    hashes = pa.array(sorted({key[2] for key in keys}), pa.string())
    pks = {key[:3] for key in keys}
    newest: dict[tuple[Any, ...], int] = {}
    for file in files_of(batches):
        if file.table == STAGED_ROWS.name and not holds_rows(file.path):
            continue
        stored = pq.read_table(file.path, columns=list(_CONTENT), partitioning=None)
        stored = as_declared(stored, ROW_CHANGES)
        of_pk = pc.is_in(stored["source_pk_hash"], hashes)
        near = stored.filter(pc.and_(of_pk, pc.is_in(stored["device_id"], devices))).to_pylist()
        rows = [row for row in near if _values(row, _PK) in pks]
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


def _values(row: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([ROW_CHANGES.schema.field(name) for name in _CONTENT])
    return pa.RecordBatch.from_pylist(list(rows), schema)


def _as_batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.combine_chunks().to_batches()
