"""The contracts of the Delta tables: columns, meanings and constraints, in one place."""

from __future__ import annotations

import pyarrow as pa

from ilyama_assets.checks.rules import LINEAGE_RULE, OWNER_RULE
from ilyama_resources.delta.data_files import TableColumn, TableContract

TEXT = pa.string()
LONG = pa.int64()
DOUBLE = pa.float64()
FLAG = pa.bool_()
BYTES = pa.binary()
MOMENT = pa.timestamp("us", tz="UTC")
DAY = pa.date32()

_SEGMENT = TableColumn("segment_id", TEXT, "landed file the message came in")
_POSITION = TableColumn("position", LONG, "place of the message in its segment")
_TOPIC = TableColumn("topic", TEXT, "MQTT topic as published")
_DEVICE = TableColumn("device_id", TEXT, "device, by its topic; null when it is not a known one")
_TABLE = TableColumn("source_table", TEXT, "table on the device")
_RECEIVED = TableColumn("received_at", MOMENT, "platform's clock, strictly increasing per device")
_DRAIN = TableColumn("drain_id", LONG, "drain that wrote the row")
_DAY = TableColumn("day", DAY, "UTC day of received_at; the partition")
_BATCH = TableColumn("batch_id", TEXT, "batch the row came in")
_SCHEMA = TableColumn("schema_hash", TEXT, "fingerprint of the schema the device named")
_PAYLOAD = TableColumn(
    "payload", BYTES, "the message, byte for byte", skipping=False, repeats=False
)

RAW_BATCHES = TableContract(
    "raw_batches",
    "Every message that landed, byte for byte.",
    (
        _SEGMENT,
        _POSITION,
        _TOPIC,
        _DEVICE,
        _RECEIVED,
        TableColumn("landed_at", MOMENT, "platform's clock when the message landed"),
        TableColumn("qos", LONG, "MQTT quality of service"),
        TableColumn("user_properties", TEXT, "MQTT user properties as JSON", skipping=False),
        TableColumn("payload_sha256", TEXT, "hash of the payload", skipping=False, repeats=False),
        TableColumn("payload_bytes", LONG, "size of the payload"),
        _PAYLOAD,
        _DRAIN,
        _DAY,
    ),
)

REJECTED_BATCHES = TableContract(
    "rejected_batches",
    "Messages that broke a rule, with the rule, a sentence that helps, and their bytes.",
    (
        TableColumn("rejection_id", TEXT, "name of the rejection, the same in every replay"),
        TableColumn("code", TEXT, "rule that was broken"),
        TableColumn("json_path", TEXT, "first offending place", skipping=False),
        TableColumn("message", TEXT, "what is wrong, for a firmware developer", skipping=False),
        TableColumn("action", TEXT, "what the device should do: fix, split, drop or upgrade"),
        TableColumn("validator_version", TEXT, "version of the rules"),
        _TOPIC,
        _DEVICE,
        _TABLE,
        TableColumn("firmware_version", TEXT, "firmware of the device, or unknown"),
        _PAYLOAD,
        _SEGMENT,
        _POSITION,
        _RECEIVED,
        _DRAIN,
        _DAY,
    ),
)

_EPOCH = TableColumn("journal_epoch", TEXT, "journal of the device that numbered the commit")
_PK_HASH = TableColumn("source_pk_hash", TEXT, "SHA-256 of the canonical primary key")
_COMMIT = TableColumn("commit_seq", LONG, "number of the commit within its epoch")
_OP = TableColumn("op", TEXT, "insert, update or delete")
_PK = TableColumn("pk", TEXT, "primary key as sent", skipping=False)
_ROW = TableColumn(
    "row", TEXT, "whole row as sent; null for a delete", skipping=False, repeats=False
)
_LATE = TableColumn("late", FLAG, "a newer change of this primary key was accepted before it")
_SYNTHETIC = TableColumn("synthetic", FLAG, "made by the platform, not sent by the device")
_ROW_INDEX = TableColumn("row_index", LONG, "place of the row in its batch")

