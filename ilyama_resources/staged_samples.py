"""Staged rows to look at before their schema is approved: the oldest, up to a number or size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from ilyama_resources.delta import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum

_TABLE = "staged_rows"
_PLACES = ("device_id", "source_table", "staging_reason", "schema_hash", "drain_id")
_CONTENTS = ("row", "fields")

_AT_ONCE = 256
"""A row may be half a mebibyte long."""

Content = dict[str, Any]


def staged_sample(
    root: Path, sums: Sequence[StagedSum], *, most: int, most_bytes: int
) -> list[Content | None]:
    """The contents of rows that are set aside; that of a delete is None."""
    if not sums:
        return []
    found: list[Content | None] = []
    for text in islice(_contents(root, sums), most):
        most_bytes -= len(text or "")
        if most_bytes < 0:
            break
        found.append(None if text is None else msgspec.json.decode(text))
    return found


def _contents(root: Path, sums: Sequence[StagedSum]) -> Iterator[str | None]:
    wanted = {
        (s.device_id, s.source_table, s.staging_reason, s.schema_hash, s.drain_id) for s in sums
    }
    for path in _files(root, sums):
        with pq.ParquetFile(path) as file:
            if not {*_PLACES, *_CONTENTS} <= {*file.schema_arrow.names}:
                continue
            for batch in file.iter_batches(_AT_ONCE, columns=[*_PLACES, *_CONTENTS]):
                yield from _wanted(batch, wanted)


def _files(root: Path, sums: Sequence[StagedSum]) -> list[str]:
    drains = [found.drain_id for found in sums]
    devices = [found.device_id for found in sums]
    bounds: dict[str, tuple[Any, Any]] = {
        "drain_id": (min(drains), max(drains)),
        "device_id": (min(devices), max(devices)),
    }
    try:
        return sorted(Warehouse(root, "").files_within(_TABLE, bounds))
    except TableNotFoundError:
        return []


def _wanted(batch: pa.RecordBatch, wanted: set[tuple[Any, ...]]) -> Iterator[str | None]:
    hashes = pa.array(sorted({schema_hash for *_, schema_hash, _ in wanted}), pa.string())
    near = batch.filter(pc.is_in(batch["schema_hash"].cast(pa.string()), value_set=hashes))
    for *place, row, fields in zip(*(column.to_pylist() for column in near.columns), strict=True):
        if tuple(place) in wanted:
            yield row if row is not None else fields
