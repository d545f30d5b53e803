"""Ways in which a bad firmware spoils a batch, each with the code it must be rejected with."""

import random
from collections.abc import Callable
from typing import Any, Final

import orjson

from ilyama_protocol.rejections import RejectionCode

Document = dict[str, Any]
Spoiler = Callable[[Document, random.Random], bytes]


def spoiled(
    document: Document, chance: random.Random, code: RejectionCode | None = None
) -> tuple[bytes, RejectionCode]:
    """A sound batch made bad, and the code of what is wrong with it; any code without one."""
    chosen = code or chance.choice(CODES)
    return _SPOILERS[chosen](document, chance), chosen


def _not_json(document: Document, chance: random.Random) -> bytes:
    sound = orjson.dumps(document)
    return chance.choice((sound[:-2], b"\xef\xbb\xbf" + sound, b'{"batch_id":"",' + sound[1:]))


def _not_a_number(document: Document, chance: random.Random) -> bytes:
    word = chance.choice((b"NaN", b"-Infinity", b"1e999"))
    return orjson.dumps(document)[:-1] + b',"gain":' + word + b"}"


def _tenant(document: Document, chance: random.Random) -> bytes:
    return orjson.dumps(document | {chance.choice(("device_id", "org_id", "fleet_id")): "acme"})


def _with(name: str, *values: Any) -> Spoiler:
    def spoil(document: Document, chance: random.Random) -> bytes:
        return orjson.dumps(document | {name: chance.choice(values)})

    return spoil


def _bad_envelope(document: Document, chance: random.Random) -> bytes:
    return orjson.dumps(
        document
        | chance.choice(
            (
                {"journal_epoch": "first"},
                {"schema_hash": document["schema_hash"].upper()[:63]},
                {"last_commit_seq": str(document["last_commit_seq"])},
                {"source_table": ""},
            )
        )
    )


def _other_schema(document: Document, chance: random.Random) -> bytes:
    del chance
    column = {"name": "id", "decl_type_affinity": "BLOB", "pk_ordinal": 1, "not_null": True}
    columns = {"table_name": document["source_table"], "columns": [column]}
    return orjson.dumps(document | {"schema_columns": columns})


def _bad_row(document: Document, chance: random.Random) -> bytes:
    rows = list(document["rows"])
    place = chance.randrange(len(rows))
    change: Document = chance.choice(
        ({"op": "upsert"}, {"pk": {}}, {"commit_seq": -1}, {"row": []})
    )
    rows[place] = rows[place] | change
    return orjson.dumps(document | {"rows": rows})


def _wrong_range(document: Document, chance: random.Random) -> bytes:
    del chance
    return orjson.dumps(document | {"last_commit_seq": document["last_commit_seq"] + 1})


_SPOILERS: Final[dict[RejectionCode, Spoiler]] = {
    RejectionCode.INVALID_JSON: _not_json,
    RejectionCode.INVALID_NUMBER_ENCODING: _not_a_number,
    RejectionCode.ENVELOPE_UNSTRIPPED_TENANT_FIELDS: _tenant,
    RejectionCode.INVALID_FORMAT_VERSION: _with("format_version", "1", 0, 1.5, None),
    RejectionCode.UNSUPPORTED_FORMAT_VERSION: _with("format_version", 2, 99),
    RejectionCode.UNSUPPORTED_CAPTURE_STRATEGY: _with("capture_strategy", "sqlite_row_batch_v2"),
    RejectionCode.INVALID_BATCH_ID: _with(
        "batch_id", "batch-7", "9b2f7c1e-3d4a-4c5b-8e6f-0123456789ab"
    ),
    RejectionCode.INVALID_ENVELOPE: _bad_envelope,
    RejectionCode.EMPTY_BATCH: _with("rows", []),
    RejectionCode.SCHEMA_HASH_MISMATCH: _other_schema,
    RejectionCode.INVALID_ROW: _bad_row,
    RejectionCode.COMMIT_SEQ_RANGE_MISMATCH: _wrong_range,
}
CODES: Final = tuple(_SPOILERS)
