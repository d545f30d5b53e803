"""The fast lane: proves at the speed of C that a row batch is valid, or leaves it alone.

It never refuses. Typed decoders prove syntax, types and ranges; they keep the last of two equal
keys, so keys are counted too. Flat rows are all it understands: whatever is nested, unknown or
odd goes to the exact lane.
"""

from array import array
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from ilyama_protocol.contents import AlikeContents, Contents, MixedContents
from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.validation.envelopes import (
    is_schema_hash,
    is_table_name,
    is_time_ordered_id,
)
from ilyama_protocol.validation.layouts import (
    MIXED,
    Change,
    Envelope,
    Layout,
    decoder_of,
    guessed_layouts,
)
from ilyama_protocol.validation.schemas import SchemaFault, declared_columns
from ilyama_protocol.validation.telemetry_layouts import TelemetryEnvelope
from ilyama_protocol.validation.texts import cut_texts, row_texts

_REQUIRED_MEMBERS = 9
_MEMBERS_OF_A_ROW = 4
_MEMBERS_OF_A_SCHEMA = 2
_MEMBERS_OF_A_COLUMN = 4
_WHITE_SPACE = (b" ", b"\t", b"\n", b"\r")
_KEY_END = b'":'
_KEY_END_NUMBER = int.from_bytes(_KEY_END, "little")
_SHORT = 4_096
_FEW = 64


def proven_row_batch(payload: bytes, limits: Limits) -> RowBatch | None:
    """Return the batch when it is provably valid, None when the exact lane must look at it."""
    if len(payload) > limits.payload_max_bytes:
        return None
    try:
        envelope, layout = _read(payload)
        columns = declared(envelope)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError, SchemaFault):
        return None
    contents = _contents_of(envelope.rows, layout)
    if contents is None or not _is_legal(envelope, limits):
        return None
    if key_count(payload) != _member_count(envelope, layout, contents):
        return None
    batch = _row_batch(envelope, contents, columns, payload)
    return batch if _names_its_range(batch) else None


def _read(payload: bytes) -> tuple[Envelope, Layout | None]:
    """Return the batch and the layout that all its rows have, None when they differ."""
    for layout in guessed_layouts(payload):
        with suppress(ValueError):
            return decoder_of(layout).decode(payload), layout
    return MIXED.decode(payload), None


def declared(envelope: Envelope | TelemetryEnvelope) -> tuple[SchemaColumn, ...] | None:
    """Return the columns that an envelope declares, None when it declares none."""
    if not isinstance(envelope.schema_columns, dict):
        return None
    return declared_columns(msgspec.structs.asdict(envelope))


def _contents_of(rows: list[Change], layout: Layout | None) -> Contents | None:
    """Return the contents, None when a delete has one or another change has none."""
    sent = [row.row for row in rows]
    if layout is not None and not layout.has_deletes:
        return AlikeContents(layout.row, sent, deletes=0)
    contents = [None if content is UNSET else content for content in sent]
    is_delete = [row.op == "delete" for row in rows]
    if is_delete != [content is None for content in contents]:
        return None
    if layout is None:
        return MixedContents(contents)
    return AlikeContents(layout.row, contents, deletes=is_delete.count(True))


def _is_legal(envelope: Envelope, limits: Limits) -> bool:
    return (
        1 <= len(envelope.rows) <= limits.batch_max_rows
        and is_time_ordered_id(envelope.batch_id)
        and is_time_ordered_id(envelope.journal_epoch)
        and is_table_name(envelope.source_table)
        and is_schema_hash(envelope.schema_hash)
    )


def _names_its_range(batch: RowBatch) -> bool:
    numbers, named = batch.commit_seq, (batch.first_commit_seq, batch.last_commit_seq)
    if len(numbers) < _FEW:
        return (min(numbers), max(numbers)) == named
    column = np.frombuffer(numbers, np.int64)
    return (column.min(), column.max()) == named


def key_count(payload: bytes) -> int | None:
    """Return at least the number of keys in the payload, None when that cannot be told.

    The colon of a key directly follows its quote unless white space stands between.
    """
    if any(space in payload and space + b":" in payload for space in _WHITE_SPACE):
        return None
    if len(payload) < _SHORT:
        return payload.count(_KEY_END)
    # Every two neighbours, as one number: first those at even places, then those at odd ones.
    pairs = [np.frombuffer(payload, "<u2", (len(payload) - at) // 2, at) for at in (0, 1)]
    return sum(int(np.count_nonzero(pair == _KEY_END_NUMBER)) for pair in pairs)


def _member_count(envelope: Envelope, layout: Layout | None, contents: Contents) -> int:
    """Return how many members the decoders kept: fewer than keys when one of them came twice."""
    rows = envelope.rows
    absent = sum(row.row is UNSET for row in rows) if contents.deletes else 0
    return (
        _REQUIRED_MEMBERS
        + schema_member_count(envelope.schema_columns)
        + _MEMBERS_OF_A_ROW * len(rows)
        - absent
        + (sum(len(row.pk) for row in rows) if layout is None else len(layout.pk) * len(rows))
        + contents.members
    )


def schema_member_count(schema: dict[str, Any] | UnsetType | None) -> int:
    """Return how many members the declaration of columns has, its own name included."""
    if schema is UNSET:
        return 0
    if schema is None:
        return 1
    return 1 + _MEMBERS_OF_A_SCHEMA + _MEMBERS_OF_A_COLUMN * len(schema["columns"])


def _row_batch(
    envelope: Envelope,
    contents: Contents,
    columns: tuple[SchemaColumn, ...] | None,
    payload: bytes,
) -> RowBatch:
    op: list[str] = [row.op for row in envelope.rows]
    objects = 1 + len(op) + (0 if columns is None else 1 + len(columns))
    texts = cut_texts(payload, op, other_objects=objects) or row_texts(payload, op)
    return RowBatch(
        batch_id=envelope.batch_id.lower(),
        journal_epoch=envelope.journal_epoch.lower(),
        source_table=envelope.source_table,
        schema_hash=envelope.schema_hash,
        first_commit_seq=envelope.first_commit_seq,
        last_commit_seq=envelope.last_commit_seq,
        schema_columns=columns,
        commit_seq=array("q", [row.commit_seq for row in envelope.rows]),
        op=op,
        pk_text=texts.pk,
        row_text=texts.row,
        contents=contents,
    )
