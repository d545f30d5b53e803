"""Which drain has shown a stored row: of one message, some may have waited."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa


class ShownIn:
    """The drains of stored rows, looked at only where somebody asks."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def drain_of(self, received_at: int, row_index: int) -> int:
        """The drain that has shown the row of a message."""
        return self._drains[received_at, row_index]

    @cached_property
    def _drains(self) -> dict[tuple[int, int], int]:
        rows = self._rows
        places = (rows["received_at"].cast(pa.int64()).to_pylist(), rows["row_index"].to_pylist())
        return dict(zip(zip(*places, strict=True), rows["drain_id"].to_pylist(), strict=True))