_CHANGE = (_EPOCH, _PK_HASH, _COMMIT, _OP, _PK, _ROW, _SCHEMA, _LATE, _SYNTHETIC)

ROW_CHANGES = TableContract(
    "row_changes",
    "Row changes of device tables: exactly one per device, table, epoch, primary key and commit.",
    (
        _DEVICE,
        _TABLE,
        *_CHANGE,
        _BATCH,
        _SEGMENT,
        _POSITION,
        _ROW_INDEX,
        _RECEIVED,
        _DRAIN,
        _DAY,
    ),
)

TELEMETRY_SAMPLES = TableContract(
    "telemetry_samples",
    "Telemetry of device tables, row by row as it was sent, whatever the devices' clocks said.",
    (
        _DEVICE,
        _TABLE,
        TableColumn("batch_id", TEXT, "batch the row came in; a device uses an id once"),
        TableColumn("batch_seq", LONG, "number of the batch, rising within its table"),
        TableColumn("row_index", LONG, "place of the row in its batch"),
        TableColumn("row_id", TEXT, "the device's own id of the row", repeats=False),
        TableColumn("ts", MOMENT, "moment the row speaks of, by the device's clock"),
        TableColumn("fields", TEXT, "fields of the row as sent", skipping=False, repeats=False),
        _SCHEMA,
        _SEGMENT,
        _POSITION,
        _RECEIVED,
        _DRAIN,
        _DAY,
    ),
)

SCHEMA_OBSERVATIONS = TableContract(
    "schema_observations",
    "Schemas that devices spoke of: in observations, and with the first batch that told columns.",
    (
        _DEVICE,
        _TABLE,
        _SCHEMA,
        TableColumn("source", TEXT, "observe, rows or telemetry: the message that spoke of it"),
        TableColumn(
            "columns",
            TEXT,
            "its columns as canonical JSON, by name; null when none hash to it",
            skipping=False,
        ),
        TableColumn("is_new", FLAG, "no batch of the table had told this hash's columns before"),
        TableColumn("observed_at", MOMENT, "moment the device saw it; null when a batch told it"),
        TableColumn("firmware_version", TEXT, "firmware of the device, or unknown"),
        _SEGMENT,
        _POSITION,
        _RECEIVED,
        _DRAIN,
        _DAY,
    ),
)

KEY_CONFLICTS = TableContract(
    "key_conflicts",
    "Other content under a key already taken: a cloned device, or a counter that was reset.",
    (
        TableColumn("kind", TEXT, "row, telemetry batch or datapoint"),
        _DEVICE,
        _TABLE,
        TableColumn("key", TEXT, "key that was taken, as canonical JSON", skipping=False),
        TableColumn(
            "first", TEXT, "content that stays; its hash beyond 4,096 characters", skipping=False
        ),
        TableColumn("other", TEXT, "content that came later", skipping=False),
        TableColumn("arrivals", LONG, "how often the other content came in this drain"),
        _DRAIN,
        _DAY,
    ),
)

BATCH_LEDGER = TableContract(
    "batch_ledger",
    "One line per message: what became of it and of its rows. Its sums balance.",
    (
        _SEGMENT,
        _POSITION,
        _DRAIN,
        _DAY,
        TableColumn("origin", TEXT, "live, or the replay that decided it again"),
        _RECEIVED,
        _TOPIC,
        _DEVICE,
        _TABLE,
        TableColumn("kind", TEXT, "rows, telemetry, observe, ack, request or device"),
        _BATCH,
        TableColumn("batch_seq", LONG, "number of a telemetry batch"),
        TableColumn("payload_sha256", TEXT, "hash of the payload"),
        TableColumn("outcome", TEXT, "accepted, duplicate, rejected, staged, kept or handled"),
        TableColumn("code", TEXT, "rule that a rejected message broke"),
        TableColumn("rows_received", LONG, "rows in the message"),
        TableColumn("rows_new", LONG, "rows that were stored"),
        TableColumn("rows_duplicate", LONG, "rows that were known"),
        TableColumn("rows_conflict", LONG, "known rows that came with other content"),
        TableColumn("rows_below_floor", LONG, "known rows that retention has dropped since"),
        TableColumn("rows_rejected", LONG, "rows of a rejected message"),
        TableColumn("rows_staged", LONG, "rows set aside"),
    ),
)

