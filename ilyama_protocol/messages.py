"""Messages that passed validation, typed and frozen."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

import msgspec

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.contents import Contents, MixedContents, Row
from ilyama_protocol.fingerprint import SchemaColumn

Scalar: TypeAlias = str | int | float | bool | None
_NO_CONTENTS = MixedContents([])


class RequestKind(StrEnum):
    """What a device asks for on the bulk path."""

    URL_REQUEST = "url_request"
    FINALIZE = "finalize"


class SegmentKind(StrEnum):
    """What an uploaded object is."""

    BOOTSTRAP_SNAPSHOT = "bootstrap_snapshot"
    PAYLOAD_SPILL = "payload_spill"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """A batch of row changes, column by column.

    `commit_seq` are 64-bit integers. `pk_text` and `row_text` are the JSON texts exactly as the
    device sent them; the `row_text` and `row` of a delete are None. Ids are in lower case.
    """

    batch_id: str
    journal_epoch: str
    source_table: str
    schema_hash: str
    first_commit_seq: int
    last_commit_seq: int
    schema_columns: tuple[SchemaColumn, ...] | None
    commit_seq: array[int]
    op: list[str]
    pk_text: Sequence[str]
    row_text: Sequence[str | None]
    contents: Contents = field(repr=False)

    @property
    def pk(self) -> list[dict[str, Scalar]]:
        """The primary key of every row."""
        return [msgspec.json.decode(text) for text in self.pk_text]

    def without_contents(self) -> RowBatch:
        """Return the batch as it is kept once its contents are told: they take most of its room."""
        return replace(self, contents=_NO_CONTENTS)

    @property
    def row(self) -> list[Row | None]:
        """The content of every row."""
        return self.contents.rows


@dataclass(frozen=True, slots=True)
class TelemetryBatch:
    """A batch of telemetry rows, column by column; times are microseconds since 1970 in UTC.

    `ts_us` are 64-bit integers, `fields_text` the JSON texts exactly as the device sent them.
    `row_id` is None when no row has one. Ids are in lower case.
    """

    batch_id: str
    batch_seq: int
    source_table: str
    schema_hash: str
    cursor_start_us: int
    cursor_end_us: int
    schema_columns: tuple[SchemaColumn, ...] | None
    ts_us: array[int]
    row_id: list[str | None] | None
    fields_text: Sequence[str]
    contents: Contents = field(repr=False)

    def without_contents(self) -> TelemetryBatch:
        """Return the batch as it is kept once its contents are told."""
        return replace(self, contents=_NO_CONTENTS)

    @property
    def fields(self) -> list[Row | None]:
        """The fields of every row."""
        return self.contents.rows


def telemetry_content(payload: bytes) -> str:
    """Return the canonical JSON of a valid telemetry batch without its `batch_id`.

    Two batches under one id are the same when they agree on it.
    """
    document = json.loads(payload)
    del document["batch_id"]
    return canonical_json(document)


@dataclass(frozen=True, slots=True)
class Observation:
    """A schema that a device saw; advisory.

    `schema_columns` is None when none were sent or they do not hash to `schema_hash`.
    """

    source_table: str
    schema_hash: str
    observed_at_us: int
    schema_columns: tuple[SchemaColumn, ...] | None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A device's receipt for a control."""

    control_id: str


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """A device's request on the bulk path; a finalize names its upload."""

    request_kind: RequestKind
    source_table: str
    batch_id: str | None
    segment_kind: SegmentKind | None


Message: TypeAlias = RowBatch | TelemetryBatch | Observation | Acknowledgement | IngestRequest
