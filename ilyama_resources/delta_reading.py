"""Reading the Delta tables in portions, for whoever compares them with something."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ilyama_resources.data_files import PARTITION

_BATCH_ROWS = 64 * 1024


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
