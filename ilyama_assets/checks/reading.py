"""What checks read: whole tables, as far as the drains of them are closed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.checks.reports import SAMPLE_ROWS
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres import Gateway


def read(session: SparkSession, warehouse: Warehouse, contract: TableContract) -> DataFrame:
    """A table as it is now; an empty one when nothing was ever drained."""
    warehouse.ensure(contract)
    return session.read.format("delta").load(str(warehouse.location(contract.name)))


def last_closed_drain(gateway: Gateway) -> int:
    """The last drain that is in all tables and in the records; later ones may be half there."""
    with gateway.transaction() as tx:
        return tx.drains.last_done_id()


def until(rows: DataFrame, drain_id: int) -> DataFrame:
    """The rows of drains up to one."""
    return rows.where(F.col("drain_id") <= drain_id)


def sample(frame: DataFrame, columns: Sequence[str]) -> list[dict[str, object]]:
    """Some rows for a report."""
    return list(frame.select(*columns).limit(SAMPLE_ROWS).toArrow().to_pylist())
