"""Whether a batch goes on or is set aside: what the platform has ruled on lineages of a device.

A lineage is active, or paused for reasons of which each is cleared on its own. Batches of a paused
lineage are decided like any other and then staged, so that nothing is lost and nothing is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Protocol

FAILURES_THAT_OPEN_THE_CIRCUIT = 5
"""So many rows in a row that cannot be materialized pause their lineage."""


class PauseReason(StrEnum):
    """Why a lineage is paused."""

    SCHEMA_REVIEW = "schema_review"
    BACKPRESSURE = "backpressure"
    CIRCUIT_OPEN = "circuit_open"
    OPERATOR = "operator"


class StagingReason(StrEnum):
    """Why rows, or a whole message, were set aside."""

    SCHEMA_REVIEW = "schema_review"
    LINEAGE_PAUSED = "lineage_paused"
    MATERIALIZATION_FAILED = "materialization_failed"
    ENGINE_ERROR = "engine_error"


_ALL_BUT_VOLUME = frozenset(
    {PauseReason.SCHEMA_REVIEW, PauseReason.CIRCUIT_OPEN, PauseReason.OPERATOR}
)
HELD_BY: Mapping[StagingReason, frozenset[PauseReason]] = {
    StagingReason.SCHEMA_REVIEW: frozenset({PauseReason.SCHEMA_REVIEW}),
    StagingReason.LINEAGE_PAUSED: _ALL_BUT_VOLUME,
    StagingReason.MATERIALIZATION_FAILED: _ALL_BUT_VOLUME,
    StagingReason.ENGINE_ERROR: frozenset(),
}
"""The pauses that keep what is staged from being released; a full backlog must be able to drain."""

RETRIED_ON_REQUEST = frozenset({StagingReason.MATERIALIZATION_FAILED, StagingReason.ENGINE_ERROR})
"""What failed would fail again; it is released only when somebody asks for that."""

DECIDED = frozenset(HELD_BY) - {StagingReason.ENGINE_ERROR}
"""Rows that were staged for these reasons were decided before."""


class TableBatch(Protocol):
    """What a ruling looks at: a batch of rows or of telemetry."""

    @property
    def source_table(self) -> str:
        """The table on the device."""

    @property
    def schema_hash(self) -> str:
        """The schema that the batch names."""


class LineageRulings:
    """The rulings on one device, pinned when its drain was planned."""

    def __init__(
        self,
        pauses: Mapping[str, Collection[str]] | None = None,
        *,
        backlog: Collection[str] = (),
        circuit_opens_at: int = FAILURES_THAT_OPEN_THE_CIRCUIT,
    ) -> None:
        """Take the pause reasons by source table, and the tables of which rows wait."""
        self.circuit_opens_at = circuit_opens_at
        self._backlog = frozenset(backlog)
        self._pauses = {
            table: {PauseReason(reason) for reason in reasons}
            for table, reasons in (pauses or {}).items()
        }

    def staging_reason(self, batch: TableBatch) -> StagingReason | None:
        """Why a batch is to be set aside; None when it goes on."""
        return StagingReason.LINEAGE_PAUSED if self._pauses.get(batch.source_table) else None

    def telemetry_staging_reason(self, batch: TableBatch) -> StagingReason | None:
        """The same for telemetry, which waits its turn behind what is staged already.

        Of two values of a key at one moment the first stays, so batches must not overtake.
        """
        if batch.source_table in self._backlog:
            return self.staging_reason(batch) or StagingReason.LINEAGE_PAUSED
        return self.staging_reason(batch)

    def pause(self, source_table: str, reason: PauseReason) -> None:
        """Pause a lineage from the next batch on."""
        self._pauses.setdefault(source_table, set()).add(reason)