_STAGED_AS_SENT = (
    TableColumn("row_id", TEXT, "id of a telemetry row, when sent", skipping=False),
    TableColumn("ts", MOMENT, "moment of a telemetry row"),
    TableColumn("fields", TEXT, "fields of a telemetry row as sent", skipping=False, repeats=False),
    TableColumn("user_properties", TEXT, "MQTT user properties as JSON", skipping=False),
    TableColumn("payload_sha256", TEXT, "hash of the payload", skipping=False),
)

STAGED_ROWS = TableContract(
    "staged_rows",
    "Rows that were decided and then set aside, with the reason, as long as their lineage is "
    "paused; and whole messages that broke the engine. Nothing accepted is ever dropped.",
    (
        TableColumn("staging_reason", TEXT, "why it was set aside"),
        TableColumn("error", TEXT, "what went wrong", skipping=False),
        _TOPIC,
        _DEVICE,
        _TABLE,
        _BATCH,
        _PAYLOAD,
        _SEGMENT,
        _POSITION,
        _RECEIVED,
        _DRAIN,
        _DAY,
        TableColumn("kind", TEXT, "rows or telemetry; of a whole message, what it is"),
        *_CHANGE,
        _ROW_INDEX,
        TableColumn("batch_seq", LONG, "number of a telemetry batch"),
        *_STAGED_AS_SENT,
        TableColumn("rejection_id", TEXT, "rejection that a whole message replays", skipping=False),
        TableColumn("arrived_at", MOMENT, "when a whole message first came that is timed anew"),
    ),
)

_TS = TableColumn("ts", MOMENT, "moment the value holds from")
_POINT_DAY = TableColumn("day", DAY, "UTC day of ts; the partition")


def _datapoint_columns(*values: TableColumn) -> tuple[TableColumn, ...]:
    return (
        TableColumn(
            "datapoint_id", TEXT, "name of the datapoint, the same in every replay", repeats=False
        ),
        _TS,
        TableColumn("owner_kind", TEXT, "component, system, location, node or global"),
        TableColumn("owner_id", TEXT, "owner; a device is a component"),
        TableColumn("key", TEXT, "what is measured"),
        TableColumn("instance", TEXT, "which one of several; the primary key of a row"),
        *values,
        TableColumn("provenance", TEXT, "observed, calculated or intended"),
        TableColumn("source", TEXT, "where the value comes from"),
        TableColumn("source_rule", TEXT, "rule that made it; none for an intended value"),
        TableColumn("source_rule_version", LONG, "version of that rule"),
        TableColumn("late", FLAG, "a newer value was there before it; never becomes current"),
        TableColumn("component_id", TEXT, "owner, when it is a component"),
        TableColumn("system_id", TEXT, "owner, when it is a system"),
        TableColumn("location_id", TEXT, "owner, when it is a location"),
        TableColumn("node_id", TEXT, "owner, when it is a node"),
        TableColumn("event_id", TEXT, "command that intended it; none for other values"),
        TableColumn("correlation_id", TEXT, "user property of the message"),
        TableColumn("caused_by_event_id", TEXT, "user property of the message"),
        TableColumn("revision", LONG, "0, or the number of a correction"),
        TableColumn("supersedes", TEXT, "datapoint that a correction replaces"),
        _SEGMENT,
        _BATCH,
        _DRAIN,
        _POINT_DAY,
    )


