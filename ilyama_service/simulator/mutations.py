"""Every way to be rejected: small changes that make a valid document invalid.

Each table maps a rejection code to mutations; a mutation changes a document in place. What cannot
be said by a document, such as broken text, is said by `BROKEN_TEXTS`.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from ilyama_protocol.canonical import canonical_hash
from ilyama_service.simulator.spelling import Token

Document = dict[str, Any]
Mutation = Callable[[Document, random.Random], None]
Values = tuple[Any, ...]

ID_COLUMN = {"name": "id", "decl_type_affinity": "INTEGER", "pk_ordinal": 1, "not_null": True}
COLUMN = {"name": "v", "decl_type_affinity": "REAL", "pk_ordinal": 0, "not_null": False}
UUID4 = "019693e0-7c1a-4b3e-9f00-0123456789ab"
NOT_UUID7: Values = (
    None,
    "",
    7,
    UUID4,
    "019693e0-7c1a-7b3e-cf00-0123456789ab",
    "019693e07c1a7b3e9f000123456789ab",
    "{019693e0-7c1a-7b3e-9f00-0123456789ab}",
    "019693e0-7c1a-7b3e-9f00-0123456789ab\n",
    "019693e0-7c1a-7b3e-9f00-0123456789ag",
)
NOT_COUNT: Values = (None, -1, 1.0, "1", True, 2**63, Token("1e2"), [])
NOT_HASH: Values = (None, "", "A3" * 32, "a3" * 31, "g3" * 32, 5)
NOT_TABLE: Values = (None, "", 5, "x" * 129, "a\nb", "a\0b", "a\x85b", {})
NOT_INSTANT: Values = (
    None,
    1777366800,
    "2026-04-28 09:00:00Z",
    "2026-04-28T09:00:00",
    "2026-04-28T09:00:60Z",
    "2026-02-30T09:00:00Z",
    "2026-04-28T09:00:00.0123456789Z",
    "0001-01-01T00:00:00+00:01",
    "",
)
NOT_FINITE: Values = (
    Token("NaN"),
    Token("Infinity"),
    Token("-Infinity"),
    Token("1e999"),
    Token("-1E+400"),
    Token("9" * 400),
    Token("1" + "0" * 5000),
)


def put(name: str, value: object) -> Mutation:
    """Set a top-level member."""

    def mutate(document: Document, _: random.Random) -> None:
        document[name] = value

    return mutate


def drop(name: str) -> Mutation:
    """Leave a top-level member out."""

    def mutate(document: Document, _: random.Random) -> None:
        document.pop(name, None)

    return mutate


def shift(name: str, by: int) -> Mutation:
    """Move a number that must agree with the rows, as far as int64 allows."""

    def mutate(document: Document, _: random.Random) -> None:
        number = document.get(name)
        document[name] = max(0, number + by) if isinstance(number, int) else by
        if document[name] == number:
            document[name] = 2**62

    return mutate


def some_row(change: Callable[[Any], Any]) -> Mutation:
    """Change any one row; where there is none, that is a fault already."""

    def mutate(document: Document, rng: random.Random) -> None:
        rows = document.get("rows")
        if isinstance(rows, list) and rows:
            place = rng.randrange(len(rows))
            rows[place] = change(rows[place])

    return mutate


def in_row(**members: Any) -> Mutation:
    """Set members of any one row."""
    return some_row(lambda row: {**row, **members} if isinstance(row, dict) else members)


def each_in_row(name: str, values: Values, **members: Any) -> tuple[Mutation, ...]:
    """A member of any one row has one of these values."""
    return tuple(in_row(**members, **{name: value}) for value in values)


def not_in_row(name: str) -> Mutation:
    """Leave a member of any one row out."""
    return some_row(lambda row: {key: row[key] for key in row if key != name})


def becomes(value: Any) -> Mutation:
    """Something else is where a row should be."""
    return some_row(lambda _: value)


def schema(**members: Any) -> Mutation:
    """Announce one column under a hash that is not its own."""

    def mutate(document: Document, _: random.Random) -> None:
        sound = {"table_name": document.get("source_table"), "columns": [ID_COLUMN]}
        document["schema_columns"] = sound | members

    return mutate


def hashed_schema(table_name: str = "", **members: Any) -> Mutation:
    """Announce two columns, the second with these members, under the hash they really have."""

    def mutate(document: Document, _: random.Random) -> None:
        name, columns = table_name or document.get("source_table"), [ID_COLUMN, COLUMN | members]
        document["schema_columns"] = {"table_name": name, "columns": columns}
        by_name = sorted(columns, key=lambda column: str(column["name"]))
        document["schema_hash"] = canonical_hash({"columns": by_name, "table_name": name})

    return mutate


def each(name: str, values: Values) -> tuple[Mutation, ...]:
    """A required member that is missing or has one of these values."""
    return drop(name), *(put(name, value) for value in values)


def with_value(value: bytes, text: bytes) -> bytes:
    """A document with one more member, whose value is spelled like this."""
    return text[:-1] + b',"x":' + value + b"}"


ENVELOPE: dict[str, tuple[Mutation, ...]] = {
    "invalid_number_encoding": tuple(put("unknown", [value]) for value in NOT_FINITE),
    "envelope_unstripped_tenant_fields": tuple(
        put(name, value)
        for name in ("device_id", "org_id", "project_id", "fleet_id")
        for value in ("x", None)
    ),
    "invalid_format_version": each("format_version", (None, 0, -1, 1.0, "1", True, Token("1e0"))),
    "unsupported_format_version": tuple(put("format_version", n) for n in (2, 10, 2**63, 10**30)),
}
BATCH: dict[str, tuple[Mutation, ...]] = ENVELOPE | {
    "invalid_number_encoding": (
        *each_in_row("note", NOT_FINITE),
        *(in_row(pk={"id": value}) for value in NOT_FINITE),
        *ENVELOPE["invalid_number_encoding"],
    ),
    "unsupported_capture_strategy": each(
        "capture_strategy", (None, "", 1, "SQLITE_ROW_BATCH_V1", "sqlite_row_batch_v2")
    ),
    "invalid_batch_id": each("batch_id", NOT_UUID7),
    "empty_batch": (put("rows", []), put("rows", Token("[ \n ]"))),
    "schema_hash_mismatch": (
        schema(),
        schema(table_name=None),
        schema(columns={}),
        schema(columns=None),
        schema(columns=[7]),
        hashed_schema("another table"),
        *(hashed_schema(name=value) for value in ("id", None, 5)),
        *(hashed_schema(decl_type_affinity=value) for value in ("integer", "DATE", "", None)),
        *(hashed_schema(pk_ordinal=value) for value in (-1, "1", True, 1.0, None)),
        *(hashed_schema(not_null=value) for value in (0, "false", None)),
        put("schema_columns", {}),
    ),
}
ROWS: dict[str, tuple[Mutation, ...]] = BATCH | {
    "invalid_envelope": (
        *each("source_table", NOT_TABLE),
        *each("journal_epoch", NOT_UUID7),
        *each("schema_hash", NOT_HASH),
        *each("first_commit_seq", NOT_COUNT),
        *each("last_commit_seq", NOT_COUNT),
        *each("rows", (None, {}, "[]", 0)),
        put("schema_columns", []),
        put("schema_columns", False),
    ),
    "invalid_row": (
        *map(becomes, (None, 1, "x", [], True)),
        *(not_in_row(name) for name in ("op", "pk", "commit_seq")),
        *each_in_row("op", (None, "", "INSERT", "upsert", 1, [])),
        *each_in_row("pk", (None, {}, [], 1, "id", {"id": []}, {"id": {}})),
        *each_in_row("pk", ({"id": 2**63}, {"id": -(2**63) - 1}, {"id": 10**30})),
        *each_in_row("commit_seq", NOT_COUNT),
        *each_in_row("row", (None, [], "x", 1, False), op="update"),
        *each_in_row("row", ({}, [], 0, "", False), op="delete"),
        *each_in_row("row", ({"v": 2**63}, {"a": [{"b": -(2**63) - 1}]}), op="insert"),
    ),
    "commit_seq_range_mismatch": tuple(
        shift(name, by) for name in ("first_commit_seq", "last_commit_seq") for by in (-1, 1, 2**40)
    ),
}
TELEMETRY: dict[str, tuple[Mutation, ...]] = BATCH | {
    "invalid_envelope": (
        *each("source_table", NOT_TABLE),
        *each("schema_hash", NOT_HASH),
        *each("batch_seq", NOT_COUNT),
        *each("row_count", NOT_COUNT),
        *each("cursor_start_ts", NOT_INSTANT),
        *each("cursor_end_ts", NOT_INSTANT),
        *each("rows", (None, {}, "[]")),
    ),
    "row_count_mismatch": (shift("row_count", 1), put("row_count", 0)),
    "invalid_row": (
        *map(becomes, (None, 1, "x", [])),
        *each_in_row("ts", NOT_INSTANT),
        *each_in_row("fields", (None, {}, [], {"v": []}, {"v": 2**63}, {"v": {}})),
    ),
    "invalid_row_id": each_in_row("row_id", ("", "row-1", 1, False, UUID4[:-1])),
    "cursor_timestamp_mismatch": tuple(
        put(name, value)
        for name in ("cursor_start_ts", "cursor_end_ts")
        for value in ("2026-04-28T08:59:59.999999999Z", "2030-01-01T00:00:00Z")
    ),
}
OBSERVE = ENVELOPE | {
    "invalid_envelope": (
        *each("source_table", NOT_TABLE),
        *each("schema_hash", NOT_HASH),
        *each("observed_at", NOT_INSTANT),
        put("schema_columns", []),
    ),
}
ACK = ENVELOPE | {"invalid_envelope": each("control_id", (None, 5, [], {}))}
REQUEST = ENVELOPE | {
    "invalid_envelope": (
        *each("source_table", NOT_TABLE),
        *each("request_kind", (None, "", "grant", 1)),
        *each("batch_id", NOT_UUID7),
        *each("segment_kind", (None, 5, [])),
    ),
}

TWICE_A_KEY = (b'{"a":1,"\\u0061":2}', b'{"a":1,"a":1}', b'1,"x":1')
LONE_SURROGATES = (b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xed\xa0\x80"', b'{"\\uDfff":1}')
TOO_DEEP = (b"[" * 32 + b"]" * 32, b'{"a":' * 32 + b"1" + b"}" * 32, b"[" * 100_000)
NOT_JSON = (
    *TWICE_A_KEY,
    *LONE_SURROGATES,
    *TOO_DEEP[:2],
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\t"',
    b'"\\x41"',
    b"'y'",
    b'NaN,"x":1',
    *(b"nan", b"-NaN", b"+1", b"01", b".5", b"1.", b"1e", b"inf", b"True", b"0x1", b"[1,]"),
)
BROKEN_TEXTS: tuple[Callable[[bytes], bytes], ...] = (
    lambda _: b"",
    lambda _: b" \n",
    lambda _: b"\0",
    lambda _: b"null",
    lambda text: b"[" + text + b"]",
    lambda text: text[:-1],
    lambda text: text[: len(text) // 2],
    lambda text: text + text,
    lambda text: text + b"\0",
    lambda text: text[:-1] + b",}",
    lambda text: text[:-1] + b',"format_version":1}',
    lambda text: b"\xef\xbb\xbf" + text,
    lambda text: text.decode().encode("utf-16"),
    *(partial(with_value, value) for value in NOT_JSON),
)
