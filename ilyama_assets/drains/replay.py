"""Replay of a day: derive its datapoints again from what is stored, and add what is missing.

What was decided stays decided: dedup, order, lateness and received_at are read, not judged again.
A schema holds from the moment it was bound, as it did when the rows first came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from functools import reduce
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.integrity import TaskIntegrity
from ilyama_assets.drains.orders import Products, decode_products, encode
from ilyama_assets.drains.planning import Plan
from ilyama_assets.drains.point_encoding import POINT_TABLES
from ilyama_assets.drains.projection import encoded, projected
from ilyama_assets.drains.row_replay import rebuilt_rows
from ilyama_assets.drains.sealing import Seal, make_seal
from ilyama_assets.drains.task import PRODUCTS_DDL, PRODUCTS_SCHEMA, write_tables
from ilyama_assets.drains.telemetry_replay import rebuilt_samples
from ilyama_assets.drains.totals import encoded_totals
from ilyama_assets.tables import BATCH_LEDGER, RAW_BATCHES, ROW_CHANGES, TELEMETRY_SAMPLES
from ilyama_protocol.intake.datapoints import SOURCE, TELEMETRY_SOURCE
from ilyama_protocol.intake.newest_points import NewestPoints
from ilyama_protocol.intake.newest_samples import NewestSamples
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    AcceptedSamples,
    CurrentValues,
    LedgerLine,
    Origin,
    Outcome,
    join_current,
)
from ilyama_protocol.intake.state import DeviceState, decode_state
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import TelemetryBatch
from ilyama_protocol.topics import MessageKind
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import Drain

_PLACE = pa.schema([("batch_id", pa.string()), ("ts", pa.int64())])
_Place = tuple[str, int]
"""A batch and a moment in it."""


class _Rebuilt(NamedTuple):
    """What one device had sent, in order of arrival."""

    accepted: list[AcceptedRows]
    samples: list[AcceptedSamples]


_Rebuild = Callable[[str, DeviceState, pa.Table], _Rebuilt]


class _Sort(NamedTuple):
    """A table that datapoints are derived from, their source, and how it is rebuilt."""

    contract: TableContract
    source: str
    days: Callable[[DataFrame, date], tuple[date, date]]
    rebuild: _Rebuild


def replay_day(
    session: SparkSession, gateway: Gateway, warehouse: Warehouse, drain: Drain, *, limits: Limits
) -> Seal:
    """What a day still lacks, written and not yet visible."""

    def samples(device_id: str, state: DeviceState, rows: pa.Table) -> _Rebuilt:
        return _Rebuilt([], list(rebuilt_samples(device_id, state, rows, limits)))

    replay = _DayReplay(session, gateway, warehouse, drain)
    sorts = (
        _Sort(ROW_CHANGES, SOURCE, _this_day_and_next, _rows),
        _Sort(TELEMETRY_SAMPLES, TELEMETRY_SOURCE, _days_of_samples, samples),
    )
    products = [products for sort in sorts for products in replay.products(sort)]
    return make_seal(products, Plan([], []))


class _DayReplay:
    def __init__(
        self, session: SparkSession, gateway: Gateway, warehouse: Warehouse, drain: Drain
    ) -> None:
        self._session = session
        self._gateway = gateway
        self._warehouse = warehouse
        self._drain = drain

    def products(self, sort: _Sort) -> list[Products]:
        """What a day lacks of the datapoints that one table gives."""
        rows = self._rows(sort.contract)
        devices = [row.device_id for row in rows.select("device_id").distinct().collect()]
        if not devices:
            return []
        with self._gateway.transaction() as tx:
            states = tx.device_states.of(devices)
        derive = _deriver(self._drain.drain_id, str(self._warehouse.root), states, sort.rebuild)
        derived = (
            rows.groupBy("device_id")
            .cogroup(self._present(sort, rows).groupBy("owner_id"))
            .applyInArrow(derive, PRODUCTS_DDL)
        )
        return [decode_products(body.as_py()) for body in derived.toArrow()["products"]]

    def _rows(self, contract: TableContract) -> DataFrame:
        """The day's rows, with what their messages said beside the payload."""
        day = F.col("day") == F.lit(self._drain.day)
        messages = self._read(RAW_BATCHES).where(day)
        messages = messages.select(
            "segment_id", "position", "topic", "user_properties", "payload_sha256"
        )
        return self._read(contract).where(day).join(messages, ["segment_id", "position"], "left")

    def _present(self, sort: _Sort, rows: DataFrame) -> DataFrame:
        """The datapoints that are there; an id is used once in each table."""
        days = F.col("day").between(*sort.days(rows, self._drain.day))
        frames = [
            self._read(contract)
            .where(days & (F.col("source") == sort.source))
            .select("owner_id", "datapoint_id", F.lit(contract.name).alias("table"))
            for contract in POINT_TABLES
        ]
        return reduce(DataFrame.union, frames)

    def _read(self, contract: TableContract) -> DataFrame:
        location = str(self._warehouse.location(contract.name))
        return self._session.read.format("delta").load(location)


