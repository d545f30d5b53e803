"""What the platform remembers of a device between drains.

One small document per device: its clock, the order of its journal epochs, and per lineage the
watermarks, floors and schemas. Nothing per batch and nothing per primary key.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.intake.sequences import Numbering, SequenceKind
from ilyama_protocol.limits import INT64_MAX, INT64_MIN

PAYLOAD_BYTES_PER_ROW = 40
"""No row of a batch can be written in fewer bytes, so its rows never outrun this clock."""


MOST_MARKS = 16
"""How many drains are remembered of an epoch: enough to find the last minutes, hours and days."""


EPOCHS_WELL_MARKED = 2
"""Of epochs before these hardly anything comes any more: two marks will do."""


MOST_UNACCEPTED = 16
"""Of schemas that nobody accepted, a lineage remembers so many: those announced last."""


NO_TS = INT64_MIN
"""Before every moment."""


_ANY_NUMBER = (0, INT64_MAX)


class BoundSchema(msgspec.Struct, array_like=True):
    """The columns behind a schema hash, and the received_at from which they hold."""

    holds_from: int
    columns: tuple[SchemaColumn, ...]


class Mark(NamedTuple):
    """Where a watermark stood up to a drain: rows above it were stored by later drains."""

    watermark: int
    drain_id: int


class BatchMark(NamedTuple):
    """The highest telemetry batch id up to a drain: higher ones came in later drains."""

    batch_id: str
    drain_id: int


class TelemetryState(msgspec.Struct, omit_defaults=True):
    """What is remembered of the telemetry of one source table.

    Numbers of batches are compared within an era; an operator may begin a new one, and with it
    the numbers. Drains up to `era_after` belong to the eras before; later ones may still replay
    what was received then, and `era_starts` tells to which era that belongs.
    """

    batch_seq: int = -1
    """The highest number accepted or staged in this era."""
    lowest_seq: int = -1
    highest_seq: int = -1
    """The numbers between which there may be gaps, as of the end of the last drain."""
    max_ts: int = NO_TS
    """The latest ts of a row that may have given datapoints."""
    era: int = 0
    era_after: int = 0
    era_starts: list[int] = []
    """The received_at from which each of the last eras counts, as far as it was kept."""
    marks: list[Mark] = []
    """Where `max_ts` stood up to drains."""

    def stored_after(self, ts: int) -> int:
        """The last drain of those that surely stored no datapoint of a moment or later."""
        return max((mark.drain_id for mark in self.marks if mark.watermark < ts), default=0)

    def mark(self, drain_id: int, before: TelemetryState) -> None:
        """Note that a drain has raised the latest ts, and from where."""
        if before.max_ts != self.max_ts:
            self.marks = _thinned([*self.marks, Mark(before.max_ts, drain_id - 1)])

    def begin_era(self, last_drain: int, *, since: int) -> None:
        """Let the numbers of batches begin anew after a drain, for what is received since."""
        self.era, self.era_after = self.era + 1, last_drain
        self.era_starts = [*self.era_starts, since]
        self.batch_seq = self.lowest_seq = self.highest_seq = -1

    def era_of(self, received_at: int) -> int:
        """The era to which a batch belongs that was received at a moment."""
        return self.era - sum(received_at < start for start in self.era_starts)


class LineageState(msgspec.Struct, omit_defaults=True):
    """What is remembered of one source table of a device."""

    watermarks: dict[str, int] = {}
    floors: dict[str, int] = {}
    schemas: dict[str, BoundSchema] = {}
    marks: dict[str, list[Mark]] = {}
    telemetry: TelemetryState = msgspec.field(default_factory=TelemetryState)
    failures: int = 0
    """How many rows in a row, the last ones, could not be materialized."""
    accepted: dict[str, Binding] | None = None
    """What becomes of the columns of each schema that was accepted, by hash, in order.

    None: nothing was ruled on yet, as in states from before there were rulings."""
    first_schema: str | None = None
    """The hash that the first batch came with, whatever became of it."""

    def accepted_schemas(self) -> dict[str, Binding]:
        """The schemas that were accepted; before there were rulings, all that were bound."""
        if self.accepted is not None:
            return self.accepted
        return {schema_hash: Binding(b.holds_from) for schema_hash, b in self.schemas.items()}

    def may_have_shown(self, schema_hash: str) -> bool:
        """Whether rows of a schema may have been materialized; of old states nobody knows."""
        if self.accepted is None:
            return self != LineageState()
        return schema_hash in self.accepted

    def schema_at(self, schema_hash: str, received_at: int) -> BoundSchema | None:
        """The columns behind a hash as they were bound at a moment; None while they were not."""
        bound = self.schemas.get(schema_hash)
        return bound if bound is not None and bound.holds_from <= received_at else None

    def shelve(self, approved: Container[str]) -> dict[str, BoundSchema]:
        """Forget what was announced first of too many unaccepted schemas, and tell what that is.

        One that was approved is about to be accepted, and so may be the first of the lineage.
        """
        stays = {*(self.accepted or ()), self.first_schema}
        others = [h for h in self.schemas if h not in stays and h not in approved]
        return {name: self.schemas.pop(name) for name in others[:-MOST_UNACCEPTED]}

    def stored_after(self, epoch: str, commit_seq: int) -> int:
        """The last drain of those that surely stored no row of an epoch from a number on."""
        marks = self.marks.get(epoch, ())
        return max((mark.drain_id for mark in marks if mark.watermark < commit_seq), default=0)

    def mark(self, drain_id: int, before: LineageState) -> None:
        """Note which watermarks a drain has raised, and from where."""
        for epoch, watermark in self.watermarks.items():
            stood = before.watermarks.get(epoch, -1)
            if stood != watermark:
                marks = [*self.marks.get(epoch, ()), Mark(stood, drain_id - 1)]
                self.marks[epoch] = _thinned(marks)
        for epoch in list(self.marks)[:-EPOCHS_WELL_MARKED]:
            first, *others = self.marks[epoch]
            self.marks[epoch] = [first, *others[-1:]]
        self.telemetry.mark(drain_id, before.telemetry)


class DeviceState(msgspec.Struct, omit_defaults=True):
    """What is remembered of one device."""

    next_received_at: int | None = None
    epochs: dict[str, int] = {}
    """The rank of each epoch: when the message came with which it was first accepted.

    Older builds counted from 0 instead. What they ranked stays, and comes before all others."""
    lineages: dict[str, LineageState] = {}
    batch_id: str = ""
    """The highest id of a telemetry batch that was accepted or staged; ids compare as texts."""
    batch_marks: list[BatchMark] = []
    spans: dict[str, tuple[int, int]] = {}
    """The lowest and the highest commit_seq accepted in each epoch, over all tables."""

    def receive(self, landed_at: int, payload_bytes: int) -> int:
        """Advance the device's clock past a message and return its effective received_at."""
        received_at = landed_at
        if self.next_received_at is not None:
            received_at = max(landed_at, self.next_received_at)
        self.next_received_at = received_at + 1 + payload_bytes // PAYLOAD_BYTES_PER_ROW
        return received_at

    def begin_era(self, source_table: str, last_drain: int) -> None:
        """Let the numbers of a table's telemetry begin anew with what the device sends next."""
        since = self.next_received_at or 0
        self.lineage(source_table).telemetry.begin_era(last_drain, since=since)

    def lineage(self, source_table: str) -> LineageState:
        """The state of a lineage, created on first sight."""
        return self.lineages.setdefault(source_table, LineageState())

    def rank(self, epoch: str, came_at: int = INT64_MAX) -> int:
        """The epoch's place in the order of first arrivals; an unseen one comes now, or last."""
        return self.epochs.get(epoch, came_at)

    @property
    def newest_rank(self) -> int:
        """The rank of the newest epoch, before every other when there is none."""
        return max(self.epochs.values(), default=INT64_MIN)

    def mark(self, drain_id: int, before: DeviceState) -> None:
        """Note what a drain has raised, and from where."""
        for table, lineage in self.lineages.items():
            lineage.mark(drain_id, before.lineages.get(table, LineageState()))
        if before.batch_id != self.batch_id:
            mark = BatchMark(before.batch_id, drain_id - 1)
            self.batch_marks = _thinned([*self.batch_marks, mark])

    def batches_after(self, batch_id: str) -> int:
        """The last drain of those that surely accepted no telemetry batch of an id."""
        marks = self.batch_marks
        return max((mark.drain_id for mark in marks if mark.batch_id < batch_id), default=0)

    def telemetry(self, source_table: str) -> TelemetryState:
        """What is remembered of a table's telemetry, to be read only."""
        lineage = self.lineages.get(source_table)
        return TelemetryState() if lineage is None else lineage.telemetry

    def span(self, numbering: Numbering) -> tuple[int, int] | None:
        """The lowest and the highest accepted number of a sequence; None before the first.

        Those of an earlier era are forgotten: what comes of it only closes gaps.
        """
        if numbering.kind is SequenceKind.ROWS:
            return self.spans.get(numbering.name)
        lineage = self.telemetry(numbering.name)
        if numbering.era < lineage.era:
            return _ANY_NUMBER
        return None if lineage.lowest_seq < 0 else (lineage.lowest_seq, lineage.highest_seq)

    def widen(self, numbering: Numbering, span: tuple[int, int]) -> None:
        """Let a sequence reach from a number to another."""
        if numbering.kind is SequenceKind.ROWS:
            self.spans[numbering.name] = span
        elif numbering.era == (lineage := self.lineage(numbering.name).telemetry).era:
            lineage.lowest_seq, lineage.highest_seq = span

    def copy(self) -> DeviceState:
        """An independent copy, so that a decision can be thrown away."""
        return decode_state(encode_state(self))


_AnyMark = TypeVar("_AnyMark")


def _thinned(marks: Sequence[_AnyMark]) -> list[_AnyMark]:
    """The first mark, the newest ones, and between them ever fewer the older they are."""
    if len(marks) <= MOST_MARKS:
        return list(marks)
    half = len(marks) // 2
    return [marks[0], *marks[2:half:2], *marks[half:]]


_decoder = msgspec.json.Decoder(DeviceState)
_encoder = msgspec.json.Encoder()


def encode_state(state: DeviceState) -> bytes:
    """The state as it is stored."""
    return _encoder.encode(state)


def decode_state(data: bytes) -> DeviceState:
    """The state as it was stored."""
    return _decoder.decode(data)
