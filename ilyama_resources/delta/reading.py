"""Reading the Delta tables in portions, for whoever compares them with something."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ilyama_resources.delta.data_files import PARTITION
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.delta.warehouse import Bounds, within

_BATCH_ROWS = 64 * 1024
_MESSAGES = 64
"""Messages are up to half a megabyte each."""
_PLACE = ("segment_id", "position")


class MessagePlace(NamedTuple):
    """Where a message landed, and where the tables took it up."""

    segment_id: str
    position: int
    day: date
    drain_id: int

    @property
    def key(self) -> str:
        """Its place as one text."""
        return f"{self.segment_id}/{self.position}"


def table_version(root: Path, table: str) -> int | None:
    """The newest version of a table; None while there is no such table."""
    try:
        return DeltaTable(root / table).version()
    except TableNotFoundError:
        return None


def rows_of_devices(
    root: Path,
    table: str,
    columns: Sequence[str],
    *,
    device_ids: Iterable[str],
    since: date | None = None,
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows of some devices, in portions; nothing while there is no table."""
    return rows_with(root, table, columns, among={"device_id": device_ids}, since=since)


def rows_with(
    root: Path,
    table: str,
    columns: Sequence[str],
    *,
    among: Mapping[str, Iterable[str]],
    since: date | None = None,
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows whose named columns have one of the given texts, in portions."""
    wanted = {name: pa.array(list(texts), pa.string()) for name, texts in among.items()}
    for path in _files(root / table, since):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                rows = _plain(batch)
                for name, texts in wanted.items():
                    rows = rows.filter(pc.is_in(rows[name], value_set=texts))
                yield rows


def rows_at(
    root: Path,
    table: str,
    columns: Sequence[str],
    *,
    places: Sequence[MessagePlace],
    unreadable: Unreadable,
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows that messages at certain places gave, in small portions.

    Files are chosen by their statistics, and of those only the ones that hold such a message are
    read any further.
    """
    wanted = pa.array([place.key for place in places], pa.string())
    names = [*dict.fromkeys((*_PLACE, *columns))]
    bounds = _bounds(places) if places else {}
    for path in _files_within(root / table, bounds, unreadable) if places else ():
        with unreadable.noted(path):
            yield from _rows_at(path, names, wanted)


def _rows_at(path: str, names: list[str], wanted: pa.Array) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        keys = _keys(_plain_table(file.read(columns=list(_PLACE))))
        if not pc.any(pc.is_in(keys, value_set=wanted)).as_py():
            return
        for batch in file.iter_batches(_MESSAGES, columns=names):
            plain = _plain(batch)
            yield plain.filter(pc.is_in(_keys(plain), value_set=wanted))


def rows_equal(
    root: Path,
    table: str,
    columns: Sequence[str],
    *,
    equal: Mapping[str, str],
    unreadable: Unreadable,
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows with these very texts; files are chosen by their statistics."""
    bounds: Bounds = {name: (text, text) for name, text in equal.items()}
    names = [*dict.fromkeys((*equal, *columns))]
    for path in _files_within(root / table, bounds, unreadable):
        with unreadable.noted(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                rows = _plain(batch)
                for name, text in equal.items():
                    rows = rows.filter(pc.equal(rows[name], text))
                if rows.num_rows:
                    yield rows.select(list(columns))


def _bounds(places: Sequence[MessagePlace]) -> Bounds:
    return {
        name: (min(values), max(values))
        for name, values in zip(MessagePlace._fields, zip(*places, strict=True), strict=True)
    }


def _keys(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    position = pc.cast(rows["position"], pa.string())
    return pc.binary_join_element_wise(rows["segment_id"], position, "/")


def _plain_table(rows: pa.Table) -> pa.Table:
    return pa.Table.from_batches(
        map(_plain, rows.to_batches()), None if rows.num_rows else rows.schema
    )


def _files_within(location: Path, bounds: Bounds, unreadable: Unreadable) -> list[str]:
    with unreadable.noted(location), suppress(TableNotFoundError):
        actions = pa.table(DeltaTable(location).get_add_actions(flatten=True))
        return [str(location / path) for path in within(actions, bounds)["path"].to_pylist()]
    return []


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with plain strings: writers use dictionaries, views and large ones as they like."""
    texts = {pa.large_string(), pa.string_view()}
    columns = [
        column.cast(pa.string())
        if pa.types.is_dictionary(column.type) or column.type in texts
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _files(location: Path, since: date | None) -> list[str]:
    try:
        actions = pa.table(DeltaTable(location).get_add_actions(flatten=True))
    except TableNotFoundError:
        return []
    days = actions[f"partition.{PARTITION}"].to_pylist()
    paths = zip(actions["path"].to_pylist(), days, strict=True)
    return [str(location / path) for path, day in paths if since is None or day >= since]
