from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from ilyama_protocol.rejections import ClientAction, RejectionCode
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import validate
from ilyama_protocol.validation.rules import RULES
from tests.unit.protocol.payloads import (
    ABSENT,
    Document,
    change,
    code_of,
    columns_of,
    document,
    encoded,
    sample,
)

ROWS, TELEMETRY = MessageKind.ROWS, MessageKind.TELEMETRY

Fault = tuple[str, Document]
"""A code, and members in place of sound ones; a function makes its member of the one before."""


def _one_too_many(rows: list[Document]) -> list[Document]:
    return (rows * 4_097)[-4_097:]


def _ended_by(bad: Document) -> Callable[[list[Document]], list[Document]]:
    return lambda rows: [*rows[:-1], bad]


def _named_badly(rows: list[Document]) -> list[Document]:
    return [{**row, "row_id": "no UUID"} for row in rows]


COMMON: list[Fault] = [
    ("unknown_topic", {}),
    ("payload_too_large", {"filler": "x" * 524_288}),
    ("invalid_json", {"filling": "\ud800"}),
    ("invalid_number_encoding", {"number": float("nan")}),
    ("envelope_unstripped_tenant_fields", {"org_id": 1}),
    ("invalid_format_version", {"format_version": ABSENT}),
    ("unsupported_format_version", {"format_version": 2}),
    ("unsupported_capture_strategy", {"capture_strategy": "other"}),
    ("invalid_batch_id", {"batch_id": 1}),
    ("unregistered_device", {}),
    ("invalid_envelope", {"source_table": ""}),
    ("batch_too_many_rows", {"rows": _one_too_many}),
    ("empty_batch", {"rows": []}),
    ("schema_hash_mismatch", {"schema_columns": columns_of()}),
]
FAULTS: dict[MessageKind, list[Fault]] = {
    ROWS: [
        *COMMON,
        ("invalid_row", {"rows": _ended_by(change(pk={}))}),
        ("commit_seq_range_mismatch", {"last_commit_seq": 999}),
    ],
    TELEMETRY: [
        *COMMON,
        ("row_count_mismatch", {"row_count": 9}),
        ("invalid_row", {"rows": _ended_by(sample(fields={}))}),
        ("invalid_row_id", {"rows": _named_badly}),
        ("cursor_timestamp_mismatch", {"cursor_end_ts": "2027-01-01T00:00:00Z"}),
    ],
}
NEVER_TOGETHER = [
    {"invalid_format_version", "unsupported_format_version"},
    {"batch_too_many_rows", "empty_batch"},
    {"empty_batch", "invalid_row"},
    {"empty_batch", "invalid_row_id"},
]


def pairs() -> list[Any]:
    return [
        pytest.param(kind, first, second, id=f"{kind}: {first[0]} before {second[0]}")
        for kind, faults in FAULTS.items()
        for first, second in combinations(faults, 2)
        if {first[0], second[0]} not in NEVER_TOGETHER
    ]


def bent(value: Document, members: Document) -> Document:
    return {
        **value,
        **{name: m(value[name]) if callable(m) else m for name, m in members.items()},
    }


def spelled(value: Document) -> bytes:
    # A lone surrogate is spelled as an escape, and so survives the encoding.
    return encoded(value) if "filling" not in value else _escaped(value)


def _escaped(value: Document) -> bytes:
    whole = {name: member for name, member in value.items() if name != "filling"}
    return encoded(whole)[:-1] + b',"filling":"\\ud800"}'


@pytest.mark.parametrize(("kind", "first", "second"), pairs())
def test_of_two_faults_the_earlier_check_names_the_code(
    kind: MessageKind, first: Fault, second: Fault
) -> None:
    named = (first[0], second[0])
    value = document(kind, **bent(bent(document(kind), second[1]), first[1]))
    topic_kind = None if "unknown_topic" in named else kind

    verdict = validate(topic_kind, spelled(value), registered="unregistered_device" not in named)

    assert code_of(verdict) == first[0]


@pytest.mark.parametrize("kind", FAULTS)
def test_each_check_is_held_against_every_other(kind: MessageKind) -> None:
    codes = dict.fromkeys(rule.code.value for rule in RULES if kind in rule.kinds)
    assert [code for code, _ in FAULTS[kind]] == [*codes]


def test_every_row_passes_one_check_before_any_meets_the_next() -> None:
    rows = [sample(row_id="not a UUID"), sample(fields=None)]

    verdict = validate(TELEMETRY, encoded(document(TELEMETRY, rows=rows)))

    assert code_of(verdict) == "invalid_row"


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (RejectionCode.PAYLOAD_TOO_LARGE, ClientAction.SPLIT),
        (RejectionCode.BATCH_TOO_MANY_ROWS, ClientAction.SPLIT),
        (RejectionCode.UNSUPPORTED_FORMAT_VERSION, ClientAction.UPGRADE),
        (RejectionCode.DUPLICATE_BATCH_SEQ, ClientAction.DROP),
        (RejectionCode.STALE_BATCH_SEQ, ClientAction.DROP),
        (RejectionCode.EMPTY_BATCH, ClientAction.FIX),
        (RejectionCode.INVALID_ROW, ClientAction.FIX),
        (RejectionCode.UNREGISTERED_DEVICE, ClientAction.FIX),
    ],
)
def test_a_code_tells_the_sender_what_to_do(code: RejectionCode, action: ClientAction) -> None:
    assert code.action is action
