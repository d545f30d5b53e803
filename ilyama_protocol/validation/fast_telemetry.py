"""The fast lane of telemetry: proves that a batch is valid, or leaves it alone."""

from __future__ import annotations

from array import array
from contextlib import suppress

import msgspec
from msgspec import UNSET

from ilyama_protocol.contents import AlikeContents, Contents, MixedContents
from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.identifiers import is_uuid
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import TelemetryBatch
from ilyama_protocol.timestamps import instants_of, parse_instant
from ilyama_protocol.validation.envelopes import (
    is_schema_hash,
    is_table_name,
    is_time_ordered_id,
)
from ilyama_protocol.validation.fast import declared, key_count, schema_member_count
from ilyama_protocol.validation.results import row_ids
from ilyama_protocol.validation.schemas import SchemaFault
from ilyama_protocol.validation.telemetry_layouts import (
    MIXED_TELEMETRY,
    TelemetryEnvelope,
    guessed_fields,
    telemetry_decoder_of,
)
from ilyama_protocol.validation.texts import cut_field_texts, field_texts

_REQUIRED_MEMBERS = 10
_MEMBERS_OF_A_ROW = 2


def proven_telemetry_batch(payload: bytes, limits: Limits) -> TelemetryBatch | None:
    """Return the batch when it is provably valid, None when the exact lane must look at it."""
    if len(payload) > limits.payload_max_bytes:
        return None
    try:
        envelope, contents = _read(payload)
        columns = declared(envelope)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError, SchemaFault):
        return None
    ids = [None if row.row_id is UNSET else row.row_id for row in envelope.rows]
    if not _is_legal(envelope, limits) or not _are_uuids(ids):
        return None
    if key_count(payload) != _member_count(envelope, contents):
        return None
    moments = _moments(envelope)
    if moments is None:
        return None
    return _batch(envelope, contents, columns, payload=payload, moments=moments, ids=ids)


def _read(payload: bytes) -> tuple[TelemetryEnvelope, Contents]:
    fields = guessed_fields(payload)
    if fields:
        with suppress(ValueError):
            envelope = telemetry_decoder_of(fields).decode(payload)
            return envelope, AlikeContents(fields, [row.fields for row in envelope.rows], 0)
    envelope = MIXED_TELEMETRY.decode(payload)
    return envelope, MixedContents([row.fields for row in envelope.rows])


def _is_legal(envelope: TelemetryEnvelope, limits: Limits) -> bool:
    return (
        1 <= len(envelope.rows) <= limits.batch_max_rows
        and envelope.row_count == len(envelope.rows)
        and is_time_ordered_id(envelope.batch_id)
        and is_table_name(envelope.source_table)
        and is_schema_hash(envelope.schema_hash)
    )


def _are_uuids(ids: list[str | None]) -> bool:
    return all(is_uuid(sent) for sent in ids if sent is not None)


def _member_count(envelope: TelemetryEnvelope, contents: Contents) -> int:
    return (
        _REQUIRED_MEMBERS
        + schema_member_count(envelope.schema_columns)
        + _MEMBERS_OF_A_ROW * len(envelope.rows)
        + sum(row.row_id is not UNSET for row in envelope.rows)
        + contents.members
    )


def _moments(envelope: TelemetryEnvelope) -> array[int] | None:
    """Return the microseconds of every row, None when one is odd or the cursors do not fit."""
    found = instants_of([row.ts for row in envelope.rows])
    if found is None:
        return None
    cursors = parse_instant(envelope.cursor_start_ts), parse_instant(envelope.cursor_end_ts)
    return found.microseconds if cursors == (found.first, found.last) else None


def _batch(
    envelope: TelemetryEnvelope,
    contents: Contents,
    columns: tuple[SchemaColumn, ...] | None,
    *,
    payload: bytes,
    moments: array[int],
    ids: list[str | None],
) -> TelemetryBatch:
    rows = len(moments)
    objects = 1 + rows + (0 if columns is None else 1 + len(columns))
    texts = cut_field_texts(payload, rows, other_objects=objects) or field_texts(payload)
    return TelemetryBatch(
        batch_id=envelope.batch_id.lower(),
        batch_seq=envelope.batch_seq,
        source_table=envelope.source_table,
        schema_hash=envelope.schema_hash,
        cursor_start_us=min(moments),
        cursor_end_us=max(moments),
        schema_columns=columns,
        ts_us=moments,
        row_id=row_ids(ids),
        fields_text=texts,
        contents=contents,
    )
