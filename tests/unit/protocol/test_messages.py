"""What validation hands on when a message passes, and what it notes when it does not."""

from typing import Any

import pytest

from ilyama_protocol.messages import (
    Acknowledgement,
    IngestRequest,
    Observation,
    RequestKind,
    RowBatch,
    SegmentKind,
    TelemetryBatch,
    telemetry_content,
)
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import validate
from tests.unit.protocol.payloads import (
    BATCH_ID,
    COLUMNS,
    EPOCH,
    HASH,
    UUID4,
    columns_of,
    described,
    document,
    encoded,
    sample,
    verdict_on,
)

NINE_O_CLOCK_US = 1_777_366_800_000_000


def test_a_row_batch_is_columnar() -> None:
    batch = verdict_on(MessageKind.ROWS, described(batch_id=BATCH_ID.upper()))

    assert isinstance(batch, RowBatch)
    assert (batch.batch_id, batch.journal_epoch) == (BATCH_ID, EPOCH)
    assert (batch.first_commit_seq, batch.last_commit_seq) == (101, 103)
    assert batch.schema_columns == COLUMNS
    assert batch.commit_seq.tolist() == [101, 103]
    assert batch.op == ["update", "delete"]
    assert batch.pk == [{"id": 1}, {"id": 1}]
    assert batch.pk_text == ['{"id":1}', '{"id":1}']
    assert batch.row == [{"id": 1, "mode": "cooling"}, None]
    assert batch.row_text == ['{"id":1,"mode":"cooling"}', None]


@pytest.mark.parametrize(
    ("pk_text", "row_text"),
    [
        ('{ "id" : 1 }', '{\n"id":1.50 ,\t"v":"\\u00e9\\/" }'),
        ('{"id":1e0}', '{"pk":{"id":2},"row":null}'),
        ('{"id":"},\\"row\\":{"}', '{"v":"}},{"}'),
        ('{"id":"é😀"}', '{"v":"\\ud83d\\ude00"}'),
        ('{"id":-0}', "{}"),
    ],
)
def test_key_and_row_keep_the_text_that_was_sent(pk_text: str, row_text: str) -> None:
    payload = encoded(document(MessageKind.ROWS, last_commit_seq=101, rows=[]))
    row = f'{{"commit_seq":101,"op":"insert","pk":{pk_text},"row":{row_text}}}'

    batch = validate(MessageKind.ROWS, payload.replace(b"[]", f"[{row}]".encode()))

    assert isinstance(batch, RowBatch)
    assert (batch.pk_text, batch.row_text) == ([pk_text], [row_text])


def test_a_telemetry_batch_is_columnar_with_times_cut_to_microseconds() -> None:
    rows = [sample("2026-04-28T09:00:00.0000019Z", row_id=None), sample(row_id=UUID4.upper())]
    cursors = {
        "cursor_start_ts": "2026-04-28T09:00:00.0000019Z",
        "cursor_end_ts": "2026-04-28T11:00:01+02:00",
    }
    batch = verdict_on(MessageKind.TELEMETRY, document(MessageKind.TELEMETRY, rows=rows, **cursors))

    assert isinstance(batch, TelemetryBatch)
    assert (batch.batch_id, batch.batch_seq, batch.source_table) == (BATCH_ID, 42, "temps")
    assert [*batch.ts_us] == [NINE_O_CLOCK_US + 1, NINE_O_CLOCK_US + 1_000_000]
    assert (batch.cursor_start_us, batch.cursor_end_us) == (batch.ts_us[0], batch.ts_us[1])
    assert batch.row_id == [None, UUID4]
    assert batch.fields == [{"value_c": 22.1}] * 2
    assert batch.fields_text == ['{"value_c":22.1}'] * 2


def test_telemetry_content_is_everything_but_the_batch_id() -> None:
    def content(**members: Any) -> str:
        return telemetry_content(encoded(document(MessageKind.TELEMETRY, **members)))

    assert content() == content(batch_id=EPOCH)
    assert content() != content(batch_seq=43)
    assert content() != content(unknown=1)


@pytest.mark.parametrize(
    ("members", "columns"),
    [
        ({}, None),
        ({"schema_columns": columns_of(*COLUMNS)}, None),
        (
            {
                "schema_columns": columns_of(*COLUMNS),
                "schema_hash": described()["schema_hash"],
            },
            COLUMNS,
        ),
    ],
    ids=["none", "of another hash", "of this hash"],
)
def test_an_observation_carries_the_columns_that_fit_it(
    members: dict[str, Any], columns: Any
) -> None:
    sent = document(MessageKind.OBSERVE, **members)

    assert verdict_on(MessageKind.OBSERVE, sent) == Observation(
        "device_state", sent["schema_hash"], observed_at_us=NINE_O_CLOCK_US, schema_columns=columns
    )


def test_an_acknowledgement_names_its_control() -> None:
    sent = document(MessageKind.ACK)

    assert verdict_on(MessageKind.ACK, sent) == Acknowledgement("c-1")


def test_a_finalize_names_its_upload() -> None:
    sent = document(MessageKind.REQUEST, batch_id=BATCH_ID.upper())

    assert verdict_on(MessageKind.REQUEST, sent) == IngestRequest(
        RequestKind.FINALIZE,
        "device_state",
        batch_id=BATCH_ID,
        segment_kind=SegmentKind.PAYLOAD_SPILL,
    )


def test_a_url_request_names_no_upload() -> None:
    sent = document(MessageKind.REQUEST, request_kind="url_request")

    assert verdict_on(MessageKind.REQUEST, sent) == IngestRequest(
        RequestKind.URL_REQUEST, "device_state", batch_id=None, segment_kind=None
    )


@pytest.mark.parametrize(
    ("kind", "members", "counted"),
    [
        (MessageKind.ROWS, {"org_id": 1}, ("device_state", 2, None)),
        (MessageKind.ROWS, {"org_id": 1, "source_table": "\n"}, (None, 2, None)),
        (MessageKind.ROWS, {"org_id": 1, "rows": {}}, ("device_state", 0, None)),
        (MessageKind.ROWS, {"batch_id": "x"}, ("device_state", 2, None)),
        (MessageKind.ROWS, {"schema_hash": "x"}, ("device_state", 2, BATCH_ID)),
        (
            MessageKind.ROWS,
            {"batch_id": BATCH_ID.upper(), "rows": []},
            ("device_state", 0, BATCH_ID),
        ),
        (MessageKind.TELEMETRY, {"row_count": 1}, ("temps", 2, BATCH_ID)),
        (MessageKind.OBSERVE, {"schema_hash": HASH[1:], "rows": [1]}, ("device_state", 1, None)),
        (MessageKind.REQUEST, {"segment_kind": ""}, ("device_state", 0, None)),
    ],
)
def test_a_rejection_counts_under_its_table(
    kind: MessageKind, members: dict[str, Any], counted: tuple[str | None, int, str | None]
) -> None:
    verdict = verdict_on(kind, document(kind, **members))

    assert isinstance(verdict, Rejection)
    assert (verdict.source_table, verdict.row_count, verdict.batch_id) == counted


def test_a_sentence_stays_short_whatever_was_sent() -> None:
    verdict = verdict_on(MessageKind.ROWS, document(MessageKind.ROWS, batch_id="x" * 100_000))

    assert isinstance(verdict, Rejection)
    assert len(verdict.message) < 200
