"""Canonical JSON: one text for one value, and the hashes built on it.

Keys are sorted by code point, nothing is normalised, integers keep all their digits, and other
numbers are written as the shortest text of their double; so 1 and 1.0 are different.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
# Keys without white space or escapes, with values that are spelt in one way only.
_MEMBER = r'"[^"\\]*":(?:0|-?[1-9][0-9]*|"[^"\\]*"|true|false|null)'
_CANONICAL_IF_SORTED = re.compile(rf"(?:\{{{_MEMBER}(?:,{_MEMBER})*\}}\n)*")


class PrimaryKeys(Protocol):
    """Primary keys of many rows, as values and as valid JSON text."""

    @property
    def pk(self) -> Sequence[Mapping[str, Any]]:
        """The values."""

    @property
    def pk_text(self) -> Sequence[str]:
        """The texts."""


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return _ENCODER.encode(value)


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical JSON of a value in UTF-8."""
    return canonical_json(value).encode()


def canonical_hash(value: Any) -> str:
    """Return the lower-case hex SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def pk_hash(pk: Mapping[str, Any]) -> str:
    """Return the `source_pk_hash` of a primary key."""
    return canonical_hash(pk)


def pk_hashes(batch: PrimaryKeys) -> list[str]:
    """Return the `source_pk_hash` of every row of a batch."""
    texts, pks = batch.pk_text, batch.pk
    spelled = texts if _are_canonical(texts, pks) else [canonical_json(pk) for pk in pks]
    return [hashlib.sha256(text.encode()).hexdigest() for text in spelled]


def _are_canonical(texts: Sequence[str], pks: Sequence[Mapping[str, Any]]) -> bool:
    orders = {*map(tuple, pks)}
    if any([*order] != sorted(order) for order in orders):
        return False
    return _CANONICAL_IF_SORTED.fullmatch("\n".join([*texts, ""])) is not None
