"""The record tables, as SQLAlchemy Core sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB

METADATA = MetaData()


def _moment(name: str, *, nullable: bool = True) -> Column[datetime]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


WAREHOUSE = Table(
    "warehouse",
    METADATA,
    Column("id", SmallInteger, primary_key=True),
    Column("warehouse_id", Text, nullable=False),
    Column("stale_after_h", Double, nullable=False),
    Column("rejections_known", Boolean, nullable=False, server_default="false"),
)
"""`rejections_known`: those that the tables held before `rejection` was made are in it too."""

DEVICE = Table(
    "device",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("topic_slug", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("org_id", Text),
    Column("project_id", Text),
    Column("fleet_id", Text),
    Column("firmware_version", Text),
    Column("auto", Boolean, nullable=False),
    _moment("registered_at", nullable=False),
    UniqueConstraint("topic_slug", "device_name"),
)

DEVICE_STATE = Table(
    "device_state",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("drain_id", BigInteger, nullable=False),
)

TABLE_SCHEMA = Table(
    "table_schema",
    METADATA,
    Column("schema_hash", Text, primary_key=True),
    Column("columns", Text, nullable=False),
)

SHELVED_SCHEMA = Table(
    "shelved_schema",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("schema_hash", Text, primary_key=True),
    Column("holds_from", BigInteger, nullable=False),
)

LINEAGE = Table(
    "lineage",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("served", Boolean, nullable=False),
    Column("instances", BigInteger, nullable=False, server_default="0"),
)
"""`instances` is how many of them have current values, or more: who needs to know counts them."""

LINEAGE_PAUSE = Table(
    "lineage_pause",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    _moment("since", nullable=False),
    Column("note", Text),
)
"""A lineage without a line here is active."""

STAGED_BACKLOG = Table(
    "staged_backlog",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("staging_reason", Text, primary_key=True),
    Column("schema_hash", Text, primary_key=True),
    Column("drain_id", BigInteger, primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("turn", ARRAY(BigInteger, as_tuple=True), nullable=False, server_default="{}"),
    Column("retry", Boolean, nullable=False, server_default="false"),
    Column("released_in", BigInteger),
    Column("missing", Boolean, nullable=False, server_default="false"),
)
"""What each drain has set aside; `released_in` is the drain that has materialized it since.

