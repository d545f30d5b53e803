"""Staged rows to look at before their schema is approved: the oldest, up to a number or size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.governance.dry_run import StagedRow
from ilyama_protocol.moments import micros
from ilyama_resources.delta.staged_files import PLACES, TABLE, chosen_rows, places_of, staged_files
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum

_CONTENTS = ("device_id", "received_at", "op", "pk", "row", "fields")


class Sampled(NamedTuple):
    """A row that is set aside, who sent it, and when it came."""

    device_id: str
    received_at: int
    row: StagedRow


class _Sent(NamedTuple):
    device_id: str
    received_at: datetime
    op: str | None
    pk: str | None
    row: str | None
    fields: str | None


def staged_sample(
    root: Path, sums: Sequence[StagedSum], unreadable: Unreadable, *, most: int, most_bytes: int
) -> list[Sampled]:
    """Rows that are set aside; files that cannot be read are noted, and hold none."""
    if not sums:
        return []
    found: list[Sampled] = []
    for device_id, received_at, op, *texts in islice(_contents(root, sums, unreadable), most):
        most_bytes -= sum(len(text) for text in texts if text is not None)
        if most_bytes < 0:
            break
        pk, row, fields = (msgspec.json.decode(text) if text else {} for text in texts)
        found.append(Sampled(device_id, micros(received_at), StagedRow(row or fields, op, pk)))
    return found


def _contents(root: Path, sums: Sequence[StagedSum], unreadable: Unreadable) -> Iterator[_Sent]:
    wanted = places_of(sums)
    for path in _files(root, sums, unreadable):
        with unreadable.noted(path):
            if {*PLACES, *_CONTENTS} <= {*pq.read_schema(path).names}:
                for batch in chosen_rows(path, wanted, _CONTENTS):
                    sent = (batch[name].to_pylist() for name in _CONTENTS)
                    yield from map(_Sent._make, zip(*sent, strict=True))


def _files(root: Path, sums: Sequence[StagedSum], unreadable: Unreadable) -> list[str]:
    with unreadable.noted(root / TABLE), suppress(TableNotFoundError):
        return sorted(file.path for file in staged_files(Warehouse(root, ""), sums))
    return []
