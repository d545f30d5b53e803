from itertools import combinations
from typing import Any

import pytest

from ilyama_protocol.rejections import ClientAction, RejectionCode
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import validate
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

COMMON: list[tuple[str, Document]] = [
    ("payload_too_large", {"filler": "x" * 524_288}),
    ("invalid_json", {"filling": "\ud800"}),
    ("invalid_number_encoding", {"number": float("nan")}),
    ("envelope_unstripped_tenant_fields", {"org_id": 1}),
    ("invalid_format_version", {"format_version": ABSENT}),
    ("unsupported_capture_strategy", {"capture_strategy": "other"}),
    ("invalid_batch_id", {"batch_id": 1}),
    ("unregistered_device", {}),
    ("invalid_envelope", {"source_table": ""}),
]
FAULTS: dict[MessageKind, list[tuple[str, Document]]] = {
    ROWS: [
        *COMMON,
        ("schema_hash_mismatch", {"schema_columns": columns_of()}),
        ("invalid_row", {"rows": [change(), change(pk={})]}),
        ("commit_seq_range_mismatch", {"last_commit_seq": 999}),
    ],
    TELEMETRY: [
        *COMMON,
        ("schema_hash_mismatch", {"schema_columns": columns_of()}),
        ("row_count_mismatch", {"row_count": 9}),
        ("invalid_row", {"rows": [sample(row_id=1), sample(fields={})]}),
        ("cursor_timestamp_mismatch", {"cursor_end_ts": "2027-01-01T00:00:00Z"}),
    ],
}


def pairs() -> list[Any]:
    return [
        pytest.param(kind, first, second, id=f"{kind}: {first[0]} before {second[0]}")
        for kind, faults in FAULTS.items()
        for first, second in combinations(faults, 2)
    ]


def spelled(value: Document) -> bytes:
    # A lone surrogate is spelled as an escape, and so survives the encoding.
    return encoded(value) if "filling" not in value else _escaped(value)


def _escaped(value: Document) -> bytes:
    whole = {name: member for name, member in value.items() if name != "filling"}
    return encoded(whole)[:-1] + b',"filling":"\\ud800"}'


@pytest.mark.parametrize(("kind", "first", "second"), pairs())
def test_of_two_faults_the_earlier_check_names_the_code(
    kind: MessageKind, first: tuple[str, Document], second: tuple[str, Document]
) -> None:
    registered = "unregistered_device" not in (first[0], second[0])
    bent = document(kind, **{**second[1], **first[1]})

    assert code_of(validate(kind, spelled(bent), registered=registered)) == first[0]


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
