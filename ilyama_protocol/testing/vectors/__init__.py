"""Vectors: questions with their right answers, one a line, for implementations in any language.

`validation`          a topic and a payload, and the code of its rejection or null
`messages`            the same: sound messages of every kind, and all that the simulator spoils
`large_messages`      the same of payloads that repeat a piece many times
`canonical_and_hash`  a JSON text, its canonical text and the hash of that
`datapoint_id`        a series and a time, and the id of that datapoint
`schema_fingerprint`  a table as SQLite declares it, its columns, their canonical text and hash
`affinity`            a declared type, and the affinity that SQLite gives it
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeAlias

import msgspec

from ilyama_protocol.fingerprint import Affinity
from ilyama_protocol.rejections import RejectionCode


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """One question; its name says what it is about."""

    id: str


class ValidationVector(Vector, frozen=True, kw_only=True):
    """A message, and the code it must be rejected with; None when it must be accepted."""

    topic: str
    payload: bytes = msgspec.field(name="payload_b64")
    registered: bool
    code: RejectionCode | None


class Piece(msgspec.Struct, frozen=True):
    """A part of a payload that stands there several times, one after another."""

    content: bytes = msgspec.field(name="piece_b64")
    times: int


class LargeVector(Vector, frozen=True, kw_only=True):
    """A large message, and the code it must be rejected with; None when it must be accepted."""

    topic: str
    pieces: list[Piece]
    registered: bool
    code: RejectionCode | None

    @property
    def payload(self) -> bytes:
        """All pieces, each as often as it stands there."""
        return b"".join(piece.content * piece.times for piece in self.pieces)


class CanonicalVector(Vector, frozen=True, kw_only=True):
    """A JSON text, its canonical text and the hash of that."""

    kind: str
    input_json: str
    canonical: str
    sha256: str


class DatapointIdVector(Vector, frozen=True, kw_only=True):
    """A series and a time, and the id of that datapoint."""

    series: list[str]
    ts_us: int
    canonical: str
    sha256: str
    datapoint_id: str


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column as it travels in `schema_columns`."""

    name: str
    decl_type_affinity: Affinity
    pk_ordinal: int
    not_null: bool


class SchemaVector(Vector, frozen=True, kw_only=True):
    """A table as SQLite is told to create it, and its fingerprint."""

    create_table: str
    table_name: str
    columns: list[DeclaredColumn]
    canonical: str
    sha256: str


class AffinityVector(Vector, frozen=True, kw_only=True):
    """A declared type, and the affinity that SQLite gives it."""

    declared_type: str
    affinity: Affinity


AnyVector: TypeAlias = (
    ValidationVector
    | LargeVector
    | CanonicalVector
    | DatapointIdVector
    | SchemaVector
    | AffinityVector
)
SHAPES: dict[str, type[AnyVector]] = {
    "validation": ValidationVector,
    "messages": ValidationVector,
    "large_messages": LargeVector,
    "canonical_and_hash": CanonicalVector,
    "datapoint_id": DatapointIdVector,
    "schema_fingerprint": SchemaVector,
    "affinity": AffinityVector,
}


def file_of(name: str) -> Traversable:
    """Return the file of some vectors."""
    return files(__name__) / f"{name}.jsonl"


def read(name: str) -> list[AnyVector]:
    """Return all vectors of a file."""
    # Not splitlines(): U+2028 inside a string does not end a line of JSON.
    lines = file_of(name).read_bytes().strip().split(b"\n")
    shape = SHAPES[name]
    return [msgspec.json.decode(line, type=shape) for line in lines]
