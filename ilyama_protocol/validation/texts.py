"""Texts: the JSON of keys and rows exactly as the device sent it, cut out of the payload.

Every function here expects a payload that is already known to be a valid batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ilyama_protocol.texts import CutTexts, Places

_FEWEST_CUT = 64
_OPENING, _CLOSING = b"{}"
_SPACE = ord(" ")
_LAST_OF_PK, _LAST_OF_ROW, _LAST_OF_FIELDS = ord("k"), ord("w"), ord("s")


class RowTexts(NamedTuple):
    """The texts of the primary keys and of the rows of a batch."""

    pk: Sequence[str]
    row: Sequence[str | None]


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
        row=_without_deletes([str(row.row, "utf-8") for row in rows], op),
    )


def cut_texts(payload: bytes, op: list[str], *, other_objects: int) -> RowTexts | None:
    """Return the same for many flat rows, by the places of braces; None when these do not tell.

    `other_objects` is how many there are beside keys and rows.
    """
    if len(op) < _FEWEST_CUT:
        return None
    deletes = op.count("delete")
    flat = _flat_objects(payload, other_objects + 2 * len(op) - deletes)
    if flat is None:
        return None
    # Before a flat object stands `pk":` or `row":`.
    pks, rows = flat.after(_LAST_OF_PK), flat.after(_LAST_OF_ROW)
    if (len(pks), len(rows)) != (len(op), len(op) - deletes):
        return None
    return RowTexts(pks, _with_deletes(rows, op))


def cut_field_texts(payload: bytes, rows: int, *, other_objects: int) -> CutTexts | None:
    """Return the texts of the `fields` of many rows, as `cut_texts` does for keys and rows."""
    if rows < _FEWEST_CUT:
        return None
    flat = _flat_objects(payload, other_objects + rows)
    texts = None if flat is None else flat.after(_LAST_OF_FIELDS)
    return texts if texts is not None and len(texts) == rows else None


class _FlatObjects(NamedTuple):
    """Objects without objects in them, and the last letter of the name before each."""

    payload: bytes
    begins: Places
    ends: Places
    last: npt.NDArray[np.uint8]

    def after(self, letter: int) -> CutTexts:
        """Return those whose name ends with a letter."""
        at = np.flatnonzero(self.last == letter)
        return CutTexts(self.payload, self.begins[at], self.ends[at])


def _flat_objects(payload: bytes, objects: int) -> _FlatObjects | None:
    """Return the flat ones of so many objects, None when braces do not tell them."""
    octets = np.frombuffer(payload, np.uint8)
    at = _braces(octets, 2 * objects)
    if at is None:
        return None
    # Of a flat object, the closing brace comes next.
    braces = octets[at]
    flat = np.flatnonzero(braces[:-1] < braces[1:])
    begins, ends = at[flat], at[flat + 1] + 1
    last = octets[begins - 3 - (octets[begins - 1] == _SPACE)]
    return _FlatObjects(payload, begins, ends, last)


def _braces(octets: npt.NDArray[np.uint8], count: int) -> Places | None:
    """Return where the braces of objects are, None when there are others, within strings."""
    at = np.flatnonzero(octets >= _OPENING)
    if len(at) > count:
        # Letters beyond ASCII come after the braces too.
        at = at[(octets[at] == _OPENING) | (octets[at] == _CLOSING)]
    return at if len(at) == count else None


def field_texts(payload: bytes) -> list[str]:
    """Return the texts of the `fields` of a telemetry batch."""
    return [str(row.fields, "utf-8") for row in _TELEMETRY_BATCH.decode(payload).rows]


def _with_deletes(texts: CutTexts, op: list[str]) -> Sequence[str | None]:
    if len(texts) == len(op):
        return texts
    following = iter(texts)
    return [None if name == "delete" else next(following) for name in op]


def _without_deletes(texts: list[str], op: list[str]) -> list[str | None]:
    if "delete" not in op:
        return [*texts]
    return [None if name == "delete" else text for name, text in zip(op, texts, strict=True)]
