"""Row batches: their rows are told from known and late ones, and become datapoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ilyama_protocol.intake.datapoints import affinities_of, datapoints_of
from ilyama_protocol.intake.decisions import Decisions
from ilyama_protocol.intake.dedup import LineageMemory, RowsDecision, decide_rows
from ilyama_protocol.intake.history import (
    BatchNeed,
    KnownPayload,
    may_meet_stored_rows,
    stored_after,
)
from ilyama_protocol.intake.known_keys import KeyNumbers, KnownKeys, RowHashes
from ilyama_protocol.intake.newest_points import NewestPoints
from ilyama_protocol.intake.outcomes import AcceptedRows, Arrival, CurrentValues, Outcome
from ilyama_protocol.intake.sequences import Island, Numbering, SequenceKind, islands_of
from ilyama_protocol.intake.state import BoundSchema
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.rejections import Rejection, RejectionCode


class RowIntake:
    """Decides the row batches of one device, one after another."""

    def __init__(self, decisions: Decisions, device_id: str | None) -> None:
        self._decisions = decisions
        self._memories: dict[str, LineageMemory] = {}
        self._payloads: dict[str, KnownPayload] = dict(decisions.history.payloads)
        self._keys = KnownKeys(device_id or "")
        self._newest = NewestPoints(self._keys)

    @property
    def current(self) -> CurrentValues:
        """The newest values among all rows that were accepted."""
        return self._newest.values()

    def repeats(self, arrival: Arrival) -> bool:
        """Whether these very bytes were taken before; then the message is decided with that."""
        known = self._payloads.get(arrival.payload_sha256)
        if known is None or self._has_floors(known.source_table):
            return False
        self._decisions.account(
            arrival,
            Outcome.DUPLICATE,
            source_table=known.source_table,
            batch_id=known.batch_id,
            rows_received=known.rows,
            rows_duplicate=known.rows,
        )
        return True

    def take(self, arrival: Arrival, batch: RowBatch) -> None:
        """Decide a valid batch, or say what must be looked up before that."""
        numbers = self._keys.numbers(batch.pk_text)
        hashes = self._keys.hashes_of(numbers)
        decisions = self._decisions
        if not decisions.is_told and may_meet_stored_rows(decisions.before, batch):
            decisions.needs.append(self._need(arrival, batch, hashes))
        if decisions.needs:
            return
        decision = decide_rows(decisions.state, self._memory(batch.source_table), batch, hashes)
        if decision.below_floor == len(batch.op):
            decisions.reject(arrival, _below_floor(batch))
            return
        schema = decisions.schema_in_force(arrival, batch)
        accepted = self._accepted(arrival, batch, decision, numbers=numbers, schema=schema)
        self._remember(accepted, decision, hashes=hashes, schema=schema)

    def _need(self, arrival: Arrival, batch: RowBatch, hashes: RowHashes) -> BatchNeed:
        """What to look up; with floors, knowing the very bytes would not be enough."""
        return BatchNeed(
            None if self._has_floors(batch.source_table) else arrival.payload_sha256,
            batch.source_table,
            batch.journal_epoch,
            [*hashes],
            batch.commit_seq.tolist(),
            stored_after(self._decisions.before, batch),
        )

    def _has_floors(self, source_table: str) -> bool:
        lineage = self._decisions.state.lineages.get(source_table)
        return lineage is not None and bool(lineage.floors)

    def _accepted(
        self,
        arrival: Arrival,
        batch: RowBatch,
        decision: RowsDecision,
        *,
        numbers: KeyNumbers,
        schema: BoundSchema | None,
    ) -> AcceptedRows:
        affinities = None if schema is None else affinities_of(schema)
        return AcceptedRows(
            arrival,
            batch.without_contents(),
            decision.new,
            decision.late,
            self._keys,
            numbers,
            datapoints_of(batch, decision.new, affinities),
        )

    def _remember(
        self,
        accepted: AcceptedRows,
        decision: RowsDecision,
        *,
        hashes: RowHashes,
        schema: BoundSchema | None,
    ) -> None:
        """Make the decision part of the state; from here on nothing can fail."""
        arrival, batch, state = accepted.arrival, accepted.batch, self._decisions.state
        lineage = state.lineage(batch.source_table)
        self._decisions.bind(arrival, batch, schema)
        if decision.new:
            rank = state.epochs.setdefault(batch.journal_epoch, len(state.epochs))
            watermark = lineage.watermarks.get(batch.journal_epoch, -1)
            highest = _highest_commit_seq(batch, decision.new)
            lineage.watermarks[batch.journal_epoch] = max(watermark, highest)
            self._memory(batch.source_table).note(batch, hashes, decision.new, rank)
            numbering = Numbering(SequenceKind.ROWS, batch.journal_epoch)
            self._decisions.number(arrival, numbering, _islands(batch, decision.new))
            self._decisions.outcomes.accept(accepted)
            self._decisions.name_keys(accepted.points)
            self._newest.advance(accepted)
        self._decisions.list_conflicts(arrival, decision.conflicts)
        self._account(arrival, batch, decision)

    def _account(self, arrival: Arrival, batch: RowBatch, decision: RowsDecision) -> None:
        rows = len(batch.op)
        if not decision.conflicts and not decision.below_floor:
            self._payloads[arrival.payload_sha256] = KnownPayload(
                arrival.payload_sha256, batch.source_table, batch.batch_id, rows
            )
        self._decisions.account(
            arrival,
            Outcome.ACCEPTED if decision.new else Outcome.DUPLICATE,
            source_table=batch.source_table,
            batch_id=batch.batch_id,
            rows_received=rows,
            rows_new=len(decision.new),
            rows_duplicate=decision.duplicates + decision.below_floor,
            rows_conflict=len(decision.conflicts),
            rows_below_floor=decision.below_floor,
        )

    def _memory(self, source_table: str) -> LineageMemory:
        memory = self._memories.get(source_table)
        if memory is None:
            memory = LineageMemory(source_table, self._decisions.history)
            self._memories[source_table] = memory
        return memory


def _highest_commit_seq(batch: RowBatch, rows: Sequence[int]) -> int:
    if len(rows) == len(batch.op):
        return batch.last_commit_seq
    return max(map(batch.commit_seq.__getitem__, rows))


def _islands(batch: RowBatch, rows: Sequence[int]) -> list[Island]:
    numbers = np.frombuffer(batch.commit_seq, np.int64)
    return islands_of(numbers if len(rows) == len(numbers) else numbers[np.array(rows)])


def _below_floor(batch: RowBatch) -> Rejection:
    return Rejection(
        RejectionCode.BELOW_FLOOR,
        "$.rows",
        "Every row of this batch is older than what retention has already dropped; drop it.",
        source_table=batch.source_table,
        row_count=len(batch.op),
        batch_id=batch.batch_id,
    )
