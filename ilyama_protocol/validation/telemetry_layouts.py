"""Layouts of telemetry: decoders for the very fields that the rows of a batch have."""

import re
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ilyama_protocol.validation.layouts import (
    REMEMBERED_LAYOUTS,
    Flat,
    SequenceNumber,
    first_names,
    struct_of,
)

_FIRST_FIELDS = re.compile(rb'"fields": ?(\{[^{}]+\})')


class Sample(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    """One element of `rows`; its fields are a dictionary, or a struct of an alike batch."""

    ts: str
    fields: Any
    row_id: str | UnsetType | None = UNSET


class TelemetryEnvelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A telemetry batch of the right types, though of any values."""

    format_version: Literal[1]
    capture_strategy: Literal["sqlite_telemetry_batch_v1"]
    batch_id: str
    batch_seq: SequenceNumber
    source_table: str
    schema_hash: str
    cursor_start_ts: str
    cursor_end_ts: str
    row_count: SequenceNumber
    rows: list[Sample]
    schema_columns: dict[str, Any] | UnsetType | None = UNSET


class _MixedSample(Sample, gc=False, forbid_unknown_fields=True, kw_only=True):
    fields: Annotated[Flat, msgspec.Meta(min_length=1)]


class _MixedEnvelope(TelemetryEnvelope, forbid_unknown_fields=True, kw_only=True):
    rows: list[_MixedSample]  # type: ignore[assignment]


MIXED_TELEMETRY: msgspec.json.Decoder[TelemetryEnvelope] = msgspec.json.Decoder(_MixedEnvelope)
"""Decodes batches of any flat fields."""


def guessed_fields(payload: bytes) -> tuple[str, ...]:
    """Return the names of the first row's fields, where they are easily found.

    It is a guess: whether all rows have them, their decoder tells.
    """
    return first_names(_FIRST_FIELDS, payload)


@lru_cache(REMEMBERED_LAYOUTS)
def telemetry_decoder_of(fields: tuple[str, ...]) -> msgspec.json.Decoder[TelemetryEnvelope]:
    """Return a decoder of batches whose rows all have these very fields.

    Raises:
        ValueError: A name has characters that are written with an escape.
    """
    strict: dict[str, Any] = {"forbid_unknown_fields": True, "kw_only": True}
    members: list[Any] = [("fields", struct_of(fields))]
    sample = msgspec.defstruct("_AlikeSample", members, bases=(Sample,), gc=False, **strict)
    rows = ("rows", list[sample])  # type: ignore[valid-type]
    return msgspec.json.Decoder(
        msgspec.defstruct("_AlikeTelemetry", [rows], bases=(TelemetryEnvelope,), **strict)
    )
