"""Decisions as Arrow tables, column by column.

What is the same for a whole batch is written once and repeated as a dictionary; nothing here looks
at a single row unless the row itself differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ilyama_assets.drains.columns import (
    Columns,
    Longs,
    indexes,
    joined,
    joined_texts,
    repeated,
    repeated_longs,
    table_of,
)
from ilyama_assets.drains.point_encoding import Keys, encoded_points, late_flags
from ilyama_assets.tables import (
    BATCH_LEDGER,
    KEY_CONFLICTS,
    RAW_BATCHES,
    REJECTED_BATCHES,
    ROW_CHANGES,
    SCHEMA_OBSERVATIONS,
    STAGED_ROWS,
    TELEMETRY_SAMPLES,
)
from ilyama_protocol.fingerprint import columns_text
from ilyama_protocol.intake.conflicts import Conflict
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    AcceptedSamples,
    Arrival,
    LedgerLine,
    ObservedSchema,
    Origin,
    Outcomes,
    RejectedMessage,
    StagedMessage,
    StagedRows,
    StagedSamples,
)
from ilyama_protocol.rejections import VALIDATOR_VERSION
from ilyama_resources.delta.data_files import TableContract

_LINE = ("source_table", "kind", "batch_id", "batch_seq", "outcome", "code")
_OPERATIONS = ("update", "insert", "delete")


class Encoder:
    """Turns the outcomes of one drain into tables."""

    def __init__(self, drain_id: int, origin: Origin) -> None:
        self._drain_id = drain_id
        self._origin = origin

    def encode(self, outcomes: Outcomes) -> dict[str, pa.Table]:
        """The rows that outcomes add to each table; tables without any are left out."""
        # A message that was staged is kept already.
        arrivals = [] if self._origin is Origin.STAGED else outcomes.arrivals
        tables = self.datapoints(outcomes.accepted, outcomes.samples)
        if outcomes.staged or outcomes.staged_rows or outcomes.staged_samples:
            tables[STAGED_ROWS.name] = self._staged(outcomes)
        others: list[tuple[TableContract, Sequence[Any], Callable[[Any], pa.Table]]] = [
            (RAW_BATCHES, arrivals, self._raw_batches),
            (BATCH_LEDGER, outcomes.ledger, self.ledger),
            (REJECTED_BATCHES, outcomes.rejected, self._rejected),
            (ROW_CHANGES, outcomes.accepted, self._row_changes),
            (TELEMETRY_SAMPLES, outcomes.samples, self._samples),
            (SCHEMA_OBSERVATIONS, outcomes.schemas, self._schemas),
        ]
        tables |= {contract.name: encode(given) for contract, given, encode in others if given}
        return {name: table for name, table in tables.items() if table.num_rows}

    def conflicts(
        self, conflicts: Counter[Conflict], *, device_id: str | None, since: Mapping[Conflict, int]
    ) -> pa.Table:
        """The key conflicts of one device in this drain, on the day each was first met."""
        columns: dict[str, Any] = {
            name: [getattr(conflict, name) for conflict in conflicts]
            for name in ("kind", "source_table", "key", "first", "other")
        }
        columns |= {
            "device_id": [device_id] * len(conflicts),
            "arrivals": list(conflicts.values()),
        }
        return self._table(KEY_CONFLICTS, columns, [since[conflict] for conflict in conflicts])

    def _raw_batches(self, arrivals: Sequence[Arrival]) -> pa.Table:
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
            "payload_sha256": [line.arrival.payload_sha256 for line in lines],
        }
        for name in (*_LINE, *ROW_COUNTS):
            columns[name] = [getattr(line, name) for line in lines]
        return self._table(BATCH_LEDGER, columns, columns["received_at"])

    def _rejected(self, rejected: Sequence[RejectedMessage]) -> pa.Table:
        arrivals = [message.arrival for message in rejected]
        rejections = [message.rejection for message in rejected]
        columns = _arrival_columns(arrivals) | {
            "rejection_id": [message.rejection_id for message in rejected],
            "validator_version": [VALIDATOR_VERSION] * len(arrivals),
            "firmware_version": [arrival.firmware_version for arrival in arrivals],
            "payload": [arrival.message.payload for arrival in arrivals],
        }
        for name in ("code", "json_path", "message", "action", "source_table"):
            columns[name] = [getattr(rejection, name) for rejection in rejections]
        return self._table(REJECTED_BATCHES, columns, columns["received_at"])

    def _staged(self, outcomes: Outcomes) -> pa.Table:
        """Rows that were set aside, telemetry and whole messages, in one shape."""
        rows = self._staged_rows(outcomes.staged_rows)
        samples = self._staged_samples(outcomes.staged_samples)
        messages = self._staged_messages(outcomes.staged)
        parts = [part.cast(rows.schema) for part in (samples, messages) if part.num_rows]
        return pa.concat_tables([rows, *parts])

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
            "rejection_id": [arrival.message.rejection_id for arrival in arrivals],
            "arrived_at": [arrival.message.arrived_at for arrival in arrivals],
        }
        return self._table(STAGED_ROWS, columns, columns["received_at"])

    def _staged_rows(self, staged: Sequence[StagedRows]) -> pa.Table:
        rows = [part.rows for part in staged]
        aside = _aside_columns(staged, [part.arrival for part in rows], _counts(rows))
        columns = _row_columns(rows) | aside
        return self._table(STAGED_ROWS, columns, columns["received_at"])

    def _staged_samples(self, staged: Sequence[StagedSamples]) -> pa.Table:
        samples = [part.samples for part in staged]
        counts = _sample_counts(samples)
        aside = _aside_columns(staged, [part.arrival for part in samples], counts)
        columns = _sample_columns(samples) | aside
        return self._table(STAGED_ROWS, columns, columns["received_at"])

    def _schemas(self, schemas: Sequence[ObservedSchema]) -> pa.Table:
        arrivals = [schema.arrival for schema in schemas]
        columns = _arrival_columns(arrivals) | {
            "source": [arrival.address.kind for arrival in arrivals],
            "columns": [None if s.columns is None else columns_text(s.columns) for s in schemas],
            "firmware_version": [arrival.firmware_version for arrival in arrivals],
        }
        for name in ("source_table", "schema_hash", "is_new", "observed_at"):
            columns[name] = [getattr(schema, name) for schema in schemas]
        return self._table(SCHEMA_OBSERVATIONS, columns, columns["received_at"])

    def _row_changes(self, accepted: Sequence[AcceptedRows]) -> pa.Table:
        columns = _row_columns(accepted)
        return self._table(ROW_CHANGES, columns, columns["received_at"])

    def _samples(self, samples: Sequence[AcceptedSamples]) -> pa.Table:
        columns = _sample_columns(samples)
        return self._table(TELEMETRY_SAMPLES, columns, columns["received_at"])

    def datapoints(
        self, accepted: Sequence[AcceptedRows], samples: Sequence[AcceptedSamples] = ()
    ) -> dict[str, pa.Table]:
        """The datapoints of accepted rows, in the table of their kind or in quarantine."""
        return encoded_points(accepted, samples, drain_id=self._drain_id)

    def _table(self, contract: TableContract, columns: Columns, moments: Any) -> pa.Table:
        return table_of(contract, columns, moments, drain_id=self._drain_id)


ROW_COUNTS = (
    "rows_received",
    "rows_new",
    "rows_duplicate",
    "rows_conflict",
    "rows_below_floor",
    "rows_rejected",
    "rows_staged",
)


def _counts(accepted: Sequence[AcceptedRows]) -> Longs:
    return np.array([len(rows.rows) for rows in accepted], np.int64)


def _row_columns(accepted: Sequence[AcceptedRows]) -> dict[str, Any]:
    """What is told of decided rows, whether they are shown or set aside."""
    counts, keys = _counts(accepted), Keys(accepted)
    pks = joined(keys.places(rows, rows.rows) for rows in accepted)
    received_at = repeated_longs([rows.arrival.received_at for rows in accepted], counts)
    return {
        "device_id": repeated([rows.arrival.device_id for rows in accepted], counts),
        "source_table": repeated([rows.batch.source_table for rows in accepted], counts),
        "journal_epoch": repeated([rows.batch.journal_epoch for rows in accepted], counts),
        "schema_hash": repeated([rows.batch.schema_hash for rows in accepted], counts),
        "source_pk_hash": keys.texts(pks, lambda known: known.hashes),
        "commit_seq": joined(_commit_seqs(rows) for rows in accepted),
        "op": _operations(accepted),
        "pk": keys.texts(pks, lambda known: known.texts),
        "row": joined_texts(map(_row_texts, accepted)),
        "late": late_flags((rows, rows.rows) for rows in accepted),
        "synthetic": np.zeros(len(received_at), np.bool_),
        "row_index": joined(indexes(rows.rows) for rows in accepted),
        "position": repeated_longs([rows.arrival.message.position for rows in accepted], counts),
        "received_at": received_at,
    } | _batch_columns(accepted, counts)


def _sample_counts(samples: Sequence[AcceptedSamples]) -> Longs:
    return np.array([len(rows.batch.ts_us) for rows in samples], np.int64)


def _sample_columns(samples: Sequence[AcceptedSamples]) -> dict[str, Any]:
    """What is told of telemetry rows, whether they are shown or set aside."""
    counts = _sample_counts(samples)
    batches, arrivals = [s.batch for s in samples], [s.arrival for s in samples]
    return {
        "device_id": repeated([arrival.device_id for arrival in arrivals], counts),
        "source_table": repeated([batch.source_table for batch in batches], counts),
        "batch_seq": repeated_longs([batch.batch_seq for batch in batches], counts),
        "row_index": joined(np.arange(count) for count in counts),
        "row_id": joined_texts(b.row_id or [None] * len(b.ts_us) for b in batches),
        "ts": joined(rows.moments for rows in samples),
        "fields": joined_texts(batch.fields_text for batch in batches),
        "schema_hash": repeated([batch.schema_hash for batch in batches], counts),
        "position": repeated_longs([a.message.position for a in arrivals], counts),
        "received_at": repeated_longs([arrival.received_at for arrival in arrivals], counts),
    } | _batch_columns(samples, counts)


def _aside_columns(
    staged: Sequence[StagedRows | StagedSamples], arrivals: Sequence[Arrival], counts: Longs
) -> dict[str, Any]:
    """Why rows were set aside, and what their messages said beside them."""
    properties = [_properties(arrival.message.user_properties) for arrival in arrivals]
    return {
        "staging_reason": repeated([part.reason for part in staged], counts),
        "error": repeated([part.error for part in staged], counts),
        "topic": repeated([arrival.message.topic for arrival in arrivals], counts),
        "kind": repeated([arrival.address.kind for arrival in arrivals], counts),
        "user_properties": repeated(properties, counts),
        "payload_sha256": repeated([arrival.payload_sha256 for arrival in arrivals], counts),
    }


def _commit_seqs(accepted: AcceptedRows) -> Longs:
    return np.frombuffer(accepted.batch.commit_seq, np.int64)[indexes(accepted.rows)]


def _operations(accepted: Sequence[AcceptedRows]) -> pa.DictionaryArray:
    codes = joined((_operation_codes(rows) for rows in accepted), np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_OPERATIONS, pa.string()))


def _operation_codes(accepted: AcceptedRows) -> npt.NDArray[np.int32]:
    op = accepted.batch.op
    # Most batches are of updates only.
    if op.count(op[0]) == len(op):
        return np.full(len(accepted.rows), _OPERATIONS.index(op[0]), np.int32)
    return np.array([_OPERATIONS.index(op[i]) for i in accepted.rows], np.int32)


def _row_texts(accepted: AcceptedRows) -> Sequence[str | None]:
    texts = accepted.batch.row_text
    if len(accepted.rows) == len(accepted.batch.op):
        return texts
    return [texts[row] for row in accepted.rows]


def _arrival_columns(arrivals: Sequence[Arrival]) -> dict[str, list[Any]]:
    return {
        "segment_id": [arrival.message.segment_id for arrival in arrivals],
        "position": [arrival.message.position for arrival in arrivals],
        "topic": [arrival.message.topic for arrival in arrivals],
        "device_id": [arrival.device_id for arrival in arrivals],
        "received_at": [arrival.received_at for arrival in arrivals],
    }


def _batch_columns(
    rows: Sequence[AcceptedRows] | Sequence[AcceptedSamples], counts: Longs
) -> dict[str, Any]:
    return {
        "segment_id": repeated([r.arrival.message.segment_id for r in rows], counts),
        "batch_id": repeated([r.batch.batch_id for r in rows], counts),
    }


def _properties(properties: Mapping[str, str]) -> str | None:
    return json.dumps(properties, ensure_ascii=False) if properties else None
