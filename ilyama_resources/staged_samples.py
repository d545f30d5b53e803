"""Staged rows to look at before their schema is approved: the oldest, up to a number or size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.governance.dry_run import StagedRow
from ilyama_resources.delta import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum

_TABLE = "staged_rows"
_PLACES = ("device_id", "source_table", "staging_reason", "schema_hash", "drain_id")
_CONTENTS = ("op", "pk", "row", "fields")

_AT_ONCE = 256
"""A row may be half a mebibyte long."""


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


def _wanted(batch: pa.RecordBatch, wanted: set[tuple[Any, ...]]) -> Iterator[_Texts]:
    hashes = pa.array(sorted({schema_hash for *_, schema_hash, _ in wanted}), pa.string())
    near = batch.filter(pc.is_in(batch["schema_hash"].cast(pa.string()), value_set=hashes))
    for found in zip(*(column.to_pylist() for column in near.columns), strict=True):
        if found[: len(_PLACES)] in wanted:
            yield _Texts(*found[len(_PLACES) :])
