"""Row batches: their rows are told from known and late ones, and become datapoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ilyama_protocol.intake.datapoints import Points, datapoints_of
from ilyama_protocol.intake.decisions import Decisions
from ilyama_protocol.intake.dedup import LineageMemory, RowsDecision, decide_rows
from ilyama_protocol.intake.history import (
    BatchNeed,
    KnownPayload,
    may_meet_stored_rows,
    stored_after,
)
from ilyama_protocol.intake.known_keys import KeyNumbers, KnownKeys, RowHashes
from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_protocol.intake.materialization import Misfits, failures_in_a_row
from ilyama_protocol.intake.newest_points import NewestPoints
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    Arrival,
    CurrentValues,
    DecidedRows,
    Origin,
    Outcome,
    StagedRows,
)
from ilyama_protocol.intake.schema_intake import Judged
from ilyama_protocol.intake.sequences import Island, Numbering, SequenceKind, islands_of
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.rejections import Rejection, RejectionCode


class _Sorted(NamedTuple):
    """The rows of a batch that were not known: accepted or set aside."""

    accepted: AcceptedRows
    staged: list[StagedRows]


class RowIntake:
    """Decides the row batches of one device, one after another."""

    def __init__(self, decisions: Decisions, device_id: str | None) -> None:
        self._decisions = decisions
        self._memories: dict[str, LineageMemory] = {}
        self._payloads: dict[str, KnownPayload] = dict(decisions.history.payloads)
        self._came: dict[str, int] = {}
        self._keys = KnownKeys(device_id or "")
        self._newest = NewestPoints(self._keys, in_order=decisions.origin is Origin.LIVE)
        self._misfits_of: dict[tuple[str, str], Misfits] = {}

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
        lowest = self._lowest_rank(arrival, batch.journal_epoch)
        if not decisions.is_told and may_meet_stored_rows(decisions.before, batch, lowest):
            decisions.needs.append(self._need(arrival, batch, hashes, lowest))
        if decisions.needs:
            return
        state, memory = decisions.state, self._memory(batch.source_table)
        rank = state.rank(batch.journal_epoch, arrival.came_at)
        decision = decide_rows(state, memory, batch, hashes, rank)
        if decision.below_floor == len(batch.op):
            decisions.reject(arrival, _below_floor(batch))
            return
        judged = decisions.schemas.judge(arrival, batch)
        told = self._told(DecidedRows(arrival, batch, decision.new, decision.late), numbers)
        self._remember(self._sorted(told, batch, judged), decision, hashes=hashes)
        decisions.schemas.settle(arrival, batch, judged)

    def release(self, decided: DecidedRows) -> None:
        """Materialize rows that were staged; only their binding is that of today."""
        batch, received_at = decided.batch, decided.arrival.received_at
        judged = self._decisions.schemas.judge_released(batch, received_at=received_at)
        told = self._told(decided, self._keys.numbers(batch.pk_text))
        self._settle(self._materialized(told, batch, judged))

    def keep_staged(self, decided: DecidedRows, error: str) -> None:
        """Set rows aside again that could not be released."""
        told = self._told(decided, self._keys.numbers(decided.batch.pk_text))
        staged = StagedRows(told, StagingReason.MATERIALIZATION_FAILED, error)
        self._settle(_Sorted(_none_of(told), [staged]))

    def _sorted(self, told: AcceptedRows, batch: RowBatch, judged: Judged) -> _Sorted:
        """What is new of a batch, with its datapoints, or set aside."""
        reason = judged.ruled.staged_for
        if reason is None:
            return self._materialized(told, batch, judged)
        return _Sorted(_none_of(told), [StagedRows(told, reason)] if told.rows else [])

    def _materialized(self, told: AcceptedRows, batch: RowBatch, judged: Judged) -> _Sorted:
        """Rows with their datapoints; those that cannot be are set aside."""
        affinities, binding = judged.affinities, judged.ruled.binding
        points = datapoints_of(batch, told.rows, affinities, binding)
        misfits = self._misfits(batch, judged, told, points)
        if not misfits:
            return _Sorted(msgspec.structs.replace(told, points=points), [])
        fit = [row for row in told.rows if row not in misfits]
        points = datapoints_of(batch, fit, affinities, binding)
        aside = msgspec.structs.replace(told, rows=[row for row in told.rows if row in misfits])
        return _Sorted(
            msgspec.structs.replace(told, rows=fit, points=points),
            [StagedRows(aside, StagingReason.MATERIALIZATION_FAILED)],
        )

    def _misfits(
        self, batch: RowBatch, judged: Judged, told: AcceptedRows, points: Sequence[Points]
    ) -> set[int]:
        if judged.in_force is None:
            return set()
        place, binding = (batch.source_table, batch.schema_hash), judged.ruled.binding
        found = self._misfits_of.get(place)
        if found is None or found.binding is not binding:
            found = Misfits(batch.source_table, judged.in_force, self._keys, binding)
            self._misfits_of[place] = found
        return found.among(told.rows, points, told.key_numbers)

    def _told(self, decided: DecidedRows, numbers: KeyNumbers) -> AcceptedRows:
        return AcceptedRows(
            decided.arrival,
            decided.batch.without_contents(),
            decided.rows,
            decided.late,
            self._keys,
            numbers,
            [],
        )

    def _lowest_rank(self, arrival: Arrival, epoch: str) -> int:
        """The rank of an epoch, or the lowest that it can be given in this drain.

        While something has to be looked up nothing is accepted, so an unseen epoch has no rank yet.
        """
        came = min(arrival.came_at, self._came.get(epoch, arrival.came_at))
        self._came[epoch] = came
        return self._decisions.before.rank(epoch, came)

    def _need(self, arrival: Arrival, batch: RowBatch, hashes: RowHashes, lowest: int) -> BatchNeed:
        """What to look up; with floors, knowing the very bytes would not be enough."""
        return BatchNeed(
            None if self._has_floors(batch.source_table) else arrival.payload_sha256,
            batch.source_table,
            batch.journal_epoch,
            [*hashes],
            batch.commit_seq.tolist(),
            stored_after(self._decisions.before, batch, lowest),
        )

    def _has_floors(self, source_table: str) -> bool:
        lineage = self._decisions.state.lineages.get(source_table)
        return lineage is not None and bool(lineage.floors)

    def _remember(self, found: _Sorted, decision: RowsDecision, *, hashes: RowHashes) -> None:
        """Make the decision part of the state; from here on nothing can fail."""
        arrival, batch, state = found.accepted.arrival, found.accepted.batch, self._decisions.state
        lineage = state.lineage(batch.source_table)
        if decision.new:
            rank = state.epochs.setdefault(batch.journal_epoch, arrival.came_at)
            watermark = lineage.watermarks.get(batch.journal_epoch, -1)
            highest = _highest_commit_seq(batch, decision.new)
            lineage.watermarks[batch.journal_epoch] = max(watermark, highest)
            self._memory(batch.source_table).note(batch, hashes, decision.new, rank)
            numbering = Numbering(SequenceKind.ROWS, batch.journal_epoch)
            self._decisions.number(arrival, numbering, _islands(batch, decision.new))
        self._decisions.list_conflicts(arrival, decision.conflicts)
        if not decision.conflicts and not decision.below_floor:
            self._payloads[arrival.payload_sha256] = KnownPayload(
                arrival.payload_sha256, batch.source_table, batch.batch_id, len(batch.op)
            )
        self._count_failures(found)
        self._settle(
            found,
            rows_duplicate=decision.duplicates + decision.below_floor,
            rows_conflict=len(decision.conflicts),
            rows_below_floor=decision.below_floor,
        )

    def _settle(self, found: _Sorted, *, rows_duplicate: int = 0, **known: int) -> None:
        """Write down what is new, what is set aside, and the account of the batch."""
        accepted, staged = found.accepted, sum(len(part.rows.rows) for part in found.staged)
        if accepted.rows:
            self._decisions.outcomes.accept(accepted)
            self._decisions.name_keys(accepted.points)
            self._newest.advance(accepted)
        for part in found.staged:
            self._decisions.stage_rows(part)
        outcome, code = _outcome_of(found)
        self._decisions.account(
            accepted.arrival,
            outcome,
            source_table=accepted.batch.source_table,
            batch_id=accepted.batch.batch_id,
            code=code,
            rows_received=len(accepted.rows) + staged + rows_duplicate,
            rows_new=len(accepted.rows),
            rows_staged=staged,
            rows_duplicate=rows_duplicate,
            **known,
        )

    def _count_failures(self, found: _Sorted) -> None:
        """Open the circuit when too many rows in a row could not be materialized.

        A release counts none: how it is cut must not make a difference.
        """
        table = found.accepted.batch.source_table
        lineage = self._decisions.state.lineage(table)
        misfits = {
            row
            for part in found.staged
            if part.reason is StagingReason.MATERIALIZATION_FAILED
            for row in part.rows.rows
        }
        if not misfits:
            lineage.failures = 0 if found.accepted.rows else lineage.failures
            return
        rows = sorted({*found.accepted.rows, *misfits})
        most = self._decisions.rulings.circuit_opens_at
        lineage.failures, opened = failures_in_a_row(lineage.failures, rows, misfits, most=most)
        if opened:
            note = "values do not fit columns of the primary key or NOT NULL columns"
            self._decisions.pause(table, PauseReason.CIRCUIT_OPEN, note)

    def _memory(self, source_table: str) -> LineageMemory:
        memory = self._memories.get(source_table)
        if memory is None:
            memory = LineageMemory(source_table, self._decisions.history)
            self._memories[source_table] = memory
        return memory


def _none_of(told: AcceptedRows) -> AcceptedRows:
    return msgspec.structs.replace(told, rows=())


def _outcome_of(found: _Sorted) -> tuple[Outcome, str | None]:
    """What became of a batch; of one that was only set aside, with the reason."""
    if found.accepted.rows:
        return Outcome.ACCEPTED, None
    if found.staged:
        return Outcome.STAGED, found.staged[0].reason.value
    return Outcome.DUPLICATE, None


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
        journal_epoch=batch.journal_epoch,
        numbers=(batch.first_commit_seq, batch.last_commit_seq),
    )
