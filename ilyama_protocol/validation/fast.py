"""The fast lane: proves at the speed of C that a row batch is valid, or leaves it alone.

It never refuses. Typed decoders prove syntax, types and ranges; they keep the last of two equal
keys, so keys are counted too. Flat rows are all it understands: whatever is nested, unknown or
odd goes to the exact lane.
"""

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.limits import INT64_MAX, INT64_MIN, Limits
from ilyama_protocol.messages import RowBatch, Scalar
from ilyama_protocol.validation.envelopes import (
    is_schema_hash,
    is_table_name,
    is_time_ordered_id,
)
from ilyama_protocol.validation.schemas import SchemaFault, declared_columns
from ilyama_protocol.validation.texts import without_deletes

_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_Sequence: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Flat: TypeAlias = dict[str, str | _Int64 | float | bool | None]
_Content: TypeAlias = dict[str, Any] | None
_Value = TypeVar("_Value")
_ABSENT = msgspec.Raw(b"null")


class _Row(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    commit_seq: _Sequence
    op: Literal["insert", "update", "delete"]
    pk: msgspec.Raw
    row: msgspec.Raw = _ABSENT


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    format_version: Literal[1]
    capture_strategy: Literal["sqlite_row_batch_v1"]
    batch_id: str
    journal_epoch: str
    source_table: str
    schema_hash: str
    first_commit_seq: _Sequence
    last_commit_seq: _Sequence
    rows: list[_Row]
    schema_columns: dict[str, Any] | UnsetType | None = UNSET


class _Changes(NamedTuple):
    commit_seq: list[int]
    op: list[str]
    pk: list[dict[str, Scalar]]
    pk_text: list[str]
    row: list[_Content]
    row_text: list[str]


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_KEYS: msgspec.json.Decoder[list[dict[str, Scalar]]] = msgspec.json.Decoder(list[_Flat])
_CONTENTS: msgspec.json.Decoder[list[_Content]] = msgspec.json.Decoder(list[_Flat | None])
_REQUIRED_MEMBERS = 9
_MEMBERS_OF_A_ROW = 4
_MEMBERS_OF_A_SCHEMA = 2
_MEMBERS_OF_A_COLUMN = 4
_WHITE_SPACE = (b" ", b"\t", b"\n", b"\r")


def proven_row_batch(payload: bytes, limits: Limits) -> RowBatch | None:
    """Return the batch when it is provably valid, None when the exact lane must look at it."""
    if len(payload) > limits.payload_max_bytes:
        return None
    try:
        envelope = _ENVELOPE.decode(payload)
        columns = _declared_columns(envelope)
        changes = _changes_of(envelope.rows, has_line_breaks=b"\n" in payload)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError, SchemaFault):
        return None
    if not (_is_legal(envelope, limits) and _is_consistent(envelope, changes)):
        return None
    if _key_count(payload) != _member_count(envelope, changes):
        return None
    return _row_batch(envelope, changes, columns)


def _declared_columns(envelope: _Envelope) -> tuple[SchemaColumn, ...] | None:
    if not isinstance(envelope.schema_columns, dict):
        return None
    return declared_columns(msgspec.structs.asdict(envelope))


def _changes_of(rows: list[_Row], *, has_line_breaks: bool) -> _Changes:
    pk_text, pk = _read([row.pk for row in rows], _KEYS, has_line_breaks=has_line_breaks)
    row_text, row = _read([row.row for row in rows], _CONTENTS, has_line_breaks=has_line_breaks)
    return _Changes(
        commit_seq=[row.commit_seq for row in rows],
        op=[row.op for row in rows],
        pk=pk,
        pk_text=pk_text,
        row=row,
        row_text=row_text,
    )


def _read(
    raws: list[msgspec.Raw],
    decoder: msgspec.json.Decoder[list[_Value]],
    *,
    has_line_breaks: bool,
) -> tuple[list[str], list[_Value]]:
    # Joined, they are read by one call; a line break then marks where each begins.
    joined = b",\n".join(raws)
    values = decoder.decode(b"[" + joined + b"]")
    if has_line_breaks:
        return [str(raw, "utf-8") for raw in raws], values
    return joined.decode().split(",\n"), values


def _is_legal(envelope: _Envelope, limits: Limits) -> bool:
    return (
        1 <= len(envelope.rows) <= limits.batch_max_rows
        and is_time_ordered_id(envelope.batch_id)
        and is_time_ordered_id(envelope.journal_epoch)
        and is_table_name(envelope.source_table)
        and is_schema_hash(envelope.schema_hash)
    )


def _is_consistent(envelope: _Envelope, changes: _Changes) -> bool:
    return (
        len(changes.pk) == len(changes.row) == len(envelope.rows)
        and all(changes.pk)
        and _do_contents_fit(changes)
        and min(changes.commit_seq) == envelope.first_commit_seq
        and max(changes.commit_seq) == envelope.last_commit_seq
    )


def _do_contents_fit(changes: _Changes) -> bool:
    if all(changes.row) and "delete" not in changes.op:
        return True
    pairs = zip(changes.op, changes.row, strict=True)
    return all((op == "delete") == (row is None) for op, row in pairs)


def _key_count(payload: bytes) -> int | None:
    """Return at least the number of keys in the payload, None when that cannot be told.

    The colon of a key directly follows its quote unless white space stands between.
    """
    if any(space in payload and space + b":" in payload for space in _WHITE_SPACE):
        return None
    return payload.count(b'":')


def _member_count(envelope: _Envelope, changes: _Changes) -> int:
    """Return how many members the decoders kept: fewer than keys when one of them came twice."""
    absent = sum(row.row is _ABSENT for row in envelope.rows) if None in changes.row else 0
    return (
        _REQUIRED_MEMBERS
        + _schema_member_count(envelope.schema_columns)
        + _MEMBERS_OF_A_ROW * len(envelope.rows)
        - absent
        + sum(map(len, changes.pk))
        + sum(map(len, filter(None, changes.row)))
    )


def _schema_member_count(schema: dict[str, Any] | UnsetType | None) -> int:
    if schema is UNSET:
        return 0
    if schema is None:
        return 1
    return 1 + _MEMBERS_OF_A_SCHEMA + _MEMBERS_OF_A_COLUMN * len(schema["columns"])


def _row_batch(
    envelope: _Envelope, changes: _Changes, columns: tuple[SchemaColumn, ...] | None
) -> RowBatch:
    return RowBatch(
        batch_id=envelope.batch_id.lower(),
        journal_epoch=envelope.journal_epoch.lower(),
        source_table=envelope.source_table,
        schema_hash=envelope.schema_hash,
        first_commit_seq=envelope.first_commit_seq,
        last_commit_seq=envelope.last_commit_seq,
        schema_columns=columns,
        commit_seq=changes.commit_seq,
        op=changes.op,
        pk_text=changes.pk_text,
        row_text=without_deletes(changes.row_text, changes.op),
        pk=changes.pk,
        row=changes.row,
    )
