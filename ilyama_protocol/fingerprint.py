"""Schema fingerprints: the hash by which a device names the schema of a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from ilyama_protocol.canonical import canonical_hash


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
    by_name = sorted(columns, key=attrgetter("name"))
    return canonical_hash({"columns": [*map(_members, by_name)], "table_name": table_name})


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


def _members(column: SchemaColumn) -> dict[str, str | int | bool]:
    return {
        "name": column.name,
        "decl_type_affinity": column.decl_type_affinity,
        "pk_ordinal": column.pk_ordinal,
        "not_null": column.not_null,
    }
