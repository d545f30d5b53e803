"""Why lineages are paused, why rows are set aside, and which pauses hold them.

A lineage is active, or paused for reasons of which each is cleared on its own. Batches of a paused
lineage are decided like any other and then staged, so that nothing is lost and nothing is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    StagingReason.SCHEMA_REVIEW: _ALL_BUT_VOLUME,
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
