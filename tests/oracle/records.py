"""The rows of the tables the oracle answers with."""

from dataclasses import dataclass
from typing import NamedTuple

from tests.oracle.canonical import sha256_hex


@dataclass(frozen=True, slots=True)
class Event:
    """One landed message; a stream of them is in arrival order."""

    topic: str
    payload: bytes
    received_at_us: int


class RawBatch(NamedTuple):
    """Every message as it came."""

    topic: str
    device_id: str | None
    received_at: int
    payload: bytes


class RejectedBatch(NamedTuple):
    """A message that failed a check, with its bytes."""

    code: str
    json_path: str
    topic: str
    device_id: str | None
    source_table: str | None
    payload: bytes
    received_at: int


class RowChange(NamedTuple):
    """The one surviving row of a deduplication key."""

    device_id: str
    source_table: str
    journal_epoch: str
    source_pk_hash: str
    commit_seq: int
    op: str
    pk: str
    row: str | None
    schema_hash: str
    late: bool
    synthetic: bool
    batch_id: str
    row_index: int
    received_at: int
    day: str


class StagedRow(NamedTuple):
    """A row change or a row of telemetry that was decided and then set aside."""

    device_id: str
    source_table: str
    journal_epoch: str | None
    source_pk_hash: str | None
    commit_seq: int | None
    op: str | None
    pk: str | None
    row: str | None
    schema_hash: str
    late: bool | None
    synthetic: bool | None
    batch_id: str
    row_index: int
    received_at: int
    day: str
    staging_reason: str
    topic: str
    kind: str
    batch_seq: int | None = None
    row_id: str | None = None
    ts: int | None = None
    fields: str | None = None


class Review(NamedTuple):
    """A schema that a person has to look at."""

    device_id: str
    source_table: str
    schema_hash: str
    schema_class: str


class TelemetrySample(NamedTuple):
    """One row of an accepted telemetry batch."""

    device_id: str
    source_table: str
    batch_id: str
    batch_seq: int
    row_index: int
    row_id: str | None
    ts: int
    fields: str
    schema_hash: str
    received_at: int
    day: str


class SchemaObservation(NamedTuple):
    """A schema that a device spoke of."""

    device_id: str
    source_table: str
    schema_hash: str
    source: str
    columns: str | None
    is_new: bool
    observed_at: int | None
    received_at: int
    day: str


LONGEST_FIRST = 4096


def listed_first(content: str) -> str:
    """The content that stays, as a conflict lists it."""
    return content if len(content) <= LONGEST_FIRST else f"content sha256:{sha256_hex(content)}"


class KeyConflict(NamedTuple):
    """Other content that arrived under a known key, and how often."""

    kind: str
    device_id: str
    source_table: str
    key: str
    first: str
    other: str
    arrivals: int


class LedgerLine(NamedTuple):
    """What became of one message."""

    received_at: int
    topic: str
    device_id: str | None
    source_table: str | None
    kind: str | None
    batch_id: str | None
    payload_sha256: str
    outcome: str
    batch_seq: int | None = None
    code: str | None = None
    rows_received: int = 0
    rows_new: int = 0
    rows_duplicate: int = 0
    rows_conflict: int = 0
    rows_below_floor: int = 0
    rows_rejected: int = 0
    rows_staged: int = 0
    origin: str = "live"


class Datapoint(NamedTuple):
    """One observation: a double in the metric table, a text in the state table."""

    datapoint_id: str
    ts: int
    owner_kind: str
    owner_id: str
    component_id: str
    key: str
    instance: str
    value: float | str | None
    provenance: str
    source: str
    source_rule: str
    source_rule_version: int
    late: bool
    revision: int
    batch_id: str
    day: str


class QuarantinedDatapoint(NamedTuple):
    """An observation that does not fit the kind its column wants."""

    datapoint_id: str
    ts: int
    owner_kind: str
    owner_id: str
    component_id: str
    key: str
    instance: str
    value: float | str | None
    provenance: str
    source: str
    source_rule: str
    source_rule_version: int
    late: bool
    revision: int
    batch_id: str
    day: str
    kind: str
    reason: str


class CurrentValue(NamedTuple):
    """The newest observation of an owner's key and instance."""

    owner_kind: str
    owner_id: str
    key: str
    instance: str
    provenance: str
    kind: str
    value_double: float | None
    value_text: str | None
    ts: int
    source: str
    policy: str
