"""Rejections from before there was a record of them: found in the table that keeps their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from ilyama_assets.drains.rejecting import without_bytes
from ilyama_assets.tables import REJECTED_BATCHES
from ilyama_resources.delta.data_files import PARTITION, as_declared
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres import Gateway

_MESSAGES = 500


def recall_rejections(gateway: Gateway, warehouse: Warehouse) -> int:
    """Write down, once, what the table holds; a kill in the middle begins again, and adds nothing.

    A drain that an older build has sealed tells nothing of its rejections: it is waited for.
    """
    with gateway.transaction() as tx:
        if tx.rejections.are_known() or tx.drains.unfinished() is not None:
            return 0
    recalled = 0
    for rejected in _portions(warehouse):
        with gateway.transaction() as tx:
            tx.rejections.add(without_bytes(rejected))
            tx.commit()
        recalled += rejected.num_rows
    with gateway.transaction() as tx:
        tx.rejections.all_are_known()
        tx.commit()
    return recalled


def _portions(warehouse: Warehouse) -> Iterator[pa.Table]:
    names = REJECTED_BATCHES.file_schema.names
    for written in warehouse.files(REJECTED_BATCHES.name):
        day = pa.scalar(date.fromisoformat(written.day), pa.date32())
        with pq.ParquetFile(warehouse.location(REJECTED_BATCHES.name) / written.path) as file:
            for batch in file.iter_batches(_MESSAGES, columns=names):
                rows = as_declared(pa.Table.from_batches([batch]), REJECTED_BATCHES)
                yield rows.append_column(PARTITION, pa.repeat(day, rows.num_rows))
