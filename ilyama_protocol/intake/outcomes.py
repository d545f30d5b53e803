"""What a drain says of each message: the lines that become rows of the intake tables."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.intake.datapoints import SOURCE, DatapointKind, Points
from ilyama_protocol.intake.field_series import FieldSeries
from ilyama_protocol.intake.known_keys import KeyNumbers, KnownKeys
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.messages import RowBatch, TelemetryBatch
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import Address, MessageKind


class Outcome(StrEnum):
    """What became of a message."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    STAGED = "staged"
    KEPT = "kept"
    HANDLED = "handled"


class Origin(StrEnum):
    """Why a message was decided; only live ones count as received."""

    LIVE = "live"
    DAY = "day"
    REJECTION = "rejection"
    STAGED = "staged"


class Message(msgspec.Struct, frozen=True):
    """A landed message, in the words of its segment."""

    segment_id: str
    position: int
    topic: str
    payload: bytes
    landed_at: int
    qos: int = 1
    user_properties: dict[str, str] = {}
    rejection_id: str | None = None
    """The rejection that this message replays."""
    timed_anew: bool = False
    """Whether a replayed message has no place on its device's clock and needs a new one."""
    arrived_at: int | None = None
    """The place on the clock that it had when it first came; None where that is its place still."""


class Arrival(msgspec.Struct, frozen=True):
    """A message with the device it comes from and its place on that device's clock."""

    message: Message
    address: Address
    device_id: str | None
    received_at: int
    payload_sha256: str
    firmware_version: str

    @property
    def came_at(self) -> int:
        """When the message first came, which decides what it is older than."""
        arrived_at = self.message.arrived_at
        return self.received_at if arrived_at is None else arrived_at


class LedgerLine(msgspec.Struct, frozen=True):
    """The account of one message."""

    arrival: Arrival
    kind: MessageKind | None
    outcome: Outcome
    source_table: str | None = None
    batch_id: str | None = None
    batch_seq: int | None = None
    code: str | None = None
    rows_received: int = 0
    rows_new: int = 0
    rows_duplicate: int = 0
    rows_conflict: int = 0
    rows_below_floor: int = 0
    rows_rejected: int = 0
    rows_staged: int = 0


class RejectedMessage(msgspec.Struct, frozen=True):
    """A message that broke a rule, with the rule."""

    arrival: Arrival
    rejection: Rejection

    @property
    def rejection_id(self) -> str:
        """The rejection's name: a UUIDv8 of the message's place, the same in every replay."""
        if self.arrival.message.rejection_id is not None:
            return self.arrival.message.rejection_id
        place = f"{self.arrival.message.segment_id}/{self.arrival.message.position}"
        number = int.from_bytes(sha256(place.encode()).digest()[:16])
        number = number & ~(0xF << 76) | 0x8 << 76
        return str(UUID(int=number & ~(0b11 << 62) | 0b10 << 62))


class StagedMessage(msgspec.Struct, frozen=True):
    """A message that could not be decided, with the reason."""

    arrival: Arrival
    reason: StagingReason
    error: str
    source_table: str | None


class DecidedRows(msgspec.Struct, frozen=True):
    """Rows of one batch that were decided before: what is stored of them, read back."""

    arrival: Arrival
    batch: RowBatch
    rows: Sequence[int]
    late: set[int]


class DecidedSamples(msgspec.Struct, frozen=True):
    """A telemetry batch that was decided before: what is stored of it, read back."""

    arrival: Arrival
    batch: TelemetryBatch


class ObservedSchema(msgspec.Struct, frozen=True):
    """A schema that a device spoke of, in an observation or with a batch.

    It is new when no batch of the table had told the columns of its hash before.
    """

    arrival: Arrival
    source_table: str
    schema_hash: str
    columns: tuple[SchemaColumn, ...] | None
    is_new: bool
    observed_at: int | None = None


class AcceptedRows(msgspec.Struct, frozen=True):
    """The rows that one batch adds, with their datapoints."""

    arrival: Arrival
    batch: RowBatch
    rows: Sequence[int]
    late: set[int]
    keys: KnownKeys
    key_numbers: KeyNumbers
    points: list[Points]


