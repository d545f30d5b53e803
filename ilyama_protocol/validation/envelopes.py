"""Checks 4 to 11: the members of the envelope."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

from ilyama_protocol.identifiers import is_uuid7
from ilyama_protocol.jsontext import path_to, shown
from ilyama_protocol.limits import INT64_MAX, MAX_TABLE_NAME
from ilyama_protocol.messages import RequestKind, SegmentKind
from ilyama_protocol.timestamps import parse_instant
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation.cases import Case, Fault

TENANT_FIELDS = frozenset({"device_id", "org_id", "project_id", "fleet_id"})
FORMAT_VERSION = 1
CAPTURE_STRATEGIES: dict[MessageKind | None, str] = {
    MessageKind.ROWS: "sqlite_row_batch_v1",
    MessageKind.TELEMETRY: "sqlite_telemetry_batch_v1",
}
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SCHEMA_HASH = re.compile(r"[0-9a-f]{64}")


class Member(NamedTuple):
    """A member of the envelope: its name, what it must be, and the words for it."""

    name: str
    is_legal: Callable[[Any], bool]
    must_be: str


def is_integer(value: Any) -> TypeGuard[int]:
    """Tell whether a value is an integer; a boolean is none."""
    return type(value) is int


def is_sequence_number(value: Any) -> TypeGuard[int]:
    """Tell whether a value is an int64 that is not negative."""
    return is_integer(value) and 0 <= value <= INT64_MAX


def is_table_name(value: Any) -> TypeGuard[str]:
    """Tell whether a value may name a table."""
    return (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_TABLE_NAME
        and _CONTROL_CHARACTER.search(value) is None
    )


def is_schema_hash(value: Any) -> bool:
    """Tell whether a value looks like a schema fingerprint."""
    return isinstance(value, str) and _SCHEMA_HASH.fullmatch(value) is not None


def is_time_ordered_id(value: Any) -> TypeGuard[str]:
    """Tell whether a value is a UUIDv7."""
    return isinstance(value, str) and is_uuid7(value)


def is_timestamp(value: Any) -> bool:
    """Tell whether a value is an RFC 3339 timestamp."""
    return isinstance(value, str) and parse_instant(value) is not None


def is_object_or_absent(value: Any) -> bool:
    """Tell whether the value of an optional member is an object or stands for its absence."""
    return value is None or isinstance(value, dict)


def _is_one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _sequence_number(name: str) -> Member:
    return Member(name, is_sequence_number, "an integer from 0 to 9223372036854775807")


def _timestamp(name: str) -> Member:
    return Member(name, is_timestamp, 'an RFC 3339 timestamp such as "2026-04-28T09:00:00Z"')


def _time_ordered_id(name: str) -> Member:
    return Member(name, is_time_ordered_id, "a UUIDv7")


_SOURCE_TABLE = Member(
    "source_table",
    is_table_name,
    f"a text of 1 to {MAX_TABLE_NAME} characters without control characters",
)
_HASH = Member("schema_hash", is_schema_hash, "64 lower-case hex digits")
_COLUMNS = Member("schema_columns", is_object_or_absent, "an object, or left out")
_ROWS = Member("rows", _is_array, "an array")
_REQUEST = (
    Member("request_kind", _is_one_of(*RequestKind), '"url_request" or "finalize"'),
    _SOURCE_TABLE,
)
_FINALIZE = (
    *_REQUEST,
    _time_ordered_id("batch_id"),
    Member("segment_kind", _is_one_of(*SegmentKind), '"bootstrap_snapshot" or "payload_spill"'),
)
MEMBERS: dict[MessageKind | None, tuple[Member, ...]] = {
    MessageKind.ROWS: (
        _SOURCE_TABLE,
        _time_ordered_id("journal_epoch"),
        _HASH,
        _sequence_number("first_commit_seq"),
        _sequence_number("last_commit_seq"),
        _COLUMNS,
        _ROWS,
    ),
    MessageKind.TELEMETRY: (
        _SOURCE_TABLE,
        _HASH,
        _sequence_number("batch_seq"),
        _sequence_number("row_count"),
        _timestamp("cursor_start_ts"),
        _timestamp("cursor_end_ts"),
        _COLUMNS,
        _ROWS,
    ),
    MessageKind.OBSERVE: (_SOURCE_TABLE, _HASH, _timestamp("observed_at"), _COLUMNS),
    MessageKind.ACK: (Member("control_id", _is_text, "the control_id of the control, a text"),),
    MessageKind.REQUEST: _REQUEST,
}


def tenant_field(case: Case) -> Fault | None:
    """Check 4: the payload names no tenant."""
    if TENANT_FIELDS.isdisjoint(case.document):
        return None
    name = next(name for name in case.document if name in TENANT_FIELDS)
    return Fault(path_to("$", name), f"remove {name}; the topic alone says who sends")


def invalid_format_version(case: Case) -> Fault | None:
    """Check 5: `format_version` is an integer from 1."""
    version = case.document.get("format_version")
    if is_integer(version) and version >= 1:
        return None
    return _fault(case, "format_version", f"the integer {FORMAT_VERSION}")


def unsupported_format_version(case: Case) -> Fault | None:
    """Check 6: `format_version` is one that this platform speaks."""
    if case.document["format_version"] == FORMAT_VERSION:
        return None
    return Fault(
        "$.format_version",
        f"this platform speaks format_version {FORMAT_VERSION} only; use an agent that sends it",
    )


def unsupported_capture_strategy(case: Case) -> Fault | None:
    """Check 7: `capture_strategy` is that of the topic."""
    wanted = CAPTURE_STRATEGIES[case.kind]
    if case.document.get("capture_strategy") == wanted:
        return None
    return _fault(case, "capture_strategy", f"{shown(wanted)} on this topic")


def invalid_batch_id(case: Case) -> Fault | None:
    """Check 8: `batch_id` is a UUIDv7."""
    if is_time_ordered_id(case.document.get("batch_id")):
        return None
    return _fault(case, "batch_id", "a UUIDv7")


def unregistered_device(case: Case) -> Fault | None:
    """Check 9: the registry knows the device."""
    if case.registered:
        return None
    return Fault("$", "no device is registered under this topic; register it, then send again")


def invalid_envelope(case: Case) -> Fault | None:
    """Check 10: the remaining members are present and of the right type."""
    document = case.document
    for member in _members(case):
        if not member.is_legal(document.get(member.name)):
            return _fault(case, member.name, member.must_be)
    return None


def too_many_rows(case: Case) -> Fault | None:
    """Check 11: a batch has at most so many rows."""
    count, limit = len(case.rows), case.limits.batch_max_rows
    if count <= limit:
        return None
    return Fault("$.rows", f"the batch has {count} rows, {limit} are allowed; split it")


def empty_batch(case: Case) -> Fault | None:
    """Check 11: a batch has rows at all."""
    if case.rows:
        return None
    return Fault("$.rows", "the batch has no rows; send a batch only when there are some")


def _members(case: Case) -> tuple[Member, ...]:
    if case.document.get("request_kind") == "finalize" and case.kind is MessageKind.REQUEST:
        return _FINALIZE
    return MEMBERS[case.kind]


def _fault(case: Case, name: str, must_be: str) -> Fault:
    path = path_to("$", name)
    if name not in case.document:
        return Fault(path, f"{name} is missing; it must be {must_be}")
    return Fault(path, f"{name} is {_described(case.document[name])}; it must be {must_be}")


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return shown(value)
