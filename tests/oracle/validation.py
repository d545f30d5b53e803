"""The checks 0 to 18, one function each, in the order that decides the code."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.oracle.canonical import canonical_json, schema_hash
from tests.oracle.instants import instant
from tests.oracle.predicates import (
    is_array,
    is_count,
    is_hash,
    is_huge,
    is_instant,
    is_integer,
    is_not_a_double,
    is_object_or_absent,
    is_scalar,
    is_text,
    is_uuid,
    is_uuid7,
    legal_table,
)
from tests.oracle.scanner import NotJson, SourceObject, scan

MAX_PAYLOAD_BYTES = 524_288
MAX_ROWS = 4_096
AFFINITIES = ("INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC")
TENANT_FIELDS = ("device_id", "org_id", "project_id", "fleet_id")
STRATEGIES = {"rows": "sqlite_row_batch_v1", "telemetry": "sqlite_telemetry_batch_v1"}
SEGMENT_KINDS = ("bootstrap_snapshot", "payload_spill")

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class Message:
    """What the checks look at; the document is there from check 2 on."""

    kind: str | None
    payload: bytes
    registered: bool
    document: SourceObject


class Check(NamedTuple):
    """One rule: who it is for, and how to find the path of its first offending place."""

    number: int
    code: str
    kinds: tuple[str, ...]
    offence: Callable[[Message], str | None]


class Verdict(NamedTuple):
    """The first check that failed, or none."""

    document: SourceObject
    failed: int | None = None
    code: str | None = None
    json_path: str = "$"

    @property
    def is_readable(self) -> bool:
        """Whether table and rows can be told: the checks 0 to 3 passed."""
        return self.failed is None or self.failed > 3

    @property
    def has_batch_id(self) -> bool:
        """Whether the id of a batch can be told: the checks 0 to 8 passed."""
        return self.failed is None or self.failed > 8

    def sends(self, name: str, fits: Callable[[object], bool]) -> bool:
        """Whether a member can be told, whichever later check failed."""
        return self.is_readable and fits(self.document.get(name))


def judge(kind: str | None, payload: bytes, *, registered: bool) -> Verdict:
    """Run the checks over one message."""
    message = Message(kind, payload, registered, SourceObject())
    for check in CHECKS:
        path = check.offence(message) if kind is None or kind in check.kinds else None
        if path is not None:
            return Verdict(message.document, check.number, check.code, path)
    return Verdict(message.document)


def _step(name: str) -> str:
    return f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{canonical_json(name)}]"


def _first(value: object, is_bad: Callable[[Any], bool]) -> str | None:
    """The path of the first bad scalar at or below a value, in the order of the text."""
    if isinstance(value, dict):
        for name, member in value.items():
            below = _first(member, is_bad)
            if below is not None:
                return _step(name) + below
    elif isinstance(value, list):
        for index, item in enumerate(value):
            below = _first(item, is_bad)
            if below is not None:
                return f"[{index}]{below}"
    elif is_bad(value):
        return ""
    return None


def _unknown_topic(message: Message) -> str | None:
    return "$" if message.kind is None else None


def _too_large(message: Message) -> str | None:
    return "$" if len(message.payload) > MAX_PAYLOAD_BYTES else None


def _not_json(message: Message) -> str | None:
    try:
        message.document = scan(message.payload)
    except NotJson:
        return "$"
    return None


def _bad_number(message: Message) -> str | None:
    below = _first(message.document, is_not_a_double)
    return None if below is None else "$" + below


def _tenant_field(message: Message) -> str | None:
    return next((f"$.{name}" for name in message.document if name in TENANT_FIELDS), None)


def _bad_version(message: Message) -> str | None:
    version = message.document.get("format_version")
    return None if is_integer(version) and version >= 1 else "$.format_version"


def _other_version(message: Message) -> str | None:
    return None if message.document["format_version"] == 1 else "$.format_version"


def _other_strategy(message: Message) -> str | None:
    expected = STRATEGIES[str(message.kind)]
    return None if message.document.get("capture_strategy") == expected else "$.capture_strategy"


def _bad_batch_id(message: Message) -> str | None:
    return None if is_uuid7(message.document.get("batch_id")) else "$.batch_id"


def _unregistered(message: Message) -> str | None:
    return None if message.registered else "$"


_Rule = tuple[str, Callable[[object], bool]]
_SCHEMA_AND_ROWS: tuple[_Rule, ...] = (
    ("schema_columns", is_object_or_absent),
    ("rows", is_array),
)
ENVELOPES: dict[str, tuple[_Rule, ...]] = {
    "rows": (
        ("source_table", legal_table),
        ("journal_epoch", is_uuid7),
        ("schema_hash", is_hash),
        ("first_commit_seq", is_count),
        ("last_commit_seq", is_count),
        *_SCHEMA_AND_ROWS,
    ),
    "telemetry": (
        ("source_table", legal_table),
        ("schema_hash", is_hash),
        ("batch_seq", is_count),
        ("row_count", is_count),
        ("cursor_start_ts", is_instant),
        ("cursor_end_ts", is_instant),
        *_SCHEMA_AND_ROWS,
    ),
    "observe": (
        ("source_table", legal_table),
        ("schema_hash", is_hash),
        ("observed_at", is_instant),
        ("schema_columns", is_object_or_absent),
    ),
    "ack": (("control_id", is_text),),
    "request": (
        ("request_kind", lambda value: value in ("url_request", "finalize")),
        ("source_table", legal_table),
    ),
}
FINALIZE: tuple[_Rule, ...] = (
    ("batch_id", is_uuid7),
    ("segment_kind", lambda value: value in SEGMENT_KINDS),
)


def _bad_envelope(message: Message) -> str | None:
    document = message.document
    is_finalize = message.kind == "request" and document.get("request_kind") == "finalize"
    rules = ENVELOPES[str(message.kind)] + (FINALIZE if is_finalize else ())
    return next((f"$.{name}" for name, fits in rules if not fits(document.get(name))), None)


def _too_many_rows(message: Message) -> str | None:
    return "$.rows" if len(message.document["rows"]) > MAX_ROWS else None


def _no_rows(message: Message) -> str | None:
    return None if message.document["rows"] else "$.rows"


def has_own_columns(document: SourceObject) -> bool:
    """Whether a message names columns that are well formed and hash to its `schema_hash`."""
    message = Message("observe", b"", True, document)
    return document.get("schema_columns") is not None and _schema_mismatch(message) is None


def _schema_mismatch(message: Message) -> str | None:
    schema = message.document.get("schema_columns")
    if schema is None:
        return None
    if schema.get("table_name") != message.document["source_table"]:
        return "$.schema_columns.table_name"
    columns = schema.get("columns")
    if not isinstance(columns, list):
        return "$.schema_columns.columns"
    below = _bad_columns(columns)
    if below is not None:
        return "$.schema_columns.columns" + below
    same = schema_hash(schema["table_name"], columns) == message.document["schema_hash"]
    return None if same else "$.schema_hash"


def _bad_columns(columns: list[Any]) -> str | None:
    names: list[str] = []
    for index, column in enumerate(columns):
        below = _bad_column(column)
        if below is None and column["name"] in names:
            below = ".name"
        if below is not None:
            return f"[{index}]{below}"
        names.append(column["name"])
    return None


def _bad_column(column: object) -> str | None:
    if not isinstance(column, dict):
        return ""
    if not isinstance(column.get("name"), str):
        return ".name"
    if column.get("decl_type_affinity") not in AFFINITIES:
        return ".decl_type_affinity"
    if not is_count(column.get("pk_ordinal")):
        return ".pk_ordinal"
    return None if isinstance(column.get("not_null"), bool) else ".not_null"


def _bad_row(message: Message) -> str | None:
    return _first_row(message, _row_offence)


def _first_row(message: Message, offence: Callable[[Any], str | None]) -> str | None:
    for index, row in enumerate(message.document["rows"]):
        below = offence(row)
        if below is not None:
            return f"$.rows[{index}]{below}"
    return None


def _row_offence(row: Any) -> str | None:
    if not isinstance(row, dict):
        return ""
    if row.get("op") not in ("insert", "update", "delete"):
        return ".op"
    below = _bad_scalars(row, "pk")
    if below is not None:
        return below
    wanted = row.get("row") is None if row["op"] == "delete" else isinstance(row.get("row"), dict)
    if not wanted:
        return ".row"
    if not is_count(row.get("commit_seq")):
        return ".commit_seq"
    return _huge_member(row, "pk") or _huge_member(row, "row")


def _bad_scalars(row: dict[str, Any], name: str) -> str | None:
    values = row.get(name)
    if not isinstance(values, dict) or not values:
        return f".{name}"
    nested = (member for member, value in values.items() if not is_scalar(value))
    return next((f".{name}{_step(member)}" for member in nested), None)


def _huge_member(row: dict[str, Any], name: str) -> str | None:
    below = _first(row.get(name), is_huge)
    return None if below is None else f".{name}{below}"


def _other_range(message: Message) -> str | None:
    document = message.document
    numbers = [row["commit_seq"] for row in document["rows"]]
    if document["first_commit_seq"] != min(numbers):
        return "$.first_commit_seq"
    return None if document["last_commit_seq"] == max(numbers) else "$.last_commit_seq"


def _other_row_count(message: Message) -> str | None:
    same = message.document["row_count"] == len(message.document["rows"])
    return None if same else "$.row_count"


def _bad_sample(message: Message) -> str | None:
    return _first_row(message, _sample_offence)


def _sample_offence(row: Any) -> str | None:
    if not isinstance(row, dict):
        return ""
    if not is_instant(row.get("ts")):
        return ".ts"
    return _bad_scalars(row, "fields") or _huge_member(row, "fields")


def _bad_row_id(message: Message) -> str | None:
    return _first_row(message, _row_id_offence)


def _row_id_offence(row: Any) -> str | None:
    row_id = row.get("row_id")
    return None if row_id is None or is_uuid(row_id) else ".row_id"


def _other_cursors(message: Message) -> str | None:
    document = message.document
    instants = [found for row in document["rows"] if (found := instant(row["ts"])) is not None]
    if instant(document["cursor_start_ts"]) != min(instants):
        return "$.cursor_start_ts"
    return None if instant(document["cursor_end_ts"]) == max(instants) else "$.cursor_end_ts"


_ROWS = ("rows",)
_TELEMETRY = ("telemetry",)
_BATCHES = (*_ROWS, *_TELEMETRY)
_ALL = (*_BATCHES, "observe", "ack", "request")

CHECKS = (
    Check(0, "unknown_topic", _ALL, _unknown_topic),
    Check(1, "payload_too_large", _ALL, _too_large),
    Check(2, "invalid_json", _ALL, _not_json),
    Check(3, "invalid_number_encoding", _ALL, _bad_number),
    Check(4, "envelope_unstripped_tenant_fields", _ALL, _tenant_field),
    Check(5, "invalid_format_version", _ALL, _bad_version),
    Check(6, "unsupported_format_version", _ALL, _other_version),
    Check(7, "unsupported_capture_strategy", _BATCHES, _other_strategy),
    Check(8, "invalid_batch_id", _BATCHES, _bad_batch_id),
    Check(9, "unregistered_device", _ALL, _unregistered),
    Check(10, "invalid_envelope", _ALL, _bad_envelope),
    Check(11, "batch_too_many_rows", _BATCHES, _too_many_rows),
    Check(11, "empty_batch", _BATCHES, _no_rows),
    Check(12, "schema_hash_mismatch", _BATCHES, _schema_mismatch),
    Check(13, "invalid_row", _ROWS, _bad_row),
    Check(14, "commit_seq_range_mismatch", _ROWS, _other_range),
    Check(15, "row_count_mismatch", _TELEMETRY, _other_row_count),
    Check(16, "invalid_row", _TELEMETRY, _bad_sample),
    Check(17, "invalid_row_id", _TELEMETRY, _bad_row_id),
    Check(18, "cursor_timestamp_mismatch", _TELEMETRY, _other_cursors),
)
