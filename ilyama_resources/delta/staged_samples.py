"""Staged rows to look at before their schema is approved."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.governance.dry_run import StagedRow
from ilyama_protocol.moments import micros
from ilyama_resources.delta.staged_files import (
    PLACES,
    TABLE,
    StagedFile,
    chosen_rows,
    places_of,
    staged_files,
)
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum

_CONTENTS = ("device_id", "received_at", "op", "pk", "row", "fields")
_READ = dict.fromkeys((*PLACES, *_CONTENTS))

_Place = tuple[str, str, str, str, int]


class Sampled(NamedTuple):
    """A row that is set aside, who sent it, and when it came."""

    device_id: str
    received_at: int
    row: StagedRow


class SampledSum(NamedTuple):
    """A sum, and how many of its rows are looked at."""

    sum: StagedSum
    rows: int


class _Sent(NamedTuple):
    device_id: str
    received_at: datetime
    op: str | None
    pk: str | None
    row: str | None
    fields: str | None


def staged_sample(
    root: Path, chosen: Sequence[SampledSum], unreadable: Unreadable
) -> Iterator[Sampled]:
    """Rows that are set aside, of chosen sums; files that cannot be read are noted, and hold none.

    They are read as they are asked for, and none is kept.
    """
    by_drain = sorted((one.sum for one in chosen), key=attrgetter("drain_id"))
    left = {_place(one.sum): one.rows for one in chosen}
    for file in _files(root, by_drain, unreadable):
        with unreadable.noted(file.path):
            for device_id, received_at, op, *texts in _contents(file, by_drain, left):
                pk, row, fields = (msgspec.json.decode(text) if text else {} for text in texts)
                yield Sampled(device_id, micros(received_at), StagedRow(row or fields, op, pk))


def _files(root: Path, sums: Sequence[StagedSum], unreadable: Unreadable) -> list[StagedFile]:
    """The files that may hold rows of any sum, in an order that their names do not make."""
    with unreadable.noted(root / TABLE), suppress(TableNotFoundError):
        found = staged_files(Warehouse(root, ""), sums)
        return sorted(found, key=lambda file: (file.drains or (0, 0), file.path))
    return []


def _contents(
    file: StagedFile, by_drain: Sequence[StagedSum], left: dict[_Place, int]
) -> Iterator[_Sent]:
    """What a file holds of sums, as far as there is something left to look at of them."""
    wanted = [one for one in _near(file, by_drain) if left[_place(one)]]
    if wanted and {*PLACES, *_CONTENTS} <= {*pq.read_schema(file.path).names}:
        for batch in chosen_rows(file.path, places_of(wanted), [*_READ]):
            some = batch.take(pa.array(_looked_at(batch, left), pa.int64()))
            sent = (some[name].to_pylist() for name in _CONTENTS)
            yield from map(_Sent._make, zip(*sent, strict=True))


def _near(file: StagedFile, by_drain: Sequence[StagedSum]) -> Sequence[StagedSum]:
    """Those of the sums that the file may hold, by its drains."""
    if file.drains is None:
        return by_drain
    (first, last), drain = file.drains, attrgetter("drain_id")
    begin = bisect_left(by_drain, first, key=drain)
    return by_drain[begin : bisect_right(by_drain, last, lo=begin, key=drain)]


def _looked_at(batch: pa.RecordBatch, left: dict[_Place, int]) -> Iterator[int]:
    """The rows of a batch that are among so many of their sums."""
    columns = (batch[name].to_pylist() for name in PLACES)
    for index, place in enumerate(zip(*columns, strict=True)):
        if left[place]:
            left[place] -= 1
            yield index


def _place(one: StagedSum) -> _Place:
    return one[:5]
