"""Schema fingerprints: the hash by which a device names the schema of a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from ilyama_protocol.canonical import canonical_hash, canonical_json


class Affinity(StrEnum):
    """The type affinities of SQLite."""

    INTEGER = "INTEGER"
    TEXT = "TEXT"
    REAL = "REAL"
    BLOB = "BLOB"
    NUMERIC = "NUMERIC"


METRIC_AFFINITIES = frozenset({Affinity.INTEGER, Affinity.REAL, Affinity.NUMERIC})


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column of a table, as far as the fingerprint knows it."""

    name: str
    decl_type_affinity: Affinity
    pk_ordinal: int
    not_null: bool


def schema_hash(table_name: str, columns: Iterable[SchemaColumn]) -> str:
    """Return the fingerprint of a table; the order of its columns does not matter."""
    return canonical_hash({"columns": _by_name(columns), "table_name": table_name})


def columns_text(columns: Iterable[SchemaColumn]) -> str:
    """Return columns as canonical JSON, in the order in which they are fingerprinted."""
    return canonical_json(_by_name(columns))


def affinity_of(declared_type: str) -> Affinity:
    """Return the affinity SQLite gives a declared type; the first rule that fits decides."""
    # SQLite folds ASCII letters only.
    folded = declared_type.encode("utf-8", "surrogatepass").upper()
    if b"INT" in folded:
        return Affinity.INTEGER
    if any(word in folded for word in (b"CHAR", b"CLOB", b"TEXT")):
        return Affinity.TEXT
    if b"BLOB" in folded or not folded:
        return Affinity.BLOB
    if any(word in folded for word in (b"REAL", b"FLOA", b"DOUB")):
        return Affinity.REAL
    return Affinity.NUMERIC


def _by_name(columns: Iterable[SchemaColumn]) -> list[dict[str, str | int | bool]]:
    return [*map(_members, sorted(columns, key=attrgetter("name")))]


def _members(column: SchemaColumn) -> dict[str, str | int | bool]:
    return {
        "name": column.name,
        "decl_type_affinity": column.decl_type_affinity,
        "pk_ordinal": column.pk_ordinal,
        "not_null": column.not_null,
    }