Releases follow `turn`: nothing for telemetry and whole messages, which are first, else the rank of
the epoch and the lowest `commit_seq`. `missing` was not found by a release, and waits for somebody
who asks for another attempt. Of whole messages the schema is not known: its hash is empty."""

STAGED_TOTAL = Table(
    "staged_total",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("staging_reason", Text, primary_key=True),
    Column("schema_hash", Text, primary_key=True),
    Column("sums", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("ready_sums", BigInteger, nullable=False),
    Column("ready_rows", BigInteger, nullable=False),
    Column("ready_bytes", BigInteger, nullable=False),
)
"""The sums of `staged_backlog` that were not released, added up: they follow in the same
transaction. What is `ready` waits for no wish to retry, but it may be held; a total of no sums has
no line."""

SEQUENCE_RESET = Table(
    "sequence_reset",
    METADATA,
    Column("reset_id", BigInteger, Identity(), nullable=False, unique=True),
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    _moment("requested_at", nullable=False),
)
"""The next drain of the device applies it."""

DRAIN = Table(
    "drain",
    METADATA,
    Column("drain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("day", Date, nullable=False),
    Column("origin", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("segments", Integer, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("note", Text),
    _moment("opened_at", nullable=False),
    _moment("sealed_at"),
    _moment("closed_at"),
)

DRAIN_SEAL = Table(
    "drain_seal",
    METADATA,
    Column("drain_id", BigInteger, ForeignKey("drain.drain_id"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

PAST_DRAINS = Table(
    "past_drains",
    METADATA,
    Column("day", Date, primary_key=True),
    Column("origin", Text, primary_key=True),
    Column("messages", BigInteger, nullable=False),
)

SEGMENT = Table(
    "segment",
    METADATA,
    Column("segment_id", Text, primary_key=True),
    Column("day", Date, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    _moment("first_received_at", nullable=False),
    _moment("last_received_at", nullable=False),
    _moment("registered_at", nullable=False),
    Column("drain_id", BigInteger, ForeignKey("drain.drain_id")),
    Column("origin", Text, nullable=False, server_default="live"),
)

LEDGER_TOTAL = Table(
    "ledger_total",
    METADATA,
    Column("drain_id", BigInteger, ForeignKey("drain.drain_id"), primary_key=True),
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("day", Date, nullable=False),
    Column("origin", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("rows_received", BigInteger, nullable=False),
    Column("rows_new", BigInteger, nullable=False),
    Column("rows_duplicate", BigInteger, nullable=False),
    Column("rows_conflict", BigInteger, nullable=False),
    Column("rows_below_floor", BigInteger, nullable=False),
    Column("rows_rejected", BigInteger, nullable=False),
    Column("rows_staged", BigInteger, nullable=False),
)

CURRENT_INSTANCE = Table(
    "current_instance",
    METADATA,
    Column("identity", Uuid(as_uuid=False), primary_key=True),
    Column("owner_kind", Text, nullable=False),
    Column("owner_id", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("instance", Text, nullable=False),
    _moment("oldest", nullable=False),
    _moment("newest", nullable=False),
    Column("key", ARRAY(Text), nullable=False),
    Column("kind", ARRAY(Text), nullable=False),
    Column("value_double", ARRAY(Double), nullable=False),
    Column("value_text", ARRAY(Text), nullable=False),
    Column("ts", ARRAY(DateTime(timezone=True)), nullable=False),
    Column("source", ARRAY(Text), nullable=False),
    Column("datapoint_id", ARRAY(Uuid(as_uuid=False)), nullable=False),
    Column("source_table", ARRAY(Text), nullable=False),
    Column("drain_id", ARRAY(BigInteger), nullable=False),
    Column("updated_at", ARRAY(DateTime(timezone=True)), nullable=False),
)
"""The values of one instance together: the arrays tell them side by side, by key. A family is what
keys have in common before their first dot. Keys and instances are as long as devices like, longer
than an index entry may be: the identity is a hash of them."""

COMPONENT = Table(
    "component",
    METADATA,
    Column("component_id", Text, primary_key=True),
    Column("auto", Boolean, nullable=False),
    _moment("created_at", nullable=False),
)

DATAPOINT_TYPE = Table(
    "datapoint_type",
    METADATA,
    Column("name_hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("auto", Boolean, nullable=False),
    _moment("created_at", nullable=False),
)

DERIVED_RUN = Table(
    "derived_run",
    METADATA,
    Column("asset", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("from_drain", BigInteger, nullable=False),
    Column("to_drain", BigInteger, nullable=False),
    _moment("opened_at", nullable=False),
    _moment("closed_at"),
)

DEVICE_TABLE_MOVE = Table(
    "device_table_move",
    METADATA,
    Column("move_id", BigInteger, Identity(), primary_key=True),
    Column("device_id", Text, nullable=False),
    Column("left_project", Text),
    Column("taken_up_by", BigInteger),
)


def _sequence() -> list[Column[Any]]:
    """What names one sequence of a device."""
    kinds = {"device_id": Text, "kind": Text, "name": Text, "era": BigInteger}
    return [Column(name, kind, primary_key=True) for name, kind in kinds.items()]


SEQUENCE_GAP = Table(
    "sequence_gap",
    METADATA,
    *_sequence(),
    Column("first_missing", BigInteger, primary_key=True),
    Column("last_missing", BigInteger, nullable=False),
    _moment("opened_at", nullable=False),
    Column("opened_in", BigInteger, nullable=False),
)

SEQUENCE_OVERFLOW = Table(
    "sequence_overflow",
    METADATA,
    *_sequence(),
    Column("numbers", Numeric, nullable=False),
)

SEQUENCE_REJECTION = Table(
    "sequence_rejection",
    METADATA,
    Column("rejection_id", Uuid(as_uuid=False), primary_key=True),
    Column("device_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("first_number", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    Column("code", Text, nullable=False),
    Column("source_table", Text, nullable=False),
    _moment("received_at", nullable=False),
    Column("era", BigInteger, nullable=False, server_default="0"),
)

API_TOKEN = Table(
    "api_token",
    METADATA,
    Column("token_hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    _moment("created_at", nullable=False),
    _moment("revoked_at"),
)

IDEMPOTENT_ANSWER = Table(
    "idempotent_answer",
    METADATA,
    Column("token_hash", Text, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("body_sha256", Text, nullable=False),
    Column("answer", Text, nullable=False),
    _moment("answered_at", nullable=False),
)

INTERNAL_LOG = Table(
    "internal_log",
    METADATA,
    Column("log_id", BigInteger, primary_key=True),
    _moment("at", nullable=False),
    Column("subject", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("drain_id", BigInteger),
)

EVENT = Table(
    "event",
    METADATA,
    Column("event_id", Uuid(as_uuid=False), primary_key=True),
    _moment("at", nullable=False),
    Column("event_type", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("owner_kind", Text, nullable=False),
    Column("owner_id", Text),
    Column("component_id", Text),
    Column("system_id", Text),
    Column("location_id", Text),
    Column("node_id", Text),
    Column("message", Text, nullable=False),
    Column("details", JSONB, nullable=False),
)

AUDIT_LOG = Table(
    "audit_log",
    METADATA,
    Column("audit_id", BigInteger, Sequence("audit_log_number"), primary_key=True),
    Column("at", DateTime(timezone=True), primary_key=True),
    Column("actor", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("old", JSONB(none_as_null=True)),
    Column("new", JSONB(none_as_null=True)),
)
"""In partitions by month; triggers refuse every change of what is written."""

SCHEMA_REVIEW = Table(
    "schema_review",
    METADATA,
    Column("review_id", BigInteger, Identity(), primary_key=True),
    Column("device_id", Text, nullable=False),
    Column("source_table", Text, nullable=False),
    Column("schema_hash", Text, nullable=False),
    Column("project_id", Text),
    Column("schema_class", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("action_version", Integer, nullable=False),
    Column("columns", Text),
    Column("seen_columns", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("firmware_version", Text, nullable=False),
    Column("first_received_at", BigInteger, nullable=False),
    Column("opened_by", BigInteger, nullable=False),
    _moment("opened_at", nullable=False),
    _moment("started_at"),
    _moment("decided_at"),
    Column("decided_by", Text),
    Column("note", Text),
    Column("actions", Text),
    Column("shared_from", BigInteger, ForeignKey("schema_review.review_id")),
)
"""JSON is kept as text: names of columns may hold U+0000, which `jsonb` cannot."""

SCHEMA_QUESTION = Table(
    "schema_question",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("schema_hash", Text, primary_key=True),
    Column("schema_class", Text, nullable=False),
    Column("columns", Text),
    Column("seen_columns", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("firmware_version", Text, nullable=False),
    Column("first_received_at", BigInteger, nullable=False),
    Column("opened_by", BigInteger, nullable=False),
)

SCHEMA_BINDING = Table(
    "schema_binding",
    METADATA,
    Column("scope_kind", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("schema_hash", Text, primary_key=True),
    Column("actions", Text),
    Column("holds_from", BigInteger, nullable=False),
    Column("holding", Boolean, nullable=False),
    Column("review_id", BigInteger, ForeignKey("schema_review.review_id")),
    _moment("bound_at", nullable=False),
)
"""`review_id` is null where a policy accepted the schema; `holding` keeps lineages paused."""

GOVERNANCE_POLICY = Table(
    "governance_policy",
    METADATA,
    Column("project_id", Text, primary_key=True),
    Column("source_table", Text, primary_key=True),
    Column("first_schema", Text),
    Column("allow_additive_continue", Boolean),
    Column("allow_auto_create_datapoints", Boolean),
    _moment("changed_at", nullable=False),
)
REJECTION = Table(
    "rejection",
    METADATA,
    Column("rejection_id", Uuid(as_uuid=False), primary_key=True),
    Column("code", Text, nullable=False),
    Column("json_path", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("source_table", Text, nullable=False),
    Column("device_id", Text, nullable=False),
    Column("firmware_version", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("segment_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    _moment("received_at", nullable=False),
    Column("drain_id", BigInteger, nullable=False),
    Column("day", Date, nullable=False),
    Column("payload_bytes", BigInteger, nullable=False),
    Column("first_code", Text, nullable=False),
    _moment("clock_at"),
    Column("clock_bytes", BigInteger),
    Column("state", Text, nullable=False),
    Column("note", Text),
    Column("replays", Integer, nullable=False),
    Column("last_outcome", Text),
    Column("last_drain_id", BigInteger),
    _moment("changed_at", nullable=False),
)
"""An unknown table or device is the empty text. What is wrong is told as the last look at it found;
`first_code` is what the first one found. `clock_at` and `clock_bytes` are the message's place on
its device's clock, null as long as it has none."""

REJECTION_REPLAY = Table(
    "rejection_replay",
    METADATA,
    Column(
        "rejection_id", Uuid(as_uuid=False), ForeignKey(REJECTION.c.rejection_id), primary_key=True
    ),
    Column("attempt", Integer, primary_key=True),
    _moment("requested_at", nullable=False),
    Column("requested_by", Text, nullable=False),
    _moment("received_at", nullable=False),
    Column("timed_anew", Boolean, nullable=False),
    Column("payload_bytes", BigInteger, nullable=False),
    Column("corrected", LargeBinary),
    Column("segment_id", Text),
    Column("position", BigInteger),
    Column("landed", Boolean, nullable=False),
    Column("drain_id", BigInteger),
    Column("outcome", Text),
    Column("code", Text),
)
"""`received_at` is what the replayed message carries; `corrected` are bytes to send instead of the
stored ones."""
