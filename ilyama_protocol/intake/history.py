"""What the engine must look up before it can decide, and what it was told.

A row above its lineage's watermark in the device's newest epoch needs no history at all. Any other
row may repeat, or be older than, something stored before this drain. The engine then says which
rows it has to know about, Spark looks them up, and the device is decided again with the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.messages import RowBatch


class RowKey(NamedTuple):
    """The dedup key of a row change within its device."""

    source_table: str
    journal_epoch: str
    source_pk_hash: str
    commit_seq: int


class StoredRow(NamedTuple):
    """A row change stored by an earlier drain."""

    key: RowKey
    op: str
    row: str | None


class NewestChange(NamedTuple):
    """The highest stored commit_seq of a primary key in one epoch."""

    source_table: str
    source_pk_hash: str
    journal_epoch: str
    commit_seq: int


class KnownPayload(NamedTuple):
    """A row batch that was stored before, byte for byte, and in which no row conflicted."""

    payload_sha256: str
    source_table: str
    batch_id: str
    rows: int


class KnownBatch(NamedTuple):
    """A telemetry batch that was accepted or staged before, and where its message lies."""

    batch_id: str
    source_table: str
    batch_seq: int
    payload_sha256: str
    rows: int
    drain_id: int
    segment_id: str
    position: int
    received_at: int
    payload: bytes | None = None
    """Its message, when other bytes came under its id and the message is still kept."""


class PointKey(NamedTuple):
    """What may be said once: a datapoint table has one value of a key at a moment."""

    table: str
    key: str
    ts: int


class StoredPoint(NamedTuple):
    """A datapoint of telemetry stored by an earlier drain."""

    key: PointKey
    value: float | str | None


class TelemetryNeed(msgspec.Struct, frozen=True, tag="telemetry"):
    """What must be known of a telemetry batch: its id, its number, and moments of its rows.

    What is None or empty need not be looked up.
    """

    payload_sha256: str
    source_table: str
    batch_id: str | None
    batch_seq: int | None
    after_drain: int
    """No drain up to this one holds a batch of this id, or of this number and era."""
    moments: list[int] = []
    points_after: int = 0
    """No drain up to this one holds datapoints of these moments."""


class BatchNeed(msgspec.Struct, frozen=True, tag="rows"):
    """The keys of one batch that may meet stored rows, and its bytes when these may be known."""

    payload_sha256: str | None
    source_table: str
    journal_epoch: str
    pk_hashes: list[str]
    commit_seqs: list[int]
    after_drain: int = 0
    """No drain up to this one holds what the batch may meet."""


Need = BatchNeed | TelemetryNeed


class History(msgspec.Struct):
    """What earlier drains stored of the keys that were asked for."""

    stored: dict[RowKey, StoredRow] = {}
    newest: dict[tuple[str, str], list[NewestChange]] = {}
    payloads: dict[str, KnownPayload] = {}
    batches: list[KnownBatch] = []
    """In the order in which they were taken."""
    points: dict[PointKey, StoredPoint] = {}

    @classmethod
    def of(
        cls,
        *,
        stored: Iterable[StoredRow] = (),
        newest: Iterable[NewestChange] = (),
        payloads: Iterable[KnownPayload] = (),
        batches: Iterable[KnownBatch] = (),
        points: Iterable[StoredPoint] = (),
    ) -> History:
        """Index looked-up rows by their keys."""
        by_pk: dict[tuple[str, str], list[NewestChange]] = {}
        for change in newest:
            by_pk.setdefault((change.source_table, change.source_pk_hash), []).append(change)
        return cls(
            stored={row.key: row for row in stored},
            newest=by_pk,
            payloads={payload.payload_sha256: payload for payload in payloads},
            batches=sorted(batches, key=attrgetter("drain_id", "segment_id", "position")),
            points={point.key: point for point in points},
        )


def may_meet_stored_rows(before: DeviceState, batch: RowBatch, rank: int) -> bool:
    """Whether rows of the batch may repeat, or be older than, rows of earlier drains.

    Its epoch has the rank, or a higher one.
    """
    lineage = before.lineages.get(batch.source_table)
    if lineage is None:
        return False
    watermark = lineage.watermarks.get(batch.journal_epoch)
    if watermark is not None and batch.first_commit_seq <= watermark:
        return True
    return any(before.epochs[epoch] > rank for epoch in lineage.watermarks)


def stored_after(before: DeviceState, batch: RowBatch, rank: int) -> int:
    """The last drain of those that surely hold nothing the batch may meet.

    It may meet rows of its epoch from its first number on, and all rows of newer epochs.
    """
    lineage = before.lineages[batch.source_table]
    newer = [epoch for epoch in lineage.watermarks if before.epochs[epoch] > rank]
    drains = [lineage.stored_after(epoch, 0) for epoch in newer]
    if batch.first_commit_seq <= lineage.watermarks.get(batch.journal_epoch, -1):
        drains.append(lineage.stored_after(batch.journal_epoch, batch.first_commit_seq))
    return min(drains, default=0)