def _rows(device_id: str, state: DeviceState, changes: pa.Table) -> _Rebuilt:
    return _Rebuilt(list(rebuilt_rows(device_id, state, changes)), [])


def _this_day_and_next(_: DataFrame, day: date) -> tuple[date, date]:
    """The last rows of a day may have datapoints in the next."""
    return day, day + timedelta(days=1)


def _days_of_samples(samples: DataFrame, day: date) -> tuple[date, date]:
    """The days that samples speak of, as far as clocks may be trusted."""
    first, last = samples.agg(F.min(F.to_date("ts")), F.max(F.to_date("ts"))).collect()[0]
    return first, min(last, day + timedelta(days=2))


def _deriver(
    drain_id: int, warehouse: str, states: dict[str, str], rebuild: _Rebuild
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def derive(rows: pa.Table, present: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return PRODUCTS_SCHEMA.empty_table()
        device_id = rows["device_id"][0].as_py()
        rebuilt = rebuild(device_id, decode_state(states[device_id].encode()), rows)
        products = _missing(drain_id, Path(warehouse), device_id, rebuilt, present)
        return pa.table([pa.array([encode(products)], pa.binary())], schema=PRODUCTS_SCHEMA)

    return derive


def _missing(
    drain_id: int, warehouse: Path, device_id: str, rebuilt: _Rebuilt, present: pa.Table
) -> Products:
    """The datapoints of one device that are not there, and a ledger line per message."""
    encoder = Encoder(drain_id, Origin.DAY)
    absent = {
        name: _without(points, present.filter(pc.equal(present["table"], name)))
        for name, points in encoder.datapoints(rebuilt.accepted, rebuilt.samples).items()
    }
    ledger = encoder.ledger(_lines(rebuilt, _places(absent.values())))
    tables = {name: [table] for name, table in absent.items() if table.num_rows}
    lacking = bool(tables)
    tables[BATCH_LEDGER.name] = [ledger]
    integrity = TaskIntegrity()
    integrity.inspect(tables)
    stem = f"replay-{drain_id:08}-{uuid4().hex}"
    return Products(
        files=list(write_tables(warehouse, tables, stem=stem)),
        current=_current(device_id, rebuilt) if lacking else [],
        ledger=encoded_totals([ledger]),
        findings=integrity.findings,
    )


def _without(points: pa.Table, present: pa.Table) -> pa.Table:
    return points.filter(pc.invert(pc.is_in(points["datapoint_id"], present["datapoint_id"])))


def _places(tables: Iterable[pa.Table]) -> set[_Place]:
    """The batches and moments that datapoints belong to."""
    return {
        (row["batch_id"], row["ts"])
        for points in tables
        for row in points.select(_PLACE.names).cast(_PLACE).to_pylist()
    }


def _lines(rebuilt: _Rebuilt, lacking: set[_Place]) -> list[LedgerLine]:
    """A row counts as new when any of its datapoints was missing."""
    changes = [
        _line(rows, MessageKind.ROWS, [rows.arrival.received_at + i for i in rows.rows], lacking)
        for rows in rebuilt.accepted
    ]
    samples = [
        _line(rows, MessageKind.TELEMETRY, rows.moments.tolist(), lacking)
        for rows in rebuilt.samples
    ]
    return [*changes, *samples]


def _line(
    rows: AcceptedRows | AcceptedSamples,
    kind: MessageKind,
    moments: Sequence[int],
    lacking: set[_Place],
) -> LedgerLine:
    batch = rows.batch
    new = sum((batch.batch_id, ts) in lacking for ts in moments)
    return LedgerLine(
        rows.arrival,
        kind,
        Outcome.ACCEPTED if new else Outcome.DUPLICATE,
        source_table=batch.source_table,
        batch_id=batch.batch_id,
        batch_seq=batch.batch_seq if isinstance(batch, TelemetryBatch) else None,
        rows_received=len(moments),
        rows_new=new,
        rows_duplicate=len(moments) - new,
    )


def _current(device_id: str, rebuilt: _Rebuilt) -> list[bytes]:
    """The newest values of the device."""
    values: CurrentValues = {}
    if rebuilt.accepted:
        rows = NewestPoints(rebuilt.accepted[0].keys, in_order=False)
        for accepted in rebuilt.accepted:
            rows.advance(accepted)
        join_current(values, rows.values())
    if rebuilt.samples:
        samples = NewestSamples(rebuilt.samples[0].series)
        for sampled in rebuilt.samples:
            samples.advance(sampled)
        join_current(values, samples.values())
    return list(encoded([projected([(device_id, values)])]))
