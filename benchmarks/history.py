"""Histories of millions of rows, made cheaply out of a real drain.

The first drain is real. Its files are then read back, their rows moved on in the journal and in
time, and written again by the code that writes every data file; each copy is committed and closed
as a drain of its own, with the device states that it leaves. The last drain is real again, so
that current values and states are the newest. A history grows on from where it is, so all
benchmarks of a run share one, those first that need the shortest. What a copy lacks:
`raw_batches` repeats the first payloads, and the copies have no segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import DEVICES, MICROSECONDS_APART, ROWS, Fleet
from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_assets.drains.orders import DeviceDone
from ilyama_assets.drains.protocol import DrainReport, Intake
from ilyama_assets.drains.sealing import Seal
from ilyama_assets.tables import ROW_CHANGES, TABLES
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import decode_state, encode_state
from ilyama_resources.delta.data_files import DataFile, by_table, write_data_file
from tests.oracle import Event
from tests.platform import Platform

DRAIN_BATCHES = DEVICES
"""In a drain of a history every device has one batch."""
DRAIN_ROWS = DRAIN_BATCHES * ROWS
_WRITERS = 2
_TIME_HALF = 19
"""So many characters of a datapoint id tell its time, the hyphen after them included."""


@dataclass
class History:
    """A platform whose history grows: a run of the benchmarks has one that all of them share."""

    platform: Platform
    intake: Intake
    fleet: Fleet
    messages: list[Event] = field(default_factory=list)
    """What was really sent; the copies between have none."""
    _first: DrainReport | None = None

    def grow_to(self, rows: int) -> None:
        """Make the history about so many rows long, with a real drain as its last."""
        if self._first is None:
            (self._first,) = self._drained()
        missing = round((rows - self.rows) / DRAIN_ROWS)
        if missing > 0:
            _copy(self.intake, self.fleet, self._first, copies=missing - 1)
            self._drained()

    @property
    def rows(self) -> int:
        """How many rows of history there are."""
        return sum(file.rows for file in self.intake.warehouse.files(ROW_CHANGES.name))

    def _drained(self) -> list[DrainReport]:
        sent = self.fleet.batches(DRAIN_BATCHES)
        self.messages += sent
        land(self.intake, sent)
        return drain_all(self.intake)


def shared_history(bench: Workbench, rows: int) -> History:
    """The history of this run, grown to so many rows; it never shrinks."""
    found = bench.shared.get(History)
    if found is None:
        platform = bench.borrow(bench.platform())
        found = History(platform, bench.borrow(platform.intake()), Fleet(1))
        bench.shared[History] = found
    found.grow_to(rows)
    return found


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


def _copy(intake: Intake, fleet: Fleet, first: DrainReport, *, copies: int) -> None:
    """Commit copies of the first drain, one after another, behind everything there is."""
    with intake.gateway.transaction() as tx:
        drains = tx.drains.last_id() - first.drain.drain_id
    stride, span = ROWS, DRAIN_BATCHES * MICROSECONDS_APART
    commits, sent = max(fleet.next_commit.values()) - 1, fleet.sent
    moves = [
        _Move(drains + n, commits + (n - 1) * stride, sent * MICROSECONDS_APART + (n - 1) * span)
        for n in range(1, copies + 1)
    ]
    originals = _originals(intake, first)
    with ThreadPoolExecutor(_WRITERS) as pool:
        written = pool.map(lambda move: _written(intake, originals, move), moves)
        for move, files in zip(moves, written, strict=True):
            _commit(intake, first, move, files)
    fleet.sent += copies * DRAIN_BATCHES
    fleet.next_commit = dict.fromkeys(fleet.next_commit, commits + copies * stride + 1)


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
    state.spans = {epoch: (low, high + move.commits) for epoch, (low, high) in state.spans.items()}
    for lineage in state.lineages.values():
        for epoch in lineage.watermarks:
            lineage.watermarks[epoch] += move.commits
    return encode_state(state).decode()
