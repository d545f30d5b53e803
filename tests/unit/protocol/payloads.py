"""Valid payloads of every kind, to be bent by the tests."""

import json
from typing import Any

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import Verdict, validate

Document = dict[str, Any]

ABSENT: Any = object()
BATCH_ID = "019693e0-7c1a-7b3e-9f00-0123456789ab"
EPOCH = "019693d0-0000-7000-8000-00000000000a"
UUID4 = "9b2f7c1e-3d4a-4c5b-8e6f-0123456789ab"
HASH = "a3" * 32
COLUMNS = (
    SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True),
    SchemaColumn("mode", Affinity.TEXT, pk_ordinal=0, not_null=False),
)


def change(commit_seq: Any = 101, op: Any = "update", **members: Any) -> Document:
    row = {"id": 1, "mode": "cooling"} if op != "delete" else None
    return _with({"commit_seq": commit_seq, "op": op, "pk": {"id": 1}, "row": row}, members)


def sample(ts: Any = "2026-04-28T09:00:01Z", **members: Any) -> Document:
    return _with({"ts": ts, "row_id": UUID4, "fields": {"value_c": 22.1}}, members)


def columns_of(*columns: SchemaColumn, table_name: str = "device_state") -> Document:
    return {
        "table_name": table_name,
        "columns": [
            {
                "name": column.name,
                "decl_type_affinity": column.decl_type_affinity,
                "pk_ordinal": column.pk_ordinal,
                "not_null": column.not_null,
            }
            for column in columns
        ],
    }


def document(kind: MessageKind, **members: Any) -> Document:
    return _with(_DOCUMENTS[kind](), members)


def described(**members: Any) -> Document:
    """A row batch that declares its columns."""
    declared = {
        "schema_hash": schema_hash("device_state", COLUMNS),
        "schema_columns": columns_of(*COLUMNS),
    }
    return document(MessageKind.ROWS, **{**declared, **members})


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def verdict_on(kind: MessageKind, value: Document, *, registered: bool = True) -> Verdict:
    return validate(kind, encoded(value), registered=registered)


def code_of(verdict: Verdict) -> str | None:
    return verdict.code.value if isinstance(verdict, Rejection) else None


def path_of(verdict: Verdict) -> str | None:
    return verdict.json_path if isinstance(verdict, Rejection) else None


def _with(base: Document, members: Document) -> Document:
    merged = {**base, **members}
    return {name: value for name, value in merged.items() if value is not ABSENT}


def _rows() -> Document:
    return {
        "format_version": 1,
        "capture_strategy": "sqlite_row_batch_v1",
        "batch_id": BATCH_ID,
        "journal_epoch": EPOCH,
        "source_table": "device_state",
        "schema_hash": HASH,
        "first_commit_seq": 101,
        "last_commit_seq": 103,
        "rows": [change(101), change(103, "delete")],
    }


def _telemetry() -> Document:
    return {
        "format_version": 1,
        "capture_strategy": "sqlite_telemetry_batch_v1",
        "batch_id": BATCH_ID,
        "batch_seq": 42,
        "source_table": "temps",
        "schema_hash": HASH,
        "cursor_start_ts": "2026-04-28T09:00:01Z",
        "cursor_end_ts": "2026-04-28T09:00:10Z",
        "row_count": 2,
        "rows": [sample(), sample("2026-04-28T09:00:10Z")],
    }


def _observation() -> Document:
    return {
        "format_version": 1,
        "source_table": "device_state",
        "schema_hash": HASH,
        "observed_at": "2026-04-28T09:00:00.000000001Z",
    }


def _acknowledgement() -> Document:
    return {"format_version": 1, "control_id": "c-1"}


def _finalize() -> Document:
    return {
        "format_version": 1,
        "request_kind": "finalize",
        "source_table": "device_state",
        "batch_id": BATCH_ID,
        "segment_kind": "payload_spill",
    }


_DOCUMENTS = {
    MessageKind.ROWS: _rows,
    MessageKind.TELEMETRY: _telemetry,
    MessageKind.OBSERVE: _observation,
    MessageKind.ACK: _acknowledgement,
    MessageKind.REQUEST: _finalize,
}
