"""Layouts: decoders for the very columns that the rows of a batch have.

Rows of one table are alike. A decoder that knows their columns proves a whole batch in one pass
over its bytes and makes no dictionary for any row.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ilyama_protocol.limits import INT64_MAX, INT64_MIN

_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
SequenceNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Scalar: TypeAlias = str | _Int64 | float | bool | None
Flat: TypeAlias = dict[str, _Scalar]
_DELETE = b'"delete"'
REMEMBERED_LAYOUTS = 1_024
_FIRST_PK = re.compile(rb'"pk": ?(\{[^{}]+\})')
_FIRST_ROW = re.compile(rb'"row": ?(\{[^{}]+\})')


class Change(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    """One element of `rows`; key and row are dictionaries, or structs of an `AlikeEnvelope`."""

    commit_seq: SequenceNumber
    op: Literal["insert", "update", "delete"]
    pk: Any
    row: Any = UNSET


class Envelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A row batch of the right types, though of any values."""

    format_version: Literal[1]
    capture_strategy: Literal["sqlite_row_batch_v1"]
    batch_id: str
    journal_epoch: str
    source_table: str
    schema_hash: str
    first_commit_seq: SequenceNumber
    last_commit_seq: SequenceNumber
    rows: list[Change]
    schema_columns: dict[str, Any] | UnsetType | None = UNSET


class _MixedChange(Change, gc=False, forbid_unknown_fields=True, kw_only=True):
    pk: Annotated[Flat, msgspec.Meta(min_length=1)]
    row: Flat | UnsetType | None = UNSET


class _MixedEnvelope(Envelope, forbid_unknown_fields=True, kw_only=True):
    rows: list[_MixedChange]  # type: ignore[assignment]


class Layout(NamedTuple):
    """The columns that every key and every row of a batch has, and whether some are deletes."""

    pk: tuple[str, ...]
    row: tuple[str, ...]
    has_deletes: bool


_FLAT = msgspec.json.Decoder(Flat)
MIXED: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(_MixedEnvelope)
"""Decodes batches of any flat rows."""


def guessed_layouts(payload: bytes) -> Iterator[Layout]:
    """Return the layouts of the first key and the first row, where they are easily found.

    They are guesses, the likelier first: whether all rows have one, its decoder tells.
    """
    pk, row = first_names(_FIRST_PK, payload), first_names(_FIRST_ROW, payload)
    if not pk or not row:
        return
    yield Layout(pk, row, has_deletes=False)
    if _DELETE in payload:
        yield Layout(pk, row, has_deletes=True)


def first_names(first: re.Pattern[bytes], payload: bytes) -> tuple[str, ...]:
    """Return the names in the first object that a pattern finds, none when it is not flat."""
    found = first.search(payload)
    try:
        return () if found is None else (*_FLAT.decode(found[1]),)
    except ValueError:
        # The object ends elsewhere: what was found ends with a brace in a string.
        return ()


@lru_cache(REMEMBERED_LAYOUTS)
def decoder_of(layout: Layout) -> msgspec.json.Decoder[Envelope]:
    """Return a decoder of batches whose rows all have these very columns.

    Raises:
        ValueError: A name has characters that are written with an escape.
    """
    row: Any = struct_of(layout.row)
    fields: list[Any] = [("pk", struct_of(layout.pk)), ("row", row)]
    if layout.has_deletes:
        fields[1] = ("row", row | UnsetType | None, UNSET)
    else:
        fields.append(("op", Literal["insert", "update"]))
    strict: dict[str, Any] = {"forbid_unknown_fields": True, "kw_only": True}
    change = msgspec.defstruct("_AlikeChange", fields, bases=(Change,), gc=False, **strict)
    rows = ("rows", list[change])  # type: ignore[valid-type]
    return msgspec.json.Decoder(
        msgspec.defstruct("_AlikeEnvelope", [rows], bases=(Envelope,), **strict)
    )


def struct_of(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """Return a type of records that have these very columns."""
    fields = {f"column_{i}": name for i, name in enumerate(names)}
    return msgspec.defstruct(
        "_Alike",
        [(field, _Scalar) for field in fields],
        rename=fields,
        forbid_unknown_fields=True,
        gc=False,
    )
