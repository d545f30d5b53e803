"""Histories of millions of rows, made cheaply out of a real drain.

The first drain is real. Its files are then read back, their rows moved on in the journal and in
time, and written again by the code that writes every data file; each copy is committed and closed
as a drain of its own, with the device states that it leaves. The last drain is real again, so
that current values and states are the newest. What a copy lacks: `raw_batches` repeats the first
payloads, and the copies have no segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workbench import drain_all, land
from benchmarks.workloads import MICROSECONDS_APART, ROWS, Fleet
from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_assets.drains.orders import DeviceDone
from ilyama_assets.drains.protocol import DrainReport, Intake
from ilyama_assets.drains.sealing import Seal
from ilyama_assets.tables import ROW_CHANGES, TABLES
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import decode_state, encode_state
from ilyama_resources.data_files import DataFile, by_table, write_data_file
from tests.oracle import Event

_WRITERS = 2
_TIME_HALF = 19
"""So many characters of a datapoint id tell its time, the hyphen after them included."""


def lengthen(intake: Intake, fleet: Fleet, *, rows: int, batches: int = 50) -> list[Event]:
    """Give a platform about so many rows of history; returns the messages of its real drains."""
    drains = max(1, round(rows / (batches * ROWS)))
    first = fleet.batches(batches)
    land(intake, first)
    (report,) = drain_all(intake)
    if drains == 1:
        return first
    _copy(intake, fleet, report, copies=drains - 2)
    last = fleet.batches(batches)
    land(intake, last)
    drain_all(intake)
    stored = sum(file.rows for file in intake.warehouse.files(ROW_CHANGES.name))
    assert stored == drains * batches * ROWS
    return [*first, *last]


@dataclass(frozen=True)
class _Move:
    """How far a copy lies behind its original: in drains, commits and microseconds."""

    number: int
    commits: int
    microseconds: int

    def text(self, text: str) -> str:
        """Another id for every copy: its last digits, moved on."""
        return f"{text[:-6]}{(int(text[-6:], 16) + self.number) % 16**6:06x}"

    def digest(self, text: str) -> str:
        """Another hash for every copy."""
        return hashlib.sha256(f"{text} {self.number}".encode()).hexdigest()


def _copy(intake: Intake, fleet: Fleet, report: DrainReport, *, copies: int) -> None:
    stride = max(fleet.next_commit.values()) - 1
    span = fleet.sent * MICROSECONDS_APART
    moves = [_Move(n, n * stride, n * span) for n in range(1, copies + 1)]
    originals = _originals(intake, report)
    with ThreadPoolExecutor(_WRITERS) as pool:
        written = pool.map(lambda move: _written(intake, originals, move), moves)
        for move, files in zip(moves, written, strict=True):
            _commit(intake, report, move, files)
    fleet.sent *= copies + 1
    fleet.next_commit = {device: n + copies * stride for device, n in fleet.next_commit.items()}


@dataclass(frozen=True)
class _Original:
    file: DataFile
    rows: pa.Table


def _originals(intake: Intake, report: DrainReport) -> list[_Original]:
    found = []
    for file in report.seal.files:
        path = intake.warehouse.location(file.table) / file.path
        texts = [
            field.name
            for field in TABLES[file.table].file_schema
            if pa.types.is_string(field.type) and field.name != "datapoint_id"
        ]
        rows = pq.read_table(path, read_dictionary=texts, partitioning=None)
        found.append(_Original(file, rows.combine_chunks()))
    return found


def _written(intake: Intake, originals: Sequence[_Original], move: _Move) -> list[DataFile]:
    return [
        write_data_file(
            intake.warehouse.location(original.file.table),
            TABLES[original.file.table],
            _moved(original.rows, move),
            day=_day(original.file),
            name=f"{Path(original.file.path).name.split('.')[0]}-copy-{move.number:05}",
        )
        for original in originals
    ]


def _day(file: DataFile) -> Any:
    return np.datetime64(file.day).astype(object)


def _moved(rows: pa.Table, move: _Move) -> pa.Table:
    """The rows as they would be, had the devices sent the like of them later."""
    changes: dict[str, Callable[[Any], Any]] = {
        "commit_seq": lambda column: pa.array(column.to_numpy() + move.commits),
        "drain_id": lambda column: pa.array(column.to_numpy() + move.number),
        "segment_id": lambda column: _renamed(column, move.text),
        "batch_id": lambda column: _renamed(column, move.text),
        "payload_sha256": lambda column: _renamed(column, move.digest),
    } | dict.fromkeys(("received_at", "landed_at", "ts"), lambda column: _later(column, move))
    moved = rows
    for name, change in changes.items():
        if name in rows.column_names:
            moved = _with(moved, name, change(rows[name].combine_chunks()))
    if "datapoint_id" in rows.column_names:
        ids = rows["datapoint_id"].combine_chunks()
        moved = _with(moved, "datapoint_id", moved_ids(ids, moved["ts"].combine_chunks()))
    return moved


def _with(rows: pa.Table, name: str, column: Any) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, column)


def _later(moments: pa.Array, move: _Move) -> pa.Array:
    micros = moments.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return pa.array(micros + move.microseconds).cast(pa.timestamp("us", tz="UTC"))


def _renamed(texts: pa.DictionaryArray, rename: Callable[[str], str]) -> pa.DictionaryArray:
    names = [rename(text) for text in texts.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(texts.indices, pa.array(names, pa.string()))


def moved_ids(ids: pa.StringArray, ts: pa.Array) -> pa.StringArray:
    """The ids of the same series at other times: the second half of an id, its series, stays."""
    micros = ts.cast(pa.int64()).to_numpy()
    moved = _characters(datapoint_ids(micros, np.zeros(len(micros), np.uint64))).copy()
    moved[:, _TIME_HALF:] = _characters(ids)[:, _TIME_HALF:]
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * moved.shape[1]
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(moved))


def _characters(ids: pa.StringArray) -> Any:
    return np.frombuffer(ids.buffers()[2], np.uint8)[: len(ids) * 36].reshape(len(ids), 36)


def _commit(intake: Intake, report: DrainReport, move: _Move, files: list[DataFile]) -> None:
    drain = report.drain._replace(drain_id=report.drain.drain_id + move.number)
    for table, written in by_table(files).items():
        intake.warehouse.add(table, drain.drain_id, written)
    with intake.gateway.transaction() as tx:
        tx.drains.open(drain.drain_id, drain.day, origin=Origin.LIVE)
        tx.drains.measure(
            drain.drain_id, segments=drain.segments, messages=drain.messages, size=drain.bytes
        )
        tx.drains.seal(drain.drain_id, b"")
        seal = _moved_seal(report.seal, move)
        close_drain(tx, drain, seal, served_instances=intake.settings.served_instances)
        tx.commit()


def _moved_seal(seal: Seal, move: _Move) -> Seal:
    states = [DeviceDone(done.device_id, _moved_state(done.state, move)) for done in seal.states]
    return msgspec.structs.replace(seal, states=states, current=[], newcomers=[])


def _moved_state(text: str, move: _Move) -> str:
    state = decode_state(text.encode())
    state.next_received_at = (state.next_received_at or 0) + move.microseconds
    for lineage in state.lineages.values():
        for epoch in lineage.watermarks:
            lineage.watermarks[epoch] += move.commits
    return encode_state(state).decode()