class StagedRows(msgspec.Struct, frozen=True):
    """Rows of one batch that were decided and then set aside; they have no datapoints yet."""

    rows: AcceptedRows
    reason: StagingReason
    error: str | None = None

    @property
    def bytes(self) -> int:
        """Their share of the payload; of rows that were read back, what is left of it."""
        told, batch = self.rows, self.rows.batch
        payload = len(told.arrival.message.payload)
        if payload:
            return payload * len(told.rows) // len(batch.op)
        return sum(len(batch.pk_text[i]) + len(batch.row_text[i] or "") for i in told.rows)


class AcceptedSamples(msgspec.Struct, frozen=True):
    """The rows of a telemetry batch, with those of their datapoints that are new."""

    arrival: Arrival
    batch: TelemetryBatch
    series: FieldSeries
    points: list[Points]

    @property
    def moments(self) -> npt.NDArray[np.int64]:
        """The ts of every row."""
        return np.frombuffer(self.batch.ts_us, np.int64)


class StagedSamples(msgspec.Struct, frozen=True):
    """A telemetry batch that was decided and then set aside; it has no datapoints yet."""

    samples: AcceptedSamples
    reason: StagingReason
    error: str | None = None

    @property
    def bytes(self) -> int:
        """The size of its payload; of one that was read back, what is left of it."""
        payload = len(self.samples.arrival.message.payload)
        return payload or sum(map(len, self.samples.batch.fields_text))


class CurrentValue(msgspec.Struct, frozen=True, gc=False):
    """The newest datapoint of a key at an instance that this drain has seen."""

    kind: DatapointKind
    value: float | str | None
    ts: int
    series: int
    source_table: str
    source: str = SOURCE

    def outdoes(self, other: CurrentValue) -> bool:
        """Whether this is current rather than another; at one moment, sources and kinds rank."""
        if self.ts != other.ts:
            return self.ts > other.ts
        return (self.source, self.kind.value) < (other.source, other.kind.value)


CurrentValues = dict[str, dict[str, CurrentValue]]
"""Current values of one device, by datapoint key and instance."""


def join_current(standing: CurrentValues, others: CurrentValues) -> None:
    """Take in what is current rather than the values that stand."""
    for key, of_key in others.items():
        values = standing.setdefault(key, {})
        for instance, value in of_key.items():
            if instance not in values or value.outdoes(values[instance]):
                values[instance] = value


_LISTS = ("arrivals", "ledger", "rejected", "staged", "accepted", "samples", "staged_rows")


class Outcomes(msgspec.Struct):
    """What was decided of some messages."""

    arrivals: list[Arrival] = []
    ledger: list[LedgerLine] = []
    rejected: list[RejectedMessage] = []
    staged: list[StagedMessage] = []
    accepted: list[AcceptedRows] = []
    staged_rows: list[StagedRows] = []
    staged_samples: list[StagedSamples] = []
    samples: list[AcceptedSamples] = []
    schemas: list[ObservedSchema] = []
    rows: int = 0

    @property
    def size(self) -> int:
        """How much there is to write down: messages and rows."""
        return len(self.arrivals) + self.rows

    def accept(self, accepted: AcceptedRows) -> None:
        """Take in the rows that a batch adds."""
        self.accepted.append(accepted)
        self.rows += len(accepted.rows)

    def set_aside(self, staged: StagedRows) -> None:
        """Take in rows of a batch that are staged."""
        self.staged_rows.append(staged)
        self.rows += len(staged.rows.rows)

    def set_samples_aside(self, staged: StagedSamples) -> None:
        """Take in a telemetry batch that is staged."""
        self.staged_samples.append(staged)
        self.rows += len(staged.samples.batch.ts_us)

    def accept_samples(self, accepted: AcceptedSamples) -> None:
        """Take in the rows of a telemetry batch."""
        self.samples.append(accepted)
        self.rows += len(accepted.batch.ts_us)

    def extend(self, others: Outcomes) -> None:
        """Take in what was decided of other messages."""
        for name in (
            "arrivals",
            "ledger",
            "rejected",
            "staged",
            "accepted",
            "samples",
            "schemas",
            "staged_rows",
            "staged_samples",
        ):
            getattr(self, name).extend(getattr(others, name))
        self.rows += others.rows
