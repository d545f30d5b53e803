"""Two lanes of telemetry, one truth: what the fast lane accepts, the exact lane accepts too."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.contents import AlikeContents
from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.limits import DEFAULT_LIMITS
from ilyama_protocol.messages import TelemetryBatch
from ilyama_protocol.texts import CutTexts
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import Verdict, examine
from ilyama_protocol.validation.cases import Case
from ilyama_protocol.validation.fast_telemetry import proven_telemetry_batch
from tests.streams.telemetry import rfc3339
from tests.unit.protocol.mutations import damaged
from tests.unit.protocol.payloads import (
    ABSENT,
    COLUMNS,
    UUID4,
    code_of,
    columns_of,
    document,
    encoded,
    sample,
)
from tests.unit.protocol.test_lanes import KEYS, NAMES, SCALARS, SEPARATORS

TELEMETRY = MessageKind.TELEMETRY
MANY = 64
NINE = 1_777_366_800_000_000
DECLARED = {
    "schema_hash": schema_hash("temps", COLUMNS),
    "schema_columns": columns_of(*COLUMNS, table_name="temps"),
}
ROW_IDS = st.sampled_from([ABSENT, None, UUID4, UUID4.upper()])


@st.composite
def samples(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows that have the same fields, or any; few or many."""
    columns = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    alike = st.fixed_dictionaries(dict.fromkeys(columns, SCALARS))
    fields = draw(st.lists(draw(st.sampled_from([alike, KEYS])), min_size=1, max_size=6))
    fields = (fields * MANY)[: draw(st.sampled_from([len(fields), MANY, MANY + 3]))]
    moments = draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=3))
    row_ids = draw(st.lists(ROW_IDS, min_size=1, max_size=3))
    return [
        sample(
            rfc3339(NINE + moments[i % len(moments)]),
            fields=told,
            row_id=row_ids[i % len(row_ids)],
        )
        for i, told in enumerate(fields)
    ]


def whole(rows: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    moments = [row["ts"] for row in rows]
    cursors = {"cursor_start_ts": min(moments), "cursor_end_ts": max(moments)}
    return document(TELEMETRY, rows=rows, row_count=len(rows), **cursors, **members)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    members: dict[str, Any] = draw(st.sampled_from([{}, DECLARED, {"schema_columns": None}]))
    made = whole(draw(samples()), **members)
    ascii_only = draw(st.booleans())
    return json.dumps(made, ensure_ascii=ascii_only, separators=draw(SEPARATORS)).encode()


def exact(payload: bytes) -> Verdict:
    return examine(Case(TELEMETRY, payload, registered=True, limits=DEFAULT_LIMITS))


def told(verdict: Verdict | None) -> tuple[str, str]:
    assert isinstance(verdict, TelemetryBatch)
    return repr(verdict), repr([row and sorted(row.items()) for row in verdict.fields])


def assert_one_truth(payload: bytes) -> None:
    proven = proven_telemetry_batch(payload, DEFAULT_LIMITS)
    if proven is not None:
        assert told(proven) == told(exact(payload))


@given(payloads())
def test_both_lanes_agree_on_valid_telemetry(payload: bytes) -> None:
    assert code_of(exact(payload)) is None
    assert_one_truth(payload)


@given(payloads(), st.randoms(use_true_random=False))
def test_both_lanes_agree_on_damaged_telemetry(payload: bytes, rng: random.Random) -> None:
    for _ in range(5):
        assert_one_truth(damaged(payload, rng))


@pytest.mark.parametrize("members", [{}, DECLARED], ids=["without columns", "with columns"])
@pytest.mark.parametrize("old", [b"", b'"fields":'], ids=["compact", "spaced"])
def test_usual_telemetry_is_read_by_column_and_its_texts_are_cut(
    old: bytes, members: dict[str, Any]
) -> None:
    rows = [sample(rfc3339(NINE + i), fields={"v": i, "w": "é"}) for i in range(MANY)]
    payload = encoded(whole(rows, **members)).replace(old, old + b" " if old else old)

    proven = proven_telemetry_batch(payload, DEFAULT_LIMITS)

    assert proven is not None
    assert isinstance(proven.contents, AlikeContents)
    assert isinstance(proven.fields_text, CutTexts)
    assert told(proven) == told(exact(payload))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":7', b'"v":7,"v":7'),
        (b'"v":7', b'"v":7,"\\u0076":7'),
        (b'"v":7', b'"v":9223372036854775808'),
        (b'"v":7', b'"v":1e999'),
        (b'"v":7', b'"v":"\xff"'),
        (b'"v":7', b'"v":[]'),
        (b'{"v":7}', b"{}"),
        (b'"row_count":9', b'"row_count":8'),
        (b'"row_count":9', b'"row_count":9.0'),
        (b'"batch_seq":42', b'"batch_seq":-1'),
        (b"09:00:00.000007Z", b"09:00:60.000007Z"),
        (b"09:00:00.000007Z", b"09:00:00.000009Z"),
        (b"09:00:00.000000Z", b"09:00:00.000001Z"),
        (UUID4.encode(), b"row-1"),
        (b'"format_version"', b'"org_id":1,"format_version"'),
    ],
)
def test_the_fast_lane_of_telemetry_lets_no_fault_pass(old: bytes, new: bytes) -> None:
    rows = [sample(rfc3339(NINE + i), fields={"v": i}) for i in range(9)]
    sound = encoded(whole(rows))
    assert proven_telemetry_batch(sound, DEFAULT_LIMITS) is not None
    payload = sound.replace(old, new, 1)

    assert payload != sound
    assert_one_truth(payload)
    if new != b"09:00:00.000009Z":
        assert code_of(exact(payload)) is not None
        assert proven_telemetry_batch(payload, DEFAULT_LIMITS) is None
