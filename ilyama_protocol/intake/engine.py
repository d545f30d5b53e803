"""The intake engine: the messages of one device, in arrival order, become decisions.

It is pure: (state before the drain, messages, looked-up history) → (outcomes, state after). Live
traffic, replays and tests all run this code; it knows no clock, no files and no Spark.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from ilyama_protocol.intake.datapoints import (
    DatapointKind,
    affinities_of,
    datapoints_of,
)
from ilyama_protocol.intake.dedup import Conflict, LineageMemory, RowsDecision, decide_rows
from ilyama_protocol.intake.digests import Digests
from ilyama_protocol.intake.history import (
    BatchNeed,
    History,
    KnownPayload,
    may_meet_stored_rows,
    stored_after,
)
from ilyama_protocol.intake.known_keys import KeyNumbers, KnownKeys, RowHashes
from ilyama_protocol.intake.newest_points import NewestPoints
from ilyama_protocol.intake.outcomes import (
    AcceptedRows,
    Arrival,
    CurrentValues,
    LedgerLine,
    Message,
    Outcome,
    Outcomes,
    RejectedMessage,
    StagedMessage,
)
from ilyama_protocol.intake.state import BoundSchema, DeviceState
from ilyama_protocol.limits import DEFAULT_LIMITS, Limits
from ilyama_protocol.messages import Acknowledgement, RowBatch
from ilyama_protocol.rejections import Rejection, RejectionCode
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_protocol.validation import Verdict, validate

ENGINE_ERROR = "engine_error"
UNKNOWN_FIRMWARE = "unknown"


class Device(msgspec.Struct, frozen=True):
    """What the registry says of the sender of a message; `device_id` None: not registered."""

    device_id: str | None
    firmware_version: str = UNKNOWN_FIRMWARE


class IntakeEngine:
    """Decides the messages of one device, one after another."""

    def __init__(
        self,
        device: Device,
        state: DeviceState,
        *,
        history: History | None = None,
        limits: Limits = DEFAULT_LIMITS,
        inspect: Callable[[Message], None] | None = None,
    ) -> None:
        self.state = state
        self.outcomes = Outcomes()
        self.conflicts: Counter[Conflict] = Counter()
        self.conflicts_since: dict[Conflict, int] = {}
        self.keys: dict[str, DatapointKind] = {}
        self.needs: list[BatchNeed] = []
        self._device = device
        self._before = state.copy()
        self._told = history is not None
        self._history = history or History()
        self._limits = limits
        self._inspect = inspect
        self._memories: dict[str, LineageMemory] = {}
        self._payloads: dict[str, KnownPayload] = dict(self._history.payloads)
        self._keys = KnownKeys(device.device_id or "")
        self._newest = NewestPoints(self._keys)
        self._digests = Digests()

    def decide(self, message: Message) -> None:
        """Decide the next message of the device.

        When history is needed and was not given, only `needs` is of use afterwards.
        """
        arrival = self._arrive(message)
        try:
            self._decide(arrival)
        except Exception:
            self._stage(arrival, traceback.format_exc())

    def stage(self, message: Message, error: str) -> None:
        """Set the next message aside undecided: the way out for a device that breaks the engine."""
        self._stage(self._arrive(message), error)

    def release(self) -> Outcomes:
        """Hand over what was decided since the last release."""
        released, self.outcomes = self.outcomes, Outcomes()
        return released

    def state_after(self, drain_id: int) -> DeviceState:
        """The state to begin the next drain with."""
        self.state.mark(drain_id, self._before)
        return self.state

    @property
    def current(self) -> CurrentValues:
        """The newest values among all that was decided."""
        return self._newest.values()

    def _stage(self, arrival: Arrival, error: str) -> None:
        table, batch_id, rows = self._described(arrival)
        self.outcomes.staged.append(StagedMessage(arrival, ENGINE_ERROR, error, table))
        self._account(
            arrival,
            Outcome.STAGED,
            source_table=table,
            batch_id=batch_id,
            rows_received=rows,
            rows_staged=rows,
        )

    def _arrive(self, message: Message) -> Arrival:
        received_at = message.landed_at
        if self._device.device_id is not None:
            received_at = self.state.receive(message.landed_at, len(message.payload))
        arrival = Arrival(
            message,
            parse_topic(message.topic),
            self._device.device_id,
            received_at,
            self._digests.of(message.payload),
            message.user_properties.get("firmware_version", self._device.firmware_version),
        )
        self.outcomes.arrivals.append(arrival)
        return arrival

    def _decide(self, arrival: Arrival) -> None:
        if self._inspect is not None:
            self._inspect(arrival.message)
        if arrival.address.kind is MessageKind.DEVICE:
            self._account(arrival, Outcome.KEPT)
        elif (known := self._known_payload(arrival)) is not None:
            self._repeat(arrival, known)
        else:
            self._follow(arrival, self._validated(arrival))

    def _validated(self, arrival: Arrival) -> Verdict:
        return validate(
            arrival.address.kind,
            arrival.message.payload,
            registered=arrival.device_id is not None,
            limits=self._limits,
        )

    def _described(self, arrival: Arrival) -> tuple[str | None, str | None, int]:
        """What can be said of a message that is set aside: its table, batch id and rows."""
        try:
            verdict = self._validated(arrival)
        except Exception:
            return None, None, 0
        match verdict:
            case Rejection():
                return verdict.source_table, verdict.batch_id, verdict.row_count
            case RowBatch():
                return verdict.source_table, verdict.batch_id, len(verdict.op)
            case _:
                return None, None, 0

    def _follow(self, arrival: Arrival, verdict: Verdict) -> None:
        match verdict:
            case Rejection():
                self._reject(arrival, verdict)
            case RowBatch():
                self._take_rows(arrival, verdict)
            case Acknowledgement():
                self._account(arrival, Outcome.KEPT)
            case _:
                self._account(arrival, Outcome.KEPT, source_table=verdict.source_table)

    def _known_payload(self, arrival: Arrival) -> KnownPayload | None:
        if arrival.address.kind is not MessageKind.ROWS:
            return None
        known = self._payloads.get(arrival.payload_sha256)
        if known is None or self._has_floors(known.source_table):
            return None
        return known

    def _repeat(self, arrival: Arrival, known: KnownPayload) -> None:
        self._account(
            arrival,
            Outcome.DUPLICATE,
            source_table=known.source_table,
            batch_id=known.batch_id,
            rows_received=known.rows,
            rows_duplicate=known.rows,
        )

    def _reject(self, arrival: Arrival, rejection: Rejection) -> None:
        self.outcomes.rejected.append(RejectedMessage(arrival, rejection))
        self._account(
            arrival,
            Outcome.REJECTED,
            source_table=rejection.source_table,
            batch_id=rejection.batch_id,
            code=rejection.code.value,
            rows_received=rejection.row_count,
            rows_rejected=rejection.row_count,
        )

    def _take_rows(self, arrival: Arrival, batch: RowBatch) -> None:
        numbers = self._keys.numbers(batch.pk_text)
        hashes = self._keys.hashes_of(numbers)
        if not self._told and may_meet_stored_rows(self._before, batch):
            self.needs.append(self._need(arrival, batch, hashes))
        if self.needs:
            return
        decision = decide_rows(self.state, self._memory(batch.source_table), batch, hashes)
        if decision.below_floor == len(batch.op):
            self._reject(arrival, _below_floor(batch))
            return
        schema = self._schema_in_force(arrival, batch)
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
            stored_after(self._before, batch),
        )

    def _has_floors(self, source_table: str) -> bool:
        lineage = self.state.lineages.get(source_table)
        return lineage is not None and bool(lineage.floors)

    def _schema_in_force(self, arrival: Arrival, batch: RowBatch) -> BoundSchema | None:
        lineage = self.state.lineages.get(batch.source_table)
        bound = None if lineage is None else lineage.schemas.get(batch.schema_hash)
        if bound is None and batch.schema_columns is not None:
            bound = BoundSchema(arrival.received_at, batch.schema_columns)
        return bound

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
        arrival, batch = accepted.arrival, accepted.batch
        lineage = self.state.lineage(batch.source_table)
        if schema is not None:
            lineage.schemas.setdefault(batch.schema_hash, schema)
        if decision.new:
            rank = self.state.epochs.setdefault(batch.journal_epoch, len(self.state.epochs))
            watermark = lineage.watermarks.get(batch.journal_epoch, -1)
            highest = _highest_commit_seq(batch, decision.new)
            lineage.watermarks[batch.journal_epoch] = max(watermark, highest)
            self._memory(batch.source_table).note(batch, hashes, decision.new, rank)
            self.outcomes.accept(accepted)
            self.keys.update((p.key, p.kind) for p in accepted.points if p.key not in self.keys)
            self._newest.advance(accepted)
        self.conflicts.update(decision.conflicts)
        for conflict in decision.conflicts:
            self.conflicts_since.setdefault(conflict, arrival.received_at)
        self._account_rows(arrival, batch, decision)

    def _account_rows(self, arrival: Arrival, batch: RowBatch, decision: RowsDecision) -> None:
        rows = len(batch.op)
        if not decision.conflicts and not decision.below_floor:
            self._payloads[arrival.payload_sha256] = KnownPayload(
                arrival.payload_sha256, batch.source_table, batch.batch_id, rows
            )
        self._account(
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
            memory = self._memories[source_table] = LineageMemory(source_table, self._history)
        return memory

    def _account(
        self,
        arrival: Arrival,
        outcome: Outcome,
        *,
        source_table: str | None = None,
        batch_id: str | None = None,
        code: str | None = None,
        **rows: int,
    ) -> None:
        self.outcomes.ledger.append(
            LedgerLine(
                arrival,
                arrival.address.kind,
                outcome,
                source_table=source_table,
                batch_id=batch_id,
                code=code,
                **rows,
            )
        )


def _highest_commit_seq(batch: RowBatch, rows: Sequence[int]) -> int:
    if len(rows) == len(batch.op):
        return batch.last_commit_seq
    return max(map(batch.commit_seq.__getitem__, rows))


def _below_floor(batch: RowBatch) -> Rejection:
    return Rejection(
        RejectionCode.BELOW_FLOOR,
        "$.rows",
        "Every row of this batch is older than what retention has already dropped; drop it.",
        source_table=batch.source_table,
        row_count=len(batch.op),
        batch_id=batch.batch_id,
    )