DATAPOINT_RULES = {"lineage_rule": LINEAGE_RULE, "owner_rule": OWNER_RULE}

METRIC_DATAPOINT = TableContract(
    "metric_datapoint",
    "Numbers, each with the rule and the batch it came from.",
    _datapoint_columns(
        TableColumn("value", DOUBLE, "the number; null when the column was null"),
        TableColumn("unit", TEXT, "its unit"),
    ),
    DATAPOINT_RULES,
)

STATE_DATAPOINT = TableContract(
    "state_datapoint",
    "Texts, flags and nested values, each with the rule and the batch it came from.",
    _datapoint_columns(
        TableColumn("value", TEXT, "the text; null when the column was null", skipping=False)
    ),
    DATAPOINT_RULES,
)

QUARANTINED_DATAPOINTS = TableContract(
    "quarantined_datapoints",
    "Values that do not fit their column or break a CHECK rule, set apart before the write.",
    _datapoint_columns(
        TableColumn("value", TEXT, "the value as canonical JSON", skipping=False),
        TableColumn("kind", TEXT, "table it was meant for: metric or state"),
        TableColumn("reason", TEXT, "why it was set apart"),
    ),
)

CURRENT_VALUE = TableContract(
    "current_value",
    "The newest value of every key at every instance, with what it rests on.",
    (
        TableColumn("owner_kind", TEXT, "component, system, location, node or global"),
        TableColumn("owner_id", TEXT, "owner; a device is a component"),
        TableColumn("key", TEXT, "what is measured"),
        TableColumn("instance", TEXT, "which one of several"),
        TableColumn("provenance", TEXT, "observed, calculated or intended"),
        TableColumn("kind", TEXT, "metric or state"),
        TableColumn("value_double", DOUBLE, "value of a metric"),
        TableColumn("value_text", TEXT, "value of a state", skipping=False),
        _TS,
        TableColumn("source", TEXT, "where the value comes from"),
        TableColumn("policy", TEXT, "how several sources become one value"),
        TableColumn("contributors", TEXT, "the sources behind it, as JSON", skipping=False),
        TableColumn("state", TEXT, "fresh, stale or conflicting"),
        TableColumn("updated_at", MOMENT, "when the value was written here"),
    ),
)

SEQUENCE_GAPS = TableContract(
    "sequence_gaps",
    "Numbers that never came: exact for telemetry, a hint for the commits of a journal.",
    (
        _DEVICE,
        TableColumn("kind", TEXT, "telemetry: numbers of batches; rows: numbers of commits"),
        TableColumn("source_table", TEXT, "table whose batches are numbered; null for commits"),
        TableColumn("journal_epoch", TEXT, "journal whose commits are numbered; null for batches"),
        TableColumn("era", LONG, "how often an operator let the numbers begin anew"),
        TableColumn("first_missing", LONG, "first number of the gap"),
        TableColumn("last_missing", LONG, "last number of the gap"),
        TableColumn("missing", LONG, "how many numbers are missing"),
        TableColumn("opened_at", MOMENT, "received_at of the message that showed the gap"),
        TableColumn("opened_in", LONG, "drain that showed it"),
        TableColumn("rejections", LONG, "rejected batches that had numbers of it"),
        TableColumn("rejection_ids", TEXT, "some of them, as JSON", skipping=False),
    ),
)

INTAKE_TABLES = (
    RAW_BATCHES,
    REJECTED_BATCHES,
    BATCH_LEDGER,
    KEY_CONFLICTS,
    ROW_CHANGES,
    TELEMETRY_SAMPLES,
    SCHEMA_OBSERVATIONS,
    STAGED_ROWS,
    METRIC_DATAPOINT,
    STATE_DATAPOINT,
    QUARANTINED_DATAPOINTS,
)
TABLES = {contract.name: contract for contract in (*INTAKE_TABLES, SEQUENCE_GAPS, CURRENT_VALUE)}
