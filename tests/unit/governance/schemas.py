"""Columns as short words, for tests of governance."""

from ilyama_protocol.fingerprint import Affinity, SchemaColumn

Columns = tuple[SchemaColumn, ...]


def columns(*words: str) -> Columns:
    """Columns such as `id:INTEGER:pk1:nn`: name, affinity, place in the key, NOT NULL."""
    return tuple(map(_column, words))


def _column(word: str) -> SchemaColumn:
    name, affinity, *marks = word.split(":")
    ordinal = next((int(mark[2:]) for mark in marks if mark.startswith("pk")), 0)
    return SchemaColumn(name, Affinity(affinity), pk_ordinal=ordinal, not_null="nn" in marks)
