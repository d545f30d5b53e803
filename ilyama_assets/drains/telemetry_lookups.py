"""What earlier drains hold of telemetry that devices ask about: batches and datapoints.

The ledger is the memory of batches; it outlives their messages. A message is read only to tell
whether another batch under its id has other content.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ilyama_assets.drains.orders import LookedUp
from ilyama_assets.drains.point_encoding import POINT_TABLES
from ilyama_assets.drains.replayed_messages import in_microseconds
from ilyama_assets.drains.table_scans import NO_END, Batches, TableScans, files_of
from ilyama_assets.tables import BATCH_LEDGER, METRIC_DATAPOINT, RAW_BATCHES, TABLES
from ilyama_protocol.intake.datapoints import TELEMETRY_SOURCE
from ilyama_protocol.intake.history import KnownBatch, PointKey, StoredPoint, TelemetryNeed
from ilyama_protocol.moments import utc
from ilyama_resources.delta.data_files import as_declared

Asked = Sequence[tuple[str, TelemetryNeed]]
"""Needs, each with the device that has it."""
Place = tuple[str, int]
"""A message's segment and position."""

_STATISTICS_STEP_US = 1_000
"""Statistics tell moments in milliseconds."""
_BATCH = (
    "batch_id",
    "source_table",
    "batch_seq",
    "payload_sha256",
    "rows_received",
    "drain_id",
    "segment_id",
    "position",
    "received_at",
)
_BATCHES = in_microseconds(BATCH_LEDGER.schema.empty_table().select(["device_id", *_BATCH])).schema
_BATCHES_DDL = (
    "device_id string, batch_id string, source_table string, batch_seq bigint, "
    "payload_sha256 string, rows_received bigint, drain_id bigint, segment_id string, "
    "position bigint, received_at bigint"
)
_JUDGED = ("origin", "kind", "outcome")
_PAYLOADS = pa.schema(
    [RAW_BATCHES.schema.field(name) for name in ("segment_id", "position", "payload")]
)
_PAYLOADS_DDL = "segment_id string, position bigint, payload binary"
_POINTS = pa.schema(
    [
        ("owner_id", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("ts", pa.int64()),
        ("number", pa.float64()),
        ("text", pa.string()),
    ]
)
_POINTS_DDL = "owner_id string, table string, key string, ts bigint, number double, text string"


def look_up_telemetry(scans: TableScans, asked: Asked, found: dict[str | None, LookedUp]) -> None:
    """Add what earlier drains hold of telemetry to what was found for each device."""
    batches = _known_batches(scans, asked)
    payloads = _payloads(scans, asked, batches)
    for device_id, batch in batches:
        place = batch.segment_id, batch.position
        found[device_id].batches.append(batch._replace(payload=payloads.get(place)))
    for row in _stored_points(scans, asked):
        key = PointKey(row["table"], row["key"], row["ts"])
        value = row["number"] if row["table"] == METRIC_DATAPOINT.name else row["text"]
        found[row["owner_id"]].points.append(StoredPoint(key, value))


def _known_batches(scans: TableScans, asked: Asked) -> list[tuple[str, KnownBatch]]:
    """The batches that were accepted or staged under asked ids and numbers."""
    asked = [a for a in asked if a[1].batch_id is not None or a[1].batch_seq is not None]
    if not asked:
        return []
    bounds = {
        "device_id": _span([device_id for device_id, _ in asked]),
        "drain_id": (min(need.after_drain for _, need in asked) + 1, NO_END),
    }
    scan = partial(_ledger_rows, asked=asked)
    rows = scans.rows([BATCH_LEDGER.name], bounds, scan, _BATCHES_DDL)
    return [(row["device_id"], KnownBatch(*(row[name] for name in _BATCH))) for row in rows]


def _payloads(
    scans: TableScans, asked: Asked, batches: Sequence[tuple[str, KnownBatch]]
) -> dict[Place, bytes]:
    """The messages of known batches under whose ids other bytes came."""
    hashes: dict[tuple[str, str | None], set[str]] = {}
    for device_id, need in asked:
        hashes.setdefault((device_id, need.batch_id), set()).add(need.payload_sha256)
    doubted = [
        batch
        for device_id, batch in batches
        if hashes.get((device_id, batch.batch_id), set()) - {batch.payload_sha256}
    ]
    if not doubted:
        return {}
    places = {(batch.segment_id, batch.position) for batch in doubted}
    bounds = {"segment_id": _span([segment for segment, _ in places])}
    scan = partial(_messages, places=sorted(places))
    rows = scans.rows([RAW_BATCHES.name], bounds, scan, _PAYLOADS_DDL)
    return {(row["segment_id"], row["position"]): row["payload"] for row in rows}


def _stored_points(scans: TableScans, asked: Asked) -> list[dict[str, Any]]:
    """The datapoints of telemetry at asked moments."""
    asked = [(device_id, need) for device_id, need in asked if need.moments]
    if not asked:
        return []
    first = min(need.moments[0] for _, need in asked) - _STATISTICS_STEP_US
    bounds = {
        "owner_id": _span([device_id for device_id, _ in asked]),
        "ts": (utc(first), utc(max(need.moments[-1] for _, need in asked))),
        "drain_id": (min(need.points_after for _, need in asked) + 1, NO_END),
    }
    tables = [contract.name for contract in POINT_TABLES]
    return scans.rows(tables, bounds, partial(_points, asked=asked), _POINTS_DDL)


def _ledger_rows(batches: Batches, *, asked: Asked) -> Batches:
    ids = {(device_id, need.batch_id) for device_id, need in asked}
    numbers = {(device_id, need.source_table, need.batch_seq) for device_id, need in asked}
    wanted_ids = _texts(batch_id for _, batch_id in ids if batch_id is not None)
    wanted_numbers = pa.array({number[2] for number in numbers} - {None}, pa.int64())
    columns = [*_BATCHES.names, *_JUDGED]
    for file in files_of(batches):
        lines = as_declared(
            pq.read_table(file.path, columns=columns, partitioning=None), BATCH_LEDGER
        )
        near = pc.or_(
            pc.is_in(lines["batch_id"], wanted_ids), pc.is_in(lines["batch_seq"], wanted_numbers)
        )
        taken = pc.is_in(lines["outcome"], pa.array(["accepted", "staged"]))
        decided = pc.and_(pc.equal(lines["kind"], "telemetry"), pc.is_valid(lines["batch_seq"]))
        first_time = pc.not_equal(lines["origin"], "day")
        keep = pc.and_(pc.and_(near, taken), pc.and_(decided, first_time))
        rows = in_microseconds(lines.filter(keep).select(_BATCHES.names)).to_pylist()
        yield pa.RecordBatch.from_pylist(
            [
                row
                for row in rows
                if (row["device_id"], row["batch_id"]) in ids
                or (row["device_id"], row["source_table"], row["batch_seq"]) in numbers
            ],
            _BATCHES,
        )


def _messages(batches: Batches, *, places: Sequence[Place]) -> Batches:
    segments, wanted = _texts(segment for segment, _ in places), set(places)
    for file in files_of(batches):
        rows = pq.read_table(
            file.path,
            columns=_PAYLOADS.names,
            partitioning=None,
            filters=pc.field("segment_id").isin(segments),
        )
        yield pa.RecordBatch.from_pylist(
            [
                row
                for row in as_declared(rows, RAW_BATCHES).to_pylist()
                if (row["segment_id"], row["position"]) in wanted
            ],
            _PAYLOADS,
        )


def _points(batches: Batches, *, asked: Asked) -> Batches:
    # Not by table: a column may be mapped to a key that does not name its own.
    wanted = {(device_id, ts) for device_id, need in asked for ts in need.moments}
    owners = _texts(device_id for device_id, _ in wanted)
    moments = pa.array({ts for _, ts in wanted}, pa.int64())
    columns = ["owner_id", "key", "ts", "value", "source"]
    for file in files_of(batches):
        rows = pq.read_table(file.path, columns=columns, partitioning=None)
        rows = as_declared(rows, TABLES[file.table])
        mine = pc.and_(
            pc.equal(rows["source"], TELEMETRY_SOURCE), pc.is_in(rows["owner_id"], owners)
        )
        near = rows.filter(pc.and_(mine, pc.is_in(rows["ts"].cast(pa.int64()), moments)))
        told = near.set_column(2, "ts", near["ts"].cast(pa.int64())).to_pylist()
        member = "number" if file.table == METRIC_DATAPOINT.name else "text"
        yield pa.RecordBatch.from_pylist(
            [
                {**row, "table": file.table, member: row["value"]}
                for row in told
                if (row["owner_id"], row["ts"]) in wanted
            ],
            _POINTS,
        )


def _texts(values: Any) -> pa.Array:
    return pa.array(sorted(set(values)), pa.string())


def _span(values: Sequence[str]) -> tuple[str, str]:
    return min(values), max(values)
