"""Decisions as Arrow tables, column by column.

What is the same for a whole batch is written once and repeated as a dictionary; nothing here looks
at a single row unless the row itself differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_assets.tables import (
    BATCH_LEDGER,
    KEY_CONFLICTS,
    METRIC_DATAPOINT,
    QUARANTINED_DATAPOINTS,
    RAW_BATCHES,
    REJECTED_BATCHES,
    ROW_CHANGES,
    STAGED_ROWS,
    STATE_DATAPOINT,
)
from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.intake import datapoints
from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.dedup import Conflict
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    Arrival,
    LedgerLine,
    Origin,
    Outcomes,
    StagedMessage,
    StagedRows,
)
from ilyama_protocol.moments import MICROSECONDS_PER_DAY
from ilyama_protocol.rejections import VALIDATOR_VERSION
from ilyama_protocol.texts import CutTexts
from ilyama_resources.data_files import TableContract

Longs = npt.NDArray[np.int64]
Columns = Mapping[str, Any]
_OPERATIONS = ("update", "insert", "delete")


class Encoder:
    """Turns the outcomes of one drain into tables."""

    def __init__(self, drain_id: int, origin: Origin) -> None:
        self._drain_id = drain_id
        self._origin = origin

    def encode(self, outcomes: Outcomes) -> dict[str, pa.Table]:
        """The rows that outcomes add to each table; tables without any are left out."""
        tables = {
            RAW_BATCHES.name: self._raw_batches(outcomes),
            BATCH_LEDGER.name: self.ledger(outcomes.ledger),
            REJECTED_BATCHES.name: self._rejected(outcomes),
            STAGED_ROWS.name: self._staged(outcomes),
            ROW_CHANGES.name: self._row_changes(outcomes.accepted),
        } | self.datapoints(outcomes.accepted)
        return {name: table for name, table in tables.items() if table.num_rows}

    def conflicts(
        self, conflicts: Counter[Conflict], *, device_id: str | None, since: Mapping[Conflict, int]
    ) -> pa.Table:
        """The key conflicts of one device in this drain, on the day each was first met."""
        keys = [conflict.key for conflict in conflicts]
        columns = {
            "kind": ["row"] * len(keys),
            "device_id": [device_id] * len(keys),
            "source_table": [key.source_table for key in keys],
            "key": [_conflict_key(conflict) for conflict in conflicts],
            "first": [conflict.first for conflict in conflicts],
            "other": [conflict.other for conflict in conflicts],
            "arrivals": list(conflicts.values()),
        }
        return self._table(KEY_CONFLICTS, columns, [since[conflict] for conflict in conflicts])

    def _raw_batches(self, outcomes: Outcomes) -> pa.Table:
        arrivals = outcomes.arrivals
        messages = [arrival.message for arrival in arrivals]
        columns = _arrival_columns(arrivals) | {
            "landed_at": [message.landed_at for message in messages],
            "qos": [message.qos for message in messages],
            "user_properties": [_properties(message.user_properties) for message in messages],
            "payload_sha256": [arrival.payload_sha256 for arrival in arrivals],
            "payload_bytes": [len(message.payload) for message in messages],
            "payload": [message.payload for message in messages],
        }
        return self._table(RAW_BATCHES, columns, columns["received_at"])

    def ledger(self, lines: Sequence[LedgerLine]) -> pa.Table:
        """One row per message."""
        columns = _arrival_columns([line.arrival for line in lines]) | {
            "origin": [self._origin.value] * len(lines),
            "batch_seq": [None] * len(lines),
            "payload_sha256": [line.arrival.payload_sha256 for line in lines],
        }
        for name in ("source_table", "kind", "batch_id", "outcome", "code", *ROW_COUNTS):
            columns[name] = [getattr(line, name) for line in lines]
        return self._table(BATCH_LEDGER, columns, columns["received_at"])

    def _rejected(self, outcomes: Outcomes) -> pa.Table:
        arrivals = [rejected.arrival for rejected in outcomes.rejected]
        rejections = [rejected.rejection for rejected in outcomes.rejected]
        columns = _arrival_columns(arrivals) | {
            "rejection_id": [rejected.rejection_id for rejected in outcomes.rejected],
            "validator_version": [VALIDATOR_VERSION] * len(arrivals),
            "firmware_version": [arrival.firmware_version for arrival in arrivals],
            "payload": [arrival.message.payload for arrival in arrivals],
        }
        for name in ("code", "json_path", "message", "action", "source_table"):
            columns[name] = [getattr(rejection, name) for rejection in rejections]
        return self._table(REJECTED_BATCHES, columns, columns["received_at"])

    def _staged(self, outcomes: Outcomes) -> pa.Table:
        """Rows that were set aside, and messages that were, in one shape."""
        rows = self._staged_rows(outcomes.staged_rows)
        return pa.concat_tables([rows, self._staged_messages(outcomes.staged).cast(rows.schema)])

    def _staged_messages(self, staged: Sequence[StagedMessage]) -> pa.Table:
        arrivals = [message.arrival for message in staged]
        columns = _arrival_columns(arrivals) | {
            "staging_reason": [message.reason for message in staged],
            "error": [message.error for message in staged],
            "source_table": [message.source_table for message in staged],
            "payload": [arrival.message.payload for arrival in arrivals],
            "kind": [arrival.address.kind for arrival in arrivals],
            "user_properties": [_properties(a.message.user_properties) for a in arrivals],
            "payload_sha256": [arrival.payload_sha256 for arrival in arrivals],
        }
        return self._table(STAGED_ROWS, columns, columns["received_at"])

    def _staged_rows(self, staged: Sequence[StagedRows]) -> pa.Table:
        rows = [part.rows for part in staged]
        counts, arrivals = _counts(rows), [part.arrival for part in rows]
        columns = _row_columns(rows) | {
            "staging_reason": repeated([part.reason for part in staged], counts),
            "error": repeated([part.error for part in staged], counts),
            "topic": repeated([arrival.message.topic for arrival in arrivals], counts),
            "kind": repeated([arrival.address.kind for arrival in arrivals], counts),
            "user_properties": repeated(
                [_properties(arrival.message.user_properties) for arrival in arrivals], counts
            ),
            "payload_sha256": repeated([arrival.payload_sha256 for arrival in arrivals], counts),
        }
        return self._table(STAGED_ROWS, columns, columns["received_at"])

    def _row_changes(self, accepted: Sequence[AcceptedRows]) -> pa.Table:
        columns = _row_columns(accepted)
        return self._table(ROW_CHANGES, columns, columns["received_at"])

    def datapoints(self, accepted: Sequence[AcceptedRows]) -> dict[str, pa.Table]:
        """The datapoints of accepted rows, in the table of their kind or in quarantine."""
        keys = _Keys(accepted)
        chunks = [(rows, points) for rows in accepted for points in rows.points]
        return {
            contract.name: self._points(
                contract, [c for c in chunks if _contract_of(c[1]) is contract], keys
            )
            for contract in (METRIC_DATAPOINT, STATE_DATAPOINT, QUARANTINED_DATAPOINTS)
        }

    def _points(
        self,
        contract: TableContract,
        chunks: Sequence[tuple[AcceptedRows, Points]],
        keys: _Keys,
    ) -> pa.Table:
        rows = [chunk[0] for chunk in chunks]
        points = [chunk[1] for chunk in chunks]
        counts = np.array([len(p.rows) for p in points], np.int64)
        base = _repeated_longs([r.arrival.received_at for r in rows], counts)
        ts = base + _joined(_indexes(p.rows) for p in points)
        series = _joined((_series(r, p) for r, p in chunks), np.uint64)
        places = _joined(keys.places(r, p.rows) for r, p in chunks)
        owner = repeated([r.arrival.device_id for r in rows], counts)
        constant = {
            "owner_kind": datapoints.OWNER_KIND,
            "provenance": datapoints.PROVENANCE,
            "source": datapoints.SOURCE,
            "source_rule": datapoints.SOURCE_RULE,
        }
        columns: dict[str, Any] = {
            name: _constant(word, len(ts)) for name, word in constant.items()
        }
        columns |= {
            "datapoint_id": datapoint_ids(ts, series),
            "ts": ts,
            "owner_id": owner,
            "component_id": owner,
            "key": repeated([p.key for p in points], counts),
            "instance": keys.texts(places, lambda known: known.instances),
            "value": list(chain.from_iterable(p.values for p in points)),
            "source_rule_version": np.full(len(ts), datapoints.SOURCE_RULE_VERSION, np.int64),
            "late": _late((r, p.rows) for r, p in chunks),
            "revision": np.zeros(len(ts), np.int64),
            "kind": repeated([p.kind.value for p in points], counts),
            "reason": repeated([p.quarantine_reason for p in points], counts),
        }
        for name in ("correlation_id", "caused_by_event_id"):
            texts = [r.arrival.message.user_properties.get(name) for r in rows]
            columns[name] = repeated(texts, counts)
        return self._table(contract, columns | _batch_columns(rows, counts), ts)

    def _table(self, contract: TableContract, columns: Columns, moments: Any) -> pa.Table:
        """The columns in the contract's order and types; what is not given is null."""
        size = len(moments)
        given = dict(columns) | {
            "drain_id": np.full(size, self._drain_id, np.int64),
            "day": (np.asarray(moments, np.int64) // MICROSECONDS_PER_DAY).astype(np.int32),
        }
        arrays = [
            _array(given[field.name], field.type)
            if field.name in given
            else pa.nulls(size, field.type)
            for field in contract.schema
        ]
        return pa.table(arrays, names=contract.schema.names)


ROW_COUNTS = (
    "rows_received",
    "rows_new",
    "rows_duplicate",
    "rows_conflict",
    "rows_below_floor",
    "rows_rejected",
    "rows_staged",
)


def repeated(values: Sequence[str | None], counts: Longs) -> pa.DictionaryArray:
    """Each text as often as its count says."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    if encoded.null_count:
        spread = pa.array(np.repeat(codes, counts), mask=np.repeat(np.isnan(codes), counts))
        return pa.DictionaryArray.from_arrays(spread.cast(pa.int32()), encoded.dictionary)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(codes, counts), pa.int32()), encoded.dictionary
    )


def _counts(accepted: Sequence[AcceptedRows]) -> Longs:
    return np.array([len(rows.rows) for rows in accepted], np.int64)


def _row_columns(accepted: Sequence[AcceptedRows]) -> dict[str, Any]:
    """What is told of decided rows, whether they are shown or set aside."""
    counts, keys = _counts(accepted), _Keys(accepted)
    pks = _joined(keys.places(rows, rows.rows) for rows in accepted)
    received_at = _repeated_longs([rows.arrival.received_at for rows in accepted], counts)
    return {
        "device_id": repeated([rows.arrival.device_id for rows in accepted], counts),
        "source_table": repeated([rows.batch.source_table for rows in accepted], counts),
        "journal_epoch": repeated([rows.batch.journal_epoch for rows in accepted], counts),
        "schema_hash": repeated([rows.batch.schema_hash for rows in accepted], counts),
        "source_pk_hash": keys.texts(pks, lambda known: known.hashes),
        "commit_seq": _joined(_commit_seqs(rows) for rows in accepted),
        "op": _operations(accepted),
        "pk": keys.texts(pks, lambda known: known.texts),
        "row": _row_texts(accepted),
        "late": _late((rows, rows.rows) for rows in accepted),
        "synthetic": np.zeros(len(received_at), np.bool_),
        "row_index": _joined(_indexes(rows.rows) for rows in accepted),
        "position": _repeated_longs([rows.arrival.message.position for rows in accepted], counts),
        "received_at": received_at,
    } | _batch_columns(accepted, counts)


class _Keys:
    """The primary keys of several devices, one after another."""

    def __init__(self, accepted: Sequence[AcceptedRows]) -> None:
        self._devices = [*{id(rows.keys): rows.keys for rows in accepted}.values()]
        sizes = [len(known.texts) for known in self._devices]
        begins = accumulate(sizes, initial=0)
        self._begins = dict(zip(map(id, self._devices), begins, strict=False))

    def places(self, accepted: AcceptedRows, rows: Sequence[int]) -> Longs:
        """Where the primary keys of rows stand among those of all devices."""
        return accepted.key_numbers[_indexes(rows)] + self._begins[id(accepted.keys)]

    def texts(
        self, places: Longs, told: Callable[[KnownKeys], Sequence[str]]
    ) -> pa.DictionaryArray:
        """What is told of the primary keys at places; each text is there once."""
        every = [*chain.from_iterable(map(told, self._devices))]
        known = pa.array(every, pa.string()).dictionary_encode()
        codes = known.indices.to_numpy()[places]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), known.dictionary)


def _contract_of(points: Points) -> TableContract:
    if points.quarantine_reason is not None:
        return QUARANTINED_DATAPOINTS
    return METRIC_DATAPOINT if points.kind is DatapointKind.METRIC else STATE_DATAPOINT


def _series(accepted: AcceptedRows, points: Points) -> npt.NDArray[np.uint64]:
    bits = np.frombuffer(accepted.keys.series(points.key), np.uint64)
    return bits[accepted.key_numbers[_indexes(points.rows)]]


def _array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def _constant(word: str, size: int) -> pa.DictionaryArray:
    return repeated([word], np.array([size], np.int64))


def _repeated_longs(values: Sequence[int], counts: Longs) -> Longs:
    return np.repeat(np.array(values, np.int64), counts)


def _indexes(rows: Sequence[int]) -> Longs:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else np.array(rows, np.int64)


def _joined(parts: Iterable[npt.NDArray[Any]], kind: Any = np.int64) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts])


def _commit_seqs(accepted: AcceptedRows) -> Longs:
    return np.frombuffer(accepted.batch.commit_seq, np.int64)[_indexes(accepted.rows)]


def _operations(accepted: Sequence[AcceptedRows]) -> pa.DictionaryArray:
    codes = _joined((_operation_codes(rows) for rows in accepted), np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_OPERATIONS, pa.string()))


def _operation_codes(accepted: AcceptedRows) -> npt.NDArray[np.int32]:
    op = accepted.batch.op
    # Most batches are of updates only.
    if op.count(op[0]) == len(op):
        return np.full(len(accepted.rows), _OPERATIONS.index(op[0]), np.int32)
    return np.array([_OPERATIONS.index(op[i]) for i in accepted.rows], np.int32)


def _row_texts(accepted: Sequence[AcceptedRows]) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    others: list[str | None] = []
    for rows in accepted:
        texts, whole = rows.batch.row_text, len(rows.rows) == len(rows.batch.op)
        if whole and isinstance(texts, CutTexts):
            chunks += [pa.array(others, pa.string()), texts.column()]
            others = []
        else:
            others += texts if whole else map(texts.__getitem__, rows.rows)
    return pa.chunked_array([*chunks, pa.array(others, pa.string())], pa.string())


def _late(chunks: Iterable[tuple[AcceptedRows, Sequence[int]]]) -> npt.NDArray[np.bool_]:
    parts = (
        np.array([i in accepted.late for i in rows], np.bool_)
        if accepted.late
        else np.zeros(len(rows), np.bool_)
        for accepted, rows in chunks
    )
    return _joined(parts, np.bool_)


def _arrival_columns(arrivals: Sequence[Arrival]) -> dict[str, list[Any]]:
    return {
        "segment_id": [arrival.message.segment_id for arrival in arrivals],
        "position": [arrival.message.position for arrival in arrivals],
        "topic": [arrival.message.topic for arrival in arrivals],
        "device_id": [arrival.device_id for arrival in arrivals],
        "received_at": [arrival.received_at for arrival in arrivals],
    }


def _batch_columns(rows: Sequence[AcceptedRows], counts: Longs) -> dict[str, Any]:
    return {
        "segment_id": repeated([r.arrival.message.segment_id for r in rows], counts),
        "batch_id": repeated([r.batch.batch_id for r in rows], counts),
    }


def _properties(properties: Mapping[str, str]) -> str | None:
    return json.dumps(properties, ensure_ascii=False) if properties else None


def _conflict_key(conflict: Conflict) -> str:
    key = conflict.key
    return canonical_json(
        {
            "commit_seq": key.commit_seq,
            "journal_epoch": key.journal_epoch,
            "source_pk_hash": key.source_pk_hash,
        }
    )
