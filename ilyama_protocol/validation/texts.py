"""Texts: the JSON of keys and rows exactly as the device sent it, cut out of the payload.

Every function here expects a payload that is already known to be a valid batch.
"""

from typing import NamedTuple

import msgspec

_FIRST_ROW = '"rows":[{'
_BATCH_END = "]}"
_AFTER_PK = ',"row":'
_AFTER_ROW = "},"
_NULL_ROW = '},"row":null}'
_NULL_ROW_IN_BRACES = '},"row":{null}}'


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


def row_texts(payload: bytes | str, op: list[str]) -> RowTexts:
    """Return the texts of a row batch whose operations are given; a delete has no `row`."""
    rows = _ROW_BATCH.decode(payload).rows
    return RowTexts(
        pk=[str(row.pk, "utf-8") for row in rows],
        row=_without_deletes([str(row.row, "utf-8") for row in rows], op),
    )


def field_texts(payload: bytes) -> list[str]:
    """Return the texts of the `fields` of a telemetry batch."""
    return [str(row.fields, "utf-8") for row in _TELEMETRY_BATCH.decode(payload).rows]


def cut_row_texts(text: str, op: list[str]) -> RowTexts | None:
    """Cut the texts of a row batch at its braces, which is faster than parsing it again.

    Expects rows of exactly the four members of the protocol, with flat values. They have three
    opening braces each, counting one for a null; any other can only be part of a string. A key
    behind a comma cannot be part of one, because a string has no bare quotes.

    Returns:
        The texts, or None when a string holds a brace or the batch is not laid out as devices
        usually do: no line breaks, `rows` last, `row` last in its row and directly after `pk`.
    """
    first_row, deletes = text.find(_FIRST_ROW), op.count("delete")
    if first_row < 0 or not text.endswith(_BATCH_END) or "\n" in text:
        return None
    body = text[first_row + len(_FIRST_ROW) : -len(_BATCH_END)]
    braced = body.replace(_NULL_ROW, _NULL_ROW_IN_BRACES) if deletes else body
    pieces = f"{braced},".split("{")
    if len(pieces) != 3 * len(op) or len(braced) - len(body) != 2 * deletes:
        return None
    pk, row = _objects(pieces[1::3], end=_AFTER_PK), _objects(pieces[2::3], end=_AFTER_ROW)
    return RowTexts(pk, _without_deletes(row, op)) if pk and row else None


def _objects(pieces: list[str], *, end: str) -> list[str] | None:
    # Joining and splitting all pieces at once is much cheaper than trimming each.
    joined = "{" + "\n{".join(pieces) + "\n"
    if joined.count(f"}}{end}\n") != len(pieces):
        return None
    return joined.split(f"{end}\n")[:-1]


def _without_deletes(texts: list[str], op: list[str]) -> list[str | None]:
    if "delete" not in op:
        return [*texts]
    return [None if name == "delete" else text for name, text in zip(op, texts, strict=True)]
