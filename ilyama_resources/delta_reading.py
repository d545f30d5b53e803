"""Reading the Delta tables in portions, for whoever compares them with something."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ilyama_resources.data_files import PARTITION

_BATCH_ROWS = 64 * 1024
_READ_AHEAD = 2


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
    try:
        dataset = DeltaTable(root / table).to_pyarrow_dataset()
    except TableNotFoundError:
        return
    wanted = pc.field("device_id").isin(list(device_ids))
    if since is not None:
        wanted &= pc.field(PARTITION) >= pc.scalar(since)
    scanner = dataset.scanner(
        columns=list(columns),
        filter=wanted,
        batch_size=_BATCH_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=_READ_AHEAD,
    )
    yield from scanner.to_batches()
