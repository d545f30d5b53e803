"""Canonical JSON and what is derived from it: hashes, keys, instances, datapoint ids."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

_ENCODER = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
)


def canonical_json(value: object) -> str:
    """The one spelling of a JSON value: sorted keys, no white space, shortest escapes."""
    return _ENCODER.encode(value)


def sha256_hex(text: str) -> str:
    """Lower-case hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def pk_hash(pk: Mapping[str, Any]) -> str:
    """`source_pk_hash`: the SHA-256 of the primary key's canonical JSON."""
    return sha256_hex(canonical_json(pk))


def schema_hash(table_name: str, columns: list[dict[str, Any]]) -> str:
    """`schema_hash`: the four members of each column, columns sorted by name."""
    return sha256_hex(canonical_json({"columns": _by_name(columns), "table_name": table_name}))


def columns_text(columns: list[dict[str, Any]]) -> str:
    """The four members of each column, columns sorted by name."""
    return canonical_json(_by_name(columns))


def _by_name(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = ("name", "decl_type_affinity", "pk_ordinal", "not_null")
    told = [{member: column[member] for member in kept} for column in columns]
    return sorted(told, key=lambda column: str(column["name"]))


def content(op: str, row: Mapping[str, Any] | None) -> str:
    """What two row changes of the same key are compared by."""
    return canonical_json({"op": op, "row": row})


def datapoint_id(series: tuple[str, ...], ts: int) -> str:
    """A UUIDv8: 60 bits of microseconds, then the top 62 bits of the series' SHA-256."""
    stamp = ts & ((1 << 60) - 1)
    bits = stamp >> 12 << 80 | 8 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | _series_bits(series)
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@cache
def _series_bits(series: tuple[str, ...]) -> int:
    return int(sha256_hex(canonical_json(list(series))), 16) >> (256 - 62)


@cache
def datapoint_key(source_table: str, column: str) -> str:
    """`{source_table}.{column}`, percent-encoded; `__deleted` itself belongs to the platform."""
    name = "%5F_deleted" if column == "__deleted" else _escaped(column, ".")
    return f"{_escaped(source_table, '.')}.{name}"


def deleted_key(source_table: str) -> str:
    """The key that says whether a row was deleted."""
    return f"{_escaped(source_table, '.')}.__deleted"


def instance(pk: Mapping[str, Any]) -> str:
    """The values of a primary key in the order of its sorted names, joined by `/`."""
    return "/".join(_instance_part(pk[name]) for name in sorted(pk))


def _instance_part(value: object) -> str:
    if value is None:
        return ""
    return _escaped(value, "/") if isinstance(value, str) else canonical_json(value)


def _escaped(text: str, separator: str) -> str:
    return text.replace("%", "%25").replace(separator, f"%{ord(separator):02X}")
