"""The fast lane: proves at the speed of C that a row batch is valid, or leaves it alone.

It never refuses. Typed decoders prove syntax, types and ranges; they keep the last of two equal
keys, so keys are counted too. Flat rows are all it understands: whatever is nested, unknown or
odd goes to the exact lane.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from ilyama_protocol.contents import AlikeContents, Contents, MixedContents, Row
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
_Scalar: TypeAlias = str | _Int64 | float | bool | None
_Flat: TypeAlias = dict[str, _Scalar]
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
    contents: Contents
    row_text: list[str]


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_KEYS: msgspec.json.Decoder[list[dict[str, Scalar]]] = msgspec.json.Decoder(list[_Flat])
_CONTENT: msgspec.json.Decoder[Row] = msgspec.json.Decoder(_Flat)
_CONTENTS: msgspec.json.Decoder[list[Row | None]] = msgspec.json.Decoder(list[_Flat | None])
_REMEMBERED_LAYOUTS = 1_024
_REMEMBERED_PKS = 65_536
_REMEMBERED_BYTES_PER_PK = 128
_FEWEST_ALIKE = 8
_REQUIRED_MEMBERS = 9
_MEMBERS_OF_A_ROW = 4
_MEMBERS_OF_A_SCHEMA = 2
_MEMBERS_OF_A_COLUMN = 4
_WHITE_SPACE = (b" ", b"\t", b"\n", b"\r")
_KEY_END = b'":'
_SHORT = 4_096
_pks: dict[str, dict[str, Scalar]] = {}


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
    pks, contents = [row.pk for row in rows], [row.row for row in rows]
    # Joined, they are read by one call; a line break then marks where each begins.
    joined_pks, joined_contents = b",\n".join(pks), b",\n".join(contents)
    if has_line_breaks:
        pk_text = [str(raw, "utf-8") for raw in pks]
        row_text = [str(raw, "utf-8") for raw in contents]
    else:
        pk_text = joined_pks.decode().split(",\n")
        row_text = joined_contents.decode().split(",\n")
    return _Changes(
        commit_seq=[row.commit_seq for row in rows],
        op=[row.op for row in rows],
        pk=_pks_of(pk_text, joined_pks),
        pk_text=pk_text,
        contents=_contents_of(contents, joined_contents),
        row_text=row_text,
    )


def _pks_of(texts: list[str], joined: bytes) -> list[dict[str, Scalar]]:
    """Return primary keys; devices name the same ones often, and read ones are remembered."""
    known = [*map(_pks.get, texts)]
    if all(known):
        return cast("list[dict[str, Scalar]]", known)
    read = _KEYS.decode(b"[" + joined + b"]")
    if len(_pks) > _REMEMBERED_PKS:
        _pks.clear()
    if len(read) == len(texts) and len(joined) <= _REMEMBERED_BYTES_PER_PK * len(texts):
        _pks.update(zip(texts, read, strict=True))
    return read


def _contents_of(raws: list[msgspec.Raw], joined: bytes) -> Contents:
    alike = _alike_contents_of(raws, joined) if len(raws) >= _FEWEST_ALIKE else None
    return alike or MixedContents(_CONTENTS.decode(b"[" + joined + b"]"))


def _alike_contents_of(raws: list[msgspec.Raw], joined: bytes) -> AlikeContents | None:
    """Return the contents when all have the columns of the first, else None."""
    try:
        names = (*_CONTENT.decode(raws[0]),)
        rows = _decoder_of(names).decode(b"[" + joined + b"]")
    except ValueError:
        return None
    columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
    return AlikeContents(dict(zip(names, map(list, columns), strict=True))) if names else None


@lru_cache(_REMEMBERED_LAYOUTS)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[list[msgspec.Struct]]:
    """Return a decoder of rows with these very columns: it makes no dictionary for each.

    Raises:
        ValueError: A name has characters that are written with an escape.
    """
    fields = {f"column_{i}": name for i, name in enumerate(names)}
    row = msgspec.defstruct(
        "_AlikeRow",
        [(field, _Scalar) for field in fields],
        rename=fields,
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


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
        len(changes.pk) == len(changes.contents) == len(envelope.rows)
        and all(changes.pk)
        and _do_contents_fit(changes)
        and min(changes.commit_seq) == envelope.first_commit_seq
        and max(changes.commit_seq) == envelope.last_commit_seq
    )


def _do_contents_fit(changes: _Changes) -> bool:
    if isinstance(changes.contents, AlikeContents):
        return "delete" not in changes.op
    pairs = zip(changes.op, changes.contents.rows, strict=True)
    return all((op == "delete") == (row is None) for op, row in pairs)


def _key_count(payload: bytes) -> int | None:
    """Return at least the number of keys in the payload, None when that cannot be told.

    The colon of a key directly follows its quote unless white space stands between.
    """
    if any(space in payload and space + b":" in payload for space in _WHITE_SPACE):
        return None
    if len(payload) < _SHORT:
        return payload.count(_KEY_END)
    octets = np.frombuffer(payload, np.uint8)
    quotes, colons = octets[:-1] == _KEY_END[0], octets[1:] == _KEY_END[1]
    return int(np.count_nonzero(quotes & colons))


def _member_count(envelope: _Envelope, changes: _Changes) -> int:
    """Return how many members the decoders kept: fewer than keys when one of them came twice."""
    absent = sum(row.row is _ABSENT for row in envelope.rows) if "delete" in changes.op else 0
    return (
        _REQUIRED_MEMBERS
        + _schema_member_count(envelope.schema_columns)
        + _MEMBERS_OF_A_ROW * len(envelope.rows)
        - absent
        + sum(map(len, changes.pk))
        + _content_member_count(changes.contents)
    )


def _content_member_count(contents: Contents) -> int:
    if isinstance(contents, AlikeContents):
        return len(contents) * len(contents.columns)
    return sum(map(len, filter(None, contents.rows)))


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
        contents=changes.contents,
    )
