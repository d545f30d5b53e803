"""Texts: the JSON of keys and rows exactly as the device sent it, cut out of the payload.

Every function here expects a payload that is already known to be a valid batch.
"""

from typing import NamedTuple

import msgspec


class RowTexts(NamedTuple):
    """The texts of the primary keys and of the rows of a batch."""

    pk: list[str]
    row: list[str | None]


class _Row(msgspec.Struct, gc=False):
    pk: msgspec.Raw
    row: msgspec.Raw = msgspec.Raw(b"null")


class _Fields(msgspec.Struct, gc=False):
    fields: msgspec.Raw


class _RowBatch(msgspec.Struct):
    rows: list[_Row]


class _TelemetryBatch(msgspec.Struct):
    rows: list[_Fields]


_ROW_BATCH = msgspec.json.Decoder(_RowBatch)
_TELEMETRY_BATCH = msgspec.json.Decoder(_TelemetryBatch)


def row_texts(payload: bytes, op: list[str]) -> RowTexts:
    """Return the texts of a row batch whose operations are given; a delete has no `row`."""
    rows = _ROW_BATCH.decode(payload).rows
    return RowTexts(
        pk=[str(row.pk, "utf-8") for row in rows],
        row=without_deletes([str(row.row, "utf-8") for row in rows], op),
    )


def field_texts(payload: bytes) -> list[str]:
    """Return the texts of the `fields` of a telemetry batch."""
    return [str(row.fields, "utf-8") for row in _TELEMETRY_BATCH.decode(payload).rows]


def without_deletes(texts: list[str], op: list[str]) -> list[str | None]:
    """Return the texts of `row` with None for those of deletes."""
    if "delete" not in op:
        return [*texts]
    return [None if name == "delete" else text for name, text in zip(op, texts, strict=True)]
