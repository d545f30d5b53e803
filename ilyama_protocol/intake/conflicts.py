"""Key conflicts: other content under a key that was taken."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.intake.history import PointKey, RowKey

LONGEST_FIRST = 4_096
"""The content that stays is listed up to so many characters, and by its hash beyond.

It is stored under the key that the conflict names. Repeated in whole beside everything else that
comes under that key, a message of half a mebibyte could fill gigabytes.
"""


class ConflictKind(StrEnum):
    """What the key is a key of."""

    ROW = "row"
    TELEMETRY_BATCH = "telemetry batch"
    DATAPOINT = "datapoint"


class Conflict(NamedTuple):
    """Another content under a key that was already taken; the first stays."""

    kind: ConflictKind
    source_table: str
    key: str
    first: str
    other: str


def row_conflict(key: RowKey, first: str, other: str) -> Conflict:
    """Two contents of a row change."""
    named = {
        "commit_seq": key.commit_seq,
        "journal_epoch": key.journal_epoch,
        "source_pk_hash": key.source_pk_hash,
    }
    return Conflict(
        ConflictKind.ROW, key.source_table, canonical_json(named), _listed(first), other
    )


def batch_conflict(source_table: str, batch_id: str, *, first: str, other: str) -> Conflict:
    """Two telemetry batches under one id."""
    key = canonical_json({"batch_id": batch_id})
    return Conflict(ConflictKind.TELEMETRY_BATCH, source_table, key, _listed(first), other)


def point_conflict(
    source_table: str, key: PointKey, *, first: float | str | None, other: float | str | None
) -> Conflict:
    """Two values of one key at one moment."""
    named = canonical_json({"key": key.key, "table": key.table, "ts": key.ts})
    contents = _listed(canonical_json(first)), canonical_json(other)
    return Conflict(ConflictKind.DATAPOINT, source_table, named, *contents)


def _listed(first: str) -> str:
    if len(first) <= LONGEST_FIRST:
        return first
    return f"content sha256:{sha256(first.encode()).hexdigest()}"
