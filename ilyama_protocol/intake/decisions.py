"""What is decided of one device in a drain so far: its outcomes, its state, and what is asked.

Every kind of message is decided by its own module; they all write down here what they decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from ilyama_protocol.intake.conflicts import Conflict
from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.history import History, Need
from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_protocol.intake.outcomes import (
    Arrival,
    LedgerLine,
    ObservedSchema,
    Origin,
    Outcome,
    Outcomes,
    RejectedMessage,
    StagedMessage,
    StagedRows,
    StagedSamples,
)
from ilyama_protocol.intake.schema_intake import SchemaIntake
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.sequences import Island, Numbering, SequenceChange, changed
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.messages import Observation
from ilyama_protocol.rejections import Rejection

REPLAYS = (Origin.REJECTION, Origin.STAGED)
"""What is decided by these came before."""


class RefusedBatch(NamedTuple):
    """A rejected batch whose numbers are known, and the era that they are of."""

    rejected: RejectedMessage
    era: int


class BacklogPlace(NamedTuple):
    """A table of a device and its schema, why something of it was set aside.

    What is not known of a whole message is empty.
    """

    source_table: str
    reason: StagingReason
    schema_hash: str = ""


Turn: TypeAlias = tuple[int, ...]
"""When staged rows are released: nothing for telemetry and whole messages, which are first, else
the rank of the epoch and the lowest `commit_seq`."""


class PauseAsked(NamedTuple):
    """A table of a device that is paused from now on, with a word for the operator."""

    source_table: str
    reason: PauseReason
    note: str | None


class Decisions:
    """The decisions of one device, in arrival order.

    `before` is its state at the start of the drain. `history` is what was looked up for it; when
    nothing was and something is needed, only `needs` is of use afterwards.
    """

    def __init__(
        self,
        state: DeviceState,
        history: History | None,
        origin: Origin,
        *,
        rulings: SchemaRulings | None = None,
    ) -> None:
        self.state = state
        self.before = state.copy()
        self.origin = origin
        self.rulings = rulings or SchemaRulings()
        is_replay = origin is not Origin.LIVE
        self.schemas = SchemaIntake(state, self.rulings, self._list_schema, replayed=is_replay)
        self.history = history or History()
        self.is_told = history is not None
        self.outcomes = Outcomes()
        self.conflicts: Counter[Conflict] = Counter()
        self.conflicts_since: dict[Conflict, int] = {}
        self.keys: dict[str, DatapointKind] = {}
        self.pauses: list[PauseAsked] = []
        self.staged_rows: Counter[BacklogPlace] = Counter()
        self.staged_bytes: Counter[BacklogPlace] = Counter()
        self.turns: dict[BacklogPlace, Turn] = {}
        self.needs: list[Need] = []
        self._numbers: dict[Numbering, list[Island]] = {}
        self._numbered_at = 0
        self.refused: list[RefusedBatch] = []
        """They may explain a gap."""
        self.out_of_window = 0
        """Values of telemetry that are too old, or too far ahead, to give datapoints."""

    def release(self) -> Outcomes:
        """Hand over what was decided since the last release."""
        released, self.outcomes = self.outcomes, Outcomes()
        return released

    def _list_schema(self, schema: ObservedSchema) -> None:
        self.outcomes.schemas.append(schema)

    def observe(self, arrival: Arrival, seen: Observation) -> None:
        """Note a schema that a device has seen; what it says binds nothing."""
        lineage = self.state.lineages.get(seen.source_table)
        is_new = lineage is None or seen.schema_hash not in lineage.schemas
        self._list_schema(
            ObservedSchema(
                arrival,
                seen.source_table,
                seen.schema_hash,
                seen.schema_columns,
                is_new,
                seen.observed_at_us,
            )
        )
        self.account(arrival, Outcome.HANDLED, source_table=seen.source_table)

    def number(self, arrival: Arrival, numbering: Numbering, islands: list[Island]) -> None:
        """Note numbers of a sequence that were accepted."""
        self._numbers.setdefault(numbering, []).extend(islands)
        self._numbered_at = arrival.received_at

    def era_of(self, arrival: Arrival, source_table: str) -> int:
        """The era of a telemetry batch's number; of a replayed one, that in which it came."""
        lineage = self.state.telemetry(source_table)
        is_replayed = self.origin in REPLAYS
        return lineage.era_of(arrival.came_at) if is_replayed else lineage.era

    def close_sequences(self) -> list[SequenceChange]:
        """Make the accepted numbers part of the state, and say what they change about gaps."""
        changes = []
        for numbering, islands in self._numbers.items():
            span = self.state.span(numbering)
            grown, change = changed(numbering, islands, span, at=self._numbered_at)
            self.state.widen(numbering, grown)
            changes += [] if change is None else [change]
        self._numbers.clear()
        return changes

    def name_keys(self, points: Iterable[Points]) -> None:
        """Note the datapoint keys that came up, each with the kind it came up with first."""
        self.keys.update((p.key, p.kind) for p in points if p.key not in self.keys)

    def list_conflicts(self, arrival: Arrival, conflicts: Iterable[Conflict]) -> None:
        """List other contents under keys that were taken."""
        for conflict in conflicts:
            self.conflicts[conflict] += 1
            self.conflicts_since.setdefault(conflict, arrival.received_at)

    def reject(self, arrival: Arrival, rejection: Rejection) -> None:
        """Refuse a message, with the rule that it breaks."""
        rejected = RejectedMessage(arrival, rejection)
        self.outcomes.rejected.append(rejected)
        if rejection.numbers is not None and arrival.device_id is not None:
            is_numbered = rejection.journal_epoch is None and rejection.source_table is not None
            era = self.era_of(arrival, rejection.source_table or "") if is_numbered else 0
            self.refused.append(RefusedBatch(rejected, era))
        self.account(
            arrival,
            Outcome.REJECTED,
            source_table=rejection.source_table,
            batch_id=rejection.batch_id,
            batch_seq=rejection.batch_seq,
            code=rejection.code.value,
            rows_received=rejection.row_count,
            rows_rejected=rejection.row_count,
        )

    def pause(self, source_table: str, reason: PauseReason, note: str | None = None) -> None:
        """Pause a lineage from its next batch on."""
        self.rulings.pause(source_table, reason)
        self.pauses.append(PauseAsked(source_table, reason, note))

    def stage_message(self, staged: StagedMessage, *, rows: int) -> None:
        """Set a whole message aside, undecided."""
        self.outcomes.staged.append(staged)
        place = BacklogPlace(staged.source_table or "", staged.reason)
        self._add_to_backlog(place, rows, len(staged.arrival.message.payload))

    def stage_rows(self, staged: StagedRows) -> None:
        """Set decided rows aside."""
        self.outcomes.set_aside(staged)
        batch = staged.rows.batch
        place = BacklogPlace(batch.source_table, staged.reason, batch.schema_hash)
        turn = (self.state.rank(batch.journal_epoch), batch.first_commit_seq)
        self._add_to_backlog(place, len(staged.rows.rows), staged.bytes, turn)

    def stage_samples(self, staged: StagedSamples) -> None:
        """Set a decided telemetry batch aside."""
        self.outcomes.set_samples_aside(staged)
        batch = staged.samples.batch
        place = BacklogPlace(batch.source_table, staged.reason, batch.schema_hash)
        self._add_to_backlog(place, len(batch.ts_us), staged.bytes)

    def _add_to_backlog(self, place: BacklogPlace, rows: int, size: int, turn: Turn = ()) -> None:
        self.staged_rows[place] += rows
        self.staged_bytes[place] += size
        self.turns[place] = min(turn, self.turns.get(place, turn))

    def account(
        self,
        arrival: Arrival,
        outcome: Outcome,
        *,
        source_table: str | None = None,
        batch_id: str | None = None,
        batch_seq: int | None = None,
        code: str | None = None,
        **rows: int,
    ) -> None:
        """Write the one line that the ledger has of a message."""
        self.outcomes.ledger.append(
            LedgerLine(
                arrival,
                arrival.address.kind,
                outcome,
                source_table=source_table,
                batch_id=batch_id,
                batch_seq=batch_seq,
                code=code,
                **rows,
            )
        )
