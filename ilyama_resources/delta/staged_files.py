"""The files of `staged_rows`: which may hold what was set aside, and what they hold of it.

Released rows stay in these files, and compaction makes them large: whoever looks for a few rows
goes through them piece by piece and keeps only those.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum

TABLE = "staged_rows"
PLACES = ("device_id", "source_table", "staging_reason", "schema_hash", "drain_id")
"""What tells the rows of one sum from those of others."""

_TYPES = pa.schema([(name, pa.int64() if name == "drain_id" else pa.string()) for name in PLACES])
_PLACES_AT_ONCE = 64 * 1024
_BYTES_AT_ONCE = 4 * 1024**2
"""A row may be half a mebibyte long, or a hundred bytes."""
_MOST_AT_ONCE = 16 * 1024
_READ_AHEAD = 256 * 1024
"""Bytes of a column that are read from the disk at once; else it is all of a row group."""

Mask = npt.NDArray[np.bool_]
_Key = TypeVar("_Key", int, str)


class StagedFile(msgspec.Struct, frozen=True):
    """A file of staged rows, with the devices and drains between which its rows are, if known."""

    path: str
    devices: tuple[str, str] | None = None
    drains: tuple[int, int] | None = None


def staged_files(warehouse: Warehouse, sums: Sequence[StagedSum]) -> list[StagedFile]:
    """The files that may hold rows of any sum, by their statistics."""
    if not sums:
        return []
    bounds = warehouse.bounds_of_files(TABLE, ("device_id", "drain_id"))
    return holding((StagedFile(path, *told) for path, told in bounds), sums)


def holding(files: Iterable[StagedFile], sums: Iterable[StagedSum]) -> list[StagedFile]:
    """Those of the files that may hold rows of any sum."""
    devices: dict[int, set[str]] = {}
    for found in sums:
        devices.setdefault(found.drain_id, set()).add(found.device_id)
    of_drains = {drain: sorted(devices[drain]) for drain in sorted(devices)}
    drains = [*of_drains]
    return [file for file in files if _may_hold(file, drains, of_drains)]


def _may_hold(file: StagedFile, drains: list[int], devices: Mapping[int, list[str]]) -> bool:
    near = drains if file.drains is None else _between(drains, *file.drains)
    return any(file.devices is None or _are_near(devices[drain], *file.devices) for drain in near)


def _are_near(devices: list[str], lowest: str, highest: str) -> bool:
    """Whether rows of one may be among others; those of nobody known may be among any."""
    return devices[0] == "" or bool(_between(devices, lowest, highest))


def _between(values: list[_Key], lowest: _Key, highest: _Key) -> list[_Key]:
    return values[bisect_left(values, lowest) : bisect_right(values, highest)]


def places_of(sums: Sequence[StagedSum]) -> pa.Table:
    """The places of sums, as a table."""
    columns = [[getattr(found, name) for found in sums] for name in PLACES]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _TYPES, strict=True)]
    return pa.table(arrays, schema=_TYPES)


def places_in(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Of which sum rows are; what is not known of a whole message is empty, as in its sum."""
    columns = [rows[field.name].cast(field.type) for field in _TYPES]
    known = [c if pa.types.is_integer(c.type) else pc.fill_null(c, "") for c in columns]
    return pa.table(known, schema=_TYPES)


def chosen_rows(path: str, wanted: pa.Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file that are at wanted places, in order; no others are kept."""
    with pq.ParquetFile(path, buffer_size=_READ_AHEAD, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            chosen = _chosen(file, group, wanted)
            if chosen.any():
                yield from _cut(file, group, chosen, columns)


def _chosen(file: pq.ParquetFile, group: int, wanted: pa.Table) -> Mask:
    """Which rows of a row group are wanted, by nothing but their places."""
    parts = file.iter_batches(_PLACES_AT_ONCE, row_groups=[group], columns=list(PLACES))
    return np.concatenate([np.zeros(0, np.bool_), *(_is_wanted(part, wanted) for part in parts)])


def _is_wanted(batch: pa.RecordBatch, wanted: pa.Table) -> Mask:
    places = places_in(batch)
    near = [pc.is_in(places[name], wanted[name]) for name in ("drain_id", "device_id")]
    candidates = np.flatnonzero(pc.and_(*near).to_numpy())
    mask = np.zeros(batch.num_rows, np.bool_)
    if len(candidates):
        keys = places.take(candidates).append_column("place", pa.array(candidates))
        mask[keys.join(wanted, keys=list(PLACES), join_type="left semi")["place"].to_numpy()] = True
    return mask


def _cut(
    file: pq.ParquetFile, group: int, chosen: Mask, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    begin, size = 0, _at_once(file.metadata.row_group(group))
    for batch in file.iter_batches(size, row_groups=[group], columns=list(columns)):
        mask = chosen[begin : begin + batch.num_rows]
        begin += batch.num_rows
        if mask.any():
            yield batch.filter(pa.array(mask))


def _at_once(group: pq.RowGroupMetaData) -> int:
    rows: int = _BYTES_AT_ONCE * group.num_rows // max(group.total_byte_size, 1)
    return min(max(rows, 1), _MOST_AT_ONCE)
