"""History lookups: what earlier drains stored of the keys that devices ask about.

Every read is limited by literals on the tables' own columns, because only those let Delta skip
files; the exact keys are then joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_assets.drains.orders import DeviceNeeds, LookedUp
from ilyama_assets.tables import BATCH_LEDGER, ROW_CHANGES
from ilyama_protocol.intake.history import KnownPayload, NewestChange, RowKey, StoredRow
from ilyama_resources.delta import Warehouse

MOST_LITERALS = 1000
_PK = ("device_id", "source_table", "source_pk_hash")
_KEY = (*_PK, "journal_epoch", "commit_seq")


def look_up(
    session: SparkSession, warehouse: Warehouse, needs: Sequence[DeviceNeeds]
) -> dict[str | None, LookedUp]:
    """Everything that the devices need to know, by device."""
    found = {need.device_id: LookedUp() for need in needs}
    for device_id, payload in _known_payloads(session, warehouse, needs):
        found[device_id].payloads.append(payload)
    rows = _asked_rows(needs, found)
    if rows.num_rows:
        asked = session.createDataFrame(rows)
        stored = _candidates(session, warehouse, rows)
        _add_stored(found, stored, asked)
        _add_newest(found, stored, asked)
    return found


def _known_payloads(
    session: SparkSession, warehouse: Warehouse, needs: Sequence[DeviceNeeds]
) -> Iterable[tuple[str, KnownPayload]]:
    """Batches that came before, byte for byte, and met no conflict and no floor then."""
    hashes = sorted({batch.payload_sha256 for need in needs for batch in need.needs})
    ledger = session.read.format("delta").load(str(warehouse.location(BATCH_LEDGER.name)))
    was_stored = F.col("outcome").isin("accepted", "duplicate") & (F.col("kind") == "rows")
    was_clean = (F.col("rows_conflict") == 0) & (F.col("rows_below_floor") == 0)
    same_bytes = _within("payload_sha256", hashes) & _within("device_id", _device_ids(needs))
    wanted = session.createDataFrame(pa.table({"payload_sha256": hashes}))
    lines = ledger.where(was_stored & was_clean & same_bytes).join(
        F.broadcast(wanted), "payload_sha256", "left_semi"
    )
    fields = ("device_id", "payload_sha256", "source_table", "batch_id", "rows_received")
    for line in lines.select(*fields).distinct().toArrow().to_pylist():
        device_id, *payload = (line[name] for name in fields)
        yield device_id, KnownPayload(*payload)


def _asked_rows(needs: Sequence[DeviceNeeds], found: dict[str | None, LookedUp]) -> pa.Table:
    """The keys of all batches that are not known byte for byte."""
    columns: dict[str, list[Any]] = {name: [] for name in _KEY}
    for need in needs:
        known = {payload.payload_sha256 for payload in found[need.device_id].payloads}
        for batch in need.needs:
            if batch.payload_sha256 not in known:
                size = len(batch.commit_seqs)
                columns["device_id"] += [need.device_id] * size
                columns["source_table"] += [batch.source_table] * size
                columns["journal_epoch"] += [batch.journal_epoch] * size
                columns["source_pk_hash"] += batch.pk_hashes
                columns["commit_seq"] += batch.commit_seqs
    return pa.table(columns, schema=pa.schema([ROW_CHANGES.schema.field(name) for name in _KEY]))


def _candidates(session: SparkSession, warehouse: Warehouse, asked: pa.Table) -> DataFrame:
    changes = session.read.format("delta").load(str(warehouse.location(ROW_CHANGES.name)))
    limits = [_within(name, sorted(set(asked[name].to_pylist()))) for name in _PK]
    return changes.where(limits[0] & limits[1] & limits[2])


def _add_stored(found: dict[str | None, LookedUp], stored: DataFrame, asked: DataFrame) -> None:
    """The content under exactly the keys that were asked for."""
    matches = stored.join(asked.distinct(), list(_KEY), "left_semi")
    for row in matches.select(*_KEY, "op", "row").toArrow().to_pylist():
        key = RowKey(
            row["source_table"], row["journal_epoch"], row["source_pk_hash"], row["commit_seq"]
        )
        found[row["device_id"]].stored.append(StoredRow(key, row["op"], row["row"]))


def _add_newest(found: dict[str | None, LookedUp], stored: DataFrame, asked: DataFrame) -> None:
    """The highest commit of each primary key in every epoch."""
    matches = stored.join(asked.select(*_PK).distinct(), list(_PK), "left_semi")
    highest = matches.groupBy(*_PK, "journal_epoch").agg(F.max("commit_seq").alias("commit_seq"))
    for row in highest.toArrow().to_pylist():
        found[row["device_id"]].newest.append(
            NewestChange(
                row["source_table"], row["source_pk_hash"], row["journal_epoch"], row["commit_seq"]
            )
        )


def _within(name: str, values: Sequence[Any]) -> Column:
    """A literal limit: the values themselves, or their range when there are too many."""
    if len(values) <= MOST_LITERALS:
        return F.col(name).isin(list(values))
    return F.col(name).between(values[0], values[-1])


def _device_ids(needs: Sequence[DeviceNeeds]) -> list[str]:
    return sorted(need.device_id for need in needs if need.device_id is not None)
