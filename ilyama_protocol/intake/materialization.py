"""Rows that cannot be materialized: a value of a key or NOT NULL column is of the wrong kind.

Elsewhere such a value is merely quarantined; here its row would lose what makes it that row. Of a
column that is ignored nothing is shown that could be lost: its row is told by the whole key. Every
number fits a column of numbers, and null fits every column: whether one that is NOT NULL may be
null was for the device's own database to say. Most batches have no misfit at all, which the types
of whole columns tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from ilyama_protocol.fingerprint import METRIC_AFFINITIES
from ilyama_protocol.governance.bindings import SILENT, Binding
from ilyama_protocol.intake.datapoints import (
    KIND_MISMATCH,
    Points,
    fits_kind,
)
from ilyama_protocol.intake.known_keys import KeyNumbers, KnownKeys
from ilyama_protocol.intake.state import BoundSchema

_UNSEEN, _FITS, _MISFIT = range(3)
_REMEMBERED_DECODERS = 1_024


class Misfits:
    """Finds the rows of one schema of one table that cannot be materialized."""

    def __init__(
        self, source_table: str, schema: BoundSchema, keys: KnownKeys, binding: Binding
    ) -> None:
        """Judge by the columns that the binding shows: a value fits what it is not put into."""
        shown = [c for c in schema.columns if binding.action(c.name).verb not in SILENT]
        required = [column.name for column in shown if column.pk_ordinal or column.not_null]
        self.binding = binding
        self._keys = keys
        self._required = {*binding.keys(source_table, required).values()}
        self._metric_members = {
            column.name: column.decl_type_affinity in METRIC_AFFINITIES
            for column in shown
            if column.pk_ordinal
        }
        self._judged = np.zeros(0, np.int8)

    def among(self, rows: Sequence[int], points: Sequence[Points], numbers: KeyNumbers) -> set[int]:
        """Those of the given rows that cannot be, by their datapoints and their keys."""
        found = {
            row
            for part in points
            if part.quarantine_reason == KIND_MISMATCH and part.key in self._required
            for row in part.rows
        }
        if self._metric_members and not self._keys_fit(numbers):
            found |= {row for row in rows if self._judged[numbers[row]] == _MISFIT}
        return found

    def _keys_fit(self, numbers: KeyNumbers) -> bool:
        unseen = len(self._keys.texts) - len(self._judged)
        if unseen:
            self._judged = np.append(self._judged, np.zeros(unseen, np.int8))
        if not self._judged[numbers].all():
            self._judge(np.unique(numbers[self._judged[numbers] == _UNSEEN]))
        return bool((self._judged[numbers] == _FITS).all())

    def _judge(self, unseen: KeyNumbers) -> None:
        texts = [self._keys.texts[number] for number in unseen.tolist()]
        whole = f"[{','.join(texts)}]"
        self._judged[unseen] = _FITS
        if _all_fit(whole, (*self._metric_members.items(),)):
            return
        members = msgspec.json.decode(whole)
        for name, metric in self._metric_members.items():
            values = [pk.get(name) for pk in members]
            misfit = [not fit for fit in fits_kind(values, metric=metric)]
            self._judged[unseen[misfit]] = _MISFIT


def _all_fit(keys: str, members: tuple[tuple[str, bool], ...]) -> bool:
    """Whether a decoder that knows the kinds of all members takes the keys, which is fast."""
    try:
        _decoder_of(members).decode(keys)
    except ValueError:
        # Some do not, or a name is written with an escape.
        return False
    return True


@lru_cache(_REMEMBERED_DECODERS)
def _decoder_of(members: tuple[tuple[str, bool], ...]) -> msgspec.json.Decoder[Any]:
    names = {f"member_{i}": name for i, (name, _) in enumerate(members)}
    kinds = [int | float | None if metric else str | bool | None for _, metric in members]
    fields = [(field, kind, None) for field, kind in zip(names, kinds, strict=True)]
    key = msgspec.defstruct("_Key", fields, rename=names, gc=False)
    return msgspec.json.Decoder(list[key])  # type: ignore[valid-type]


def failures_in_a_row(
    before: int, rows: Sequence[int], misfits: set[int], *, most: int
) -> tuple[int, bool]:
    """How many rows in a row have failed after these, and whether that opened the circuit."""
    count, opened = before, False
    for row in rows:
        count = count + 1 if row in misfits else 0
        if count == most:
            count, opened = 0, True
    return count, opened
