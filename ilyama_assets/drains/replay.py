"""Replay of a day: derive its datapoints again from stored row changes, and add what is missing.

What was decided stays decided: dedup, order, lateness and received_at are read, not judged again.
A schema holds from the moment it was bound, as it did when the rows first came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.integrity import TaskIntegrity
from ilyama_assets.drains.orders import Products, decode_products, encode
from ilyama_assets.drains.planning import Plan
from ilyama_assets.drains.projection import encoded, projected
from ilyama_assets.drains.rebuilding import decided_rows
from ilyama_assets.drains.sealing import Seal, make_seal
from ilyama_assets.drains.task import PRODUCTS_DDL, PRODUCTS_SCHEMA, write_tables
from ilyama_assets.drains.totals import encoded_totals
from ilyama_assets.tables import (
    BATCH_LEDGER,
    METRIC_DATAPOINT,
    QUARANTINED_DATAPOINTS,
    RAW_BATCHES,
    ROW_CHANGES,
    STATE_DATAPOINT,
)
from ilyama_protocol.intake.datapoints import affinities_of, datapoints_of
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.newest_points import NewestPoints
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    LedgerLine,
    Origin,
    Outcome,
)
from ilyama_protocol.intake.schema_rulings import USUAL
from ilyama_protocol.intake.state import DeviceState, decode_state
from ilyama_protocol.topics import MessageKind
from ilyama_resources.delta import Warehouse
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import Drain

_POINT_TABLES = (METRIC_DATAPOINT, STATE_DATAPOINT, QUARANTINED_DATAPOINTS)


def replay_day(session: SparkSession, gateway: Gateway, warehouse: Warehouse, drain: Drain) -> Seal:
    """What a day still lacks, written and not yet visible."""
    changes = _changes(session, warehouse, drain.day)
    devices = [row.device_id for row in changes.select("device_id").distinct().collect()]
    with gateway.transaction() as tx:
        states = tx.device_states.of(devices)
    present = _present_ids(session, warehouse, drain.day)
    derive = _deriver(drain.drain_id, str(warehouse.root), states)
    products = (
        changes.groupBy("device_id")
        .cogroup(present.groupBy("owner_id"))
        .applyInArrow(derive, PRODUCTS_DDL)
        .toArrow()["products"]
    )
    return make_seal([decode_products(body.as_py()) for body in products], Plan([], []))


def _changes(session: SparkSession, warehouse: Warehouse, day: date) -> DataFrame:
    """The day's row changes, with what their messages said beside the payload."""
    changes = _of_day(session, warehouse, ROW_CHANGES.name, day)
    messages = _of_day(session, warehouse, RAW_BATCHES.name, day).select(
        "segment_id", "position", "topic", "user_properties", "payload_sha256"
    )
    return changes.join(messages, ["segment_id", "position"], "left")


def _present_ids(session: SparkSession, warehouse: Warehouse, day: date) -> DataFrame:
    """The ids of the datapoints that are there; the last rows of a day may lie in the next."""
    days = (day, day + timedelta(days=1))
    frames = [
        session.read.format("delta")
        .load(str(warehouse.location(contract.name)))
        .where(F.col("day").isin(*days))
        .select("owner_id", "datapoint_id")
        for contract in _POINT_TABLES
    ]
    return frames[0].union(frames[1]).union(frames[2])


def _of_day(session: SparkSession, warehouse: Warehouse, table: str, day: date) -> DataFrame:
    location = str(warehouse.location(table))
    return session.read.format("delta").load(location).where(F.col("day") == F.lit(day))


def _deriver(
    drain_id: int, warehouse: str, states: dict[str, str]
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def derive(changes: pa.Table, present: pa.Table) -> pa.Table:
        if not changes.num_rows:
            return PRODUCTS_SCHEMA.empty_table()
        device_id = changes["device_id"][0].as_py()
        state = decode_state(states[device_id].encode())
        products = _missing(drain_id, Path(warehouse), state, changes, present)
        return pa.table([pa.array([encode(products)], pa.binary())], schema=PRODUCTS_SCHEMA)

    return derive


def _missing(
    drain_id: int, warehouse: Path, state: DeviceState, changes: pa.Table, present: pa.Table
) -> Products:
    """The datapoints of one device that are not there, and a ledger line per message."""
    device_id = changes["device_id"][0].as_py()
    accepted = list(_accepted(device_id, state, changes))
    encoder = Encoder(drain_id, Origin.DAY)
    absent = {
        name: points.filter(pc.invert(pc.is_in(points["datapoint_id"], present["datapoint_id"])))
        for name, points in encoder.datapoints(accepted).items()
    }
    lacking = {
        (row["segment_id"], row["ts"])
        for points in absent.values()
        for row in points.select(["segment_id", "ts"]).cast(_PLACE).to_pylist()
    }
    ledger = encoder.ledger([_line(rows, lacking) for rows in accepted])
    tables = {name: [table] for name, table in absent.items() if table.num_rows}
    integrity = TaskIntegrity()
    integrity.inspect(tables | {BATCH_LEDGER.name: [ledger]})
    files = write_tables(
        warehouse,
        tables | {BATCH_LEDGER.name: [ledger]},
        stem=f"replay-{drain_id:08}-{uuid4().hex}",
    )
    return Products(
        files=list(files),
        current=_current(device_id, accepted, absent),
        ledger=encoded_totals([ledger]),
        findings=integrity.findings,
    )


_PLACE = pa.schema([("segment_id", pa.string()), ("ts", pa.int64())])


def _accepted(device_id: str, state: DeviceState, changes: pa.Table) -> Iterator[AcceptedRows]:
    """The accepted rows of every message, as they were when they first came."""
    in_order = changes.sort_by([("received_at", "ascending"), ("row_index", "ascending")])
    keys = KnownKeys(device_id)
    for decided in decided_rows(device_id, in_order):
        batch, received_at = decided.batch, decided.arrival.received_at
        lineage = state.lineage(batch.source_table)
        schema = lineage.schema_at(batch.schema_hash, received_at)
        binding = lineage.accepted_schemas().get(batch.schema_hash, USUAL)
        affinities = None if schema is None else affinities_of(schema)
        yield AcceptedRows(
            decided.arrival,
            batch.without_contents(),
            decided.rows,
            decided.late,
            keys,
            keys.numbers(batch.pk_text),
            datapoints_of(batch, decided.rows, affinities, binding),
        )


def _line(rows: AcceptedRows, lacking: set[tuple[str, int]]) -> LedgerLine:
    segment, received_at = rows.arrival.message.segment_id, rows.arrival.received_at
    new = sum((segment, received_at + i) in lacking for i in rows.rows)
    return LedgerLine(
        rows.arrival,
        MessageKind.ROWS,
        Outcome.ACCEPTED if new else Outcome.DUPLICATE,
        source_table=rows.batch.source_table,
        batch_id=rows.batch.batch_id,
        rows_received=len(rows.rows),
        rows_new=new,
        rows_duplicate=len(rows.rows) - new,
    )


def _current(
    device_id: str, accepted: Sequence[AcceptedRows], absent: dict[str, pa.Table]
) -> list[bytes]:
    """The newest values of the device, when something was missing."""
    if not any(table.num_rows for table in absent.values()):
        return []
    newest = NewestPoints(accepted[0].keys)
    for rows in accepted:
        newest.advance(rows)
    return list(encoded([projected([(device_id, newest.values())])]))
