"""Staged rows to look at before their schema is approved: the oldest, up to a number or size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.governance.dry_run import StagedRow
from ilyama_resources.delta import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_resources.staged_files import PLACES, chosen_rows, places_of, staged_files

_CONTENTS = ("op", "pk", "row", "fields")


class _Texts(NamedTuple):
    op: str | None
    pk: str | None
    row: str | None
    fields: str | None


def staged_sample(
    root: Path, sums: Sequence[StagedSum], *, most: int, most_bytes: int
) -> list[StagedRow]:
    """Rows that are set aside."""
    if not sums:
        return []
    found: list[StagedRow] = []
    for op, *texts in islice(_contents(root, sums), most):
        most_bytes -= sum(len(text) for text in texts if text is not None)
        if most_bytes < 0:
            break
        pk, row, fields = (msgspec.json.decode(text) if text else {} for text in texts)
        found.append(StagedRow(row or fields, op, pk))
    return found


def _contents(root: Path, sums: Sequence[StagedSum]) -> Iterator[_Texts]:
    wanted = places_of(sums)
    for path in _files(root, sums):
        if {*PLACES, *_CONTENTS} <= {*pq.read_schema(path).names}:
            for batch in chosen_rows(path, wanted, _CONTENTS):
                texts = (batch[name].to_pylist() for name in _CONTENTS)
                yield from map(_Texts._make, zip(*texts, strict=True))


def _files(root: Path, sums: Sequence[StagedSum]) -> list[str]:
    try:
        return sorted(file.path for file in staged_files(Warehouse(root, ""), sums))
    except TableNotFoundError:
        return []
