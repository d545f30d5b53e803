"""Identifiers: UUIDs, datapoint ids, and the keys and instances of datapoints."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ilyama_protocol.canonical import PrimaryKeys, canonical_bytes, canonical_json

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UUID7 = re.compile(
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}"
)
_DIGEST_BITS = 62
DELETED_COLUMN = "__deleted"
"""The platform's own column, which says whether a row is deleted."""
_ESCAPED_DELETED_COLUMN = "%5F_deleted"
MAX_KEY = 512
"""No datapoint key that a person chooses has more code points."""
_NO_TEXT = frozenset({"Cc", "Cs"})


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID of any version, in either case."""
    return _UUID.fullmatch(text) is not None


def is_uuid7(text: str) -> bool:
    """Tell whether a text is a UUID of version 7, in either case."""
    return _UUID7.fullmatch(text) is not None


def series_digest(series_parts: Sequence[str], revision: int = 0) -> int:
    """Return the 62 bits that stand for a series; the same for every timestamp of it."""
    parts = [*series_parts, revision] if revision else list(series_parts)
    digest = hashlib.sha256(canonical_bytes(parts)).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _DIGEST_BITS)


def datapoint_id(ts_us: int, series_parts: Sequence[str], revision: int = 0) -> str:
    """Return the id of a datapoint, a UUIDv8 made of its time and its series."""
    return id_at(ts_us, series_digest(series_parts, revision))


def id_at(ts_us: int, digest: int) -> str:
    """Return the id of a datapoint of a series whose digest is known."""
    ts = ts_us & ((1 << 60) - 1)
    high = (ts >> 12) << 16 | 0x8000 | (ts & 0xFFF)
    return str(UUID(int=high << 64 | 0b10 << _DIGEST_BITS | digest))


def escape_key(part: str) -> str:
    """Escape one part of a datapoint key, whose separator is the dot."""
    return part.replace("%", "%25").replace(".", "%2E")


def escape_instance(part: str) -> str:
    """Escape one part of a datapoint instance, whose separator is the slash."""
    return part.replace("%", "%25").replace("/", "%2F")


def key_of(source_table: str, column: str | None) -> str:
    """Return the datapoint key of a column; None is the platform's own `__deleted`."""
    if column is None:
        last = DELETED_COLUMN
    else:
        last = _ESCAPED_DELETED_COLUMN if column == DELETED_COLUMN else escape_key(column)
    return f"{escape_key(source_table)}.{last}"


def key_fault(key: str) -> str | None:
    """Why a person cannot choose a text as a datapoint key; None when they can."""
    if not key:
        return "a datapoint key is not empty"
    if len(key) > MAX_KEY:
        return f"a datapoint key has at most {MAX_KEY} characters, not {len(key):,}"
    if any(unicodedata.category(character) in _NO_TEXT for character in key):
        return "a datapoint key has no control characters"
    if key.rpartition(".")[2] == DELETED_COLUMN:
        return f"a datapoint key does not end in {DELETED_COLUMN}, which is the platform's own"
    return None


def instances_of(batch: PrimaryKeys) -> list[str]:
    """Return the datapoint instance of every row of a batch."""
    layouts = {*map(tuple, batch.pk)}
    if len(layouts) != 1 or () in layouts:
        return [instance_of(pk) for pk in batch.pk]
    columns = [[pk[name] for pk in batch.pk] for name in sorted(layouts.pop())]
    return ["/".join(parts) for parts in zip(*map(_instance_parts, columns), strict=True)]


def instance_of(pk: Mapping[str, Any]) -> str:
    """Return the datapoint instance of a primary key: its values by sorted column name."""
    return "/".join([_instance_part(pk[name]) for name in sorted(pk)])


def _instance_parts(values: list[Any]) -> list[str]:
    if {*map(type, values)} == {int}:
        return [*map(str, values)]
    return [_instance_part(value) for value in values]


def _instance_part(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return escape_instance(value)
    return "" if value is None else canonical_json(value)
