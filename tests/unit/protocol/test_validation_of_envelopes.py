"""The rules about envelopes, one table of cases per rule."""

import base64
from typing import Any

import pytest

from ilyama_protocol.limits import Limits
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_of
from ilyama_protocol.validation import validate
from tests.unit.protocol.payloads import (
    ABSENT,
    BATCH_ID,
    COLUMNS,
    UUID4,
    change,
    code_of,
    columns_of,
    described,
    document,
    encoded,
    path_of,
    verdict_on,
)
from tests.unit.protocol.vectors import vectors

ROWS, TELEMETRY, OBSERVE, ACK, REQUEST = (
    MessageKind.ROWS,
    MessageKind.TELEMETRY,
    MessageKind.OBSERVE,
    MessageKind.ACK,
    MessageKind.REQUEST,
)
BATCHES = (ROWS, TELEMETRY)
KINDS = (*BATCHES, OBSERVE, ACK, REQUEST)
NOT_INTEGERS: tuple[Any, ...] = (ABSENT, None, True, "1", 1.0, [1], {})
NOT_UUID7 = (ABSENT, None, 7, "", UUID4, BATCH_ID.replace("-", ""), BATCH_ID + "\n")
NOT_TIMESTAMPS = (ABSENT, None, 0, "", "2026-04-28 09:00:00Z", "2026-04-28T09:00:60Z")
NOT_SEQUENCE_NUMBERS = (*NOT_INTEGERS, -1, 2**63)


@pytest.mark.parametrize("vector", vectors("validation"))
def test_a_payload_gets_the_code_of_its_vector(vector: dict[str, Any]) -> None:
    verdict = validate(
        kind_of(vector["topic"]),
        base64.b64decode(vector["payload_b64"]),
        registered=vector["registered"],
    )

    assert code_of(verdict) == vector["code"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_message_passes(kind: MessageKind) -> None:
    assert code_of(verdict_on(kind, document(kind))) is None


def test_nothing_is_received_on_an_unknown_topic() -> None:
    assert code_of(validate(None, encoded(document(ROWS)))) == "unknown_topic"


def test_messages_of_device_management_are_not_judged_here() -> None:
    with pytest.raises(ValueError, match="device messages"):
        validate(MessageKind.DEVICE, b"{}")


@pytest.mark.parametrize(("surplus", "code"), [(0, None), (1, "payload_too_large")])
def test_a_payload_has_at_most_512_kib(surplus: int, code: str | None) -> None:
    payload = encoded(document(ROWS)).ljust(524_288 + surplus)

    assert code_of(validate(ROWS, payload)) == code


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'"format_version"', b'"x":1,"x":1,"format_version"', "invalid_json"),
        (b'"format_version"', b'"x":NaN,"format_version"', "invalid_number_encoding"),
        (b'"format_version"', b'"x":NaN,"x":1,"format_version"', "invalid_json"),
    ],
)
def test_unreadable_json_has_no_table_and_no_rows(
    kind: MessageKind, old: bytes, new: bytes, code: str
) -> None:
    verdict = validate(kind, encoded(document(kind)).replace(old, new))

    assert isinstance(verdict, Rejection)
    assert (verdict.code, verdict.source_table, verdict.row_count) == (code, None, 0)
    assert verdict.batch_id is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["device_id", "org_id", "project_id", "fleet_id"])
@pytest.mark.parametrize("value", [None, "x", {}])
def test_a_payload_names_no_tenant(kind: MessageKind, name: str, value: Any) -> None:
    verdict = verdict_on(kind, document(kind, **{name: value}))

    assert code_of(verdict) == "envelope_unstripped_tenant_fields"
    assert path_of(verdict) == f"$.{name}"


def test_a_column_may_be_named_like_a_tenant_field() -> None:
    row = change(pk={"device_id": 1}, row={"device_id": 1, "org_id": "x"})

    assert code_of(verdict_on(ROWS, document(ROWS, rows=[row], last_commit_seq=101))) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [*NOT_INTEGERS, 0, -1])
def test_the_format_version_is_an_integer_from_1(kind: MessageKind, version: Any) -> None:
    verdict = verdict_on(kind, document(kind, format_version=version))

    assert code_of(verdict) == "invalid_format_version"
    assert path_of(verdict) == "$.format_version"


@pytest.mark.parametrize("version", [2, 10, 2**63, 2**64, 10**300])
def test_only_format_version_1_is_spoken(version: int) -> None:
    verdict = verdict_on(ROWS, document(ROWS, format_version=version))

    assert isinstance(verdict, Rejection)
    assert (verdict.code, verdict.action) == ("unsupported_format_version", "upgrade")


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("strategy", [ABSENT, None, "", 1, [], "sqlite_row_batch_v2", "other"])
def test_a_batch_names_the_strategy_of_its_topic(kind: MessageKind, strategy: Any) -> None:
    verdict = verdict_on(kind, document(kind, capture_strategy=strategy))

    assert code_of(verdict) == "unsupported_capture_strategy"


def test_the_strategy_of_the_other_topic_is_refused() -> None:
    swapped = document(ROWS, capture_strategy="sqlite_telemetry_batch_v1")

    assert code_of(verdict_on(ROWS, swapped)) == "unsupported_capture_strategy"


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("batch_id", NOT_UUID7)
def test_a_batch_id_is_a_uuid7(kind: MessageKind, batch_id: Any) -> None:
    verdict = verdict_on(kind, document(kind, batch_id=batch_id))

    assert code_of(verdict) == "invalid_batch_id"
    assert path_of(verdict) == "$.batch_id"


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_must_be_registered(kind: MessageKind) -> None:
    assert code_of(verdict_on(kind, document(kind), registered=False)) == "unregistered_device"


ENVELOPE_FAULTS = {
    (ROWS, "journal_epoch"): NOT_UUID7,
    (ROWS, "first_commit_seq"): NOT_SEQUENCE_NUMBERS,
    (ROWS, "last_commit_seq"): NOT_SEQUENCE_NUMBERS,
    (ROWS, "rows"): (ABSENT, None, {}, "x", 1),
    (TELEMETRY, "batch_seq"): NOT_SEQUENCE_NUMBERS,
    (TELEMETRY, "row_count"): NOT_SEQUENCE_NUMBERS,
    (TELEMETRY, "cursor_start_ts"): NOT_TIMESTAMPS,
    (TELEMETRY, "cursor_end_ts"): NOT_TIMESTAMPS,
    (TELEMETRY, "rows"): (ABSENT, None, {}, "x", 1),
    (OBSERVE, "observed_at"): NOT_TIMESTAMPS,
    (ACK, "control_id"): (ABSENT, None, 1, [], {}),
    (REQUEST, "request_kind"): (ABSENT, None, 1, [], "", "Finalize"),
    (REQUEST, "batch_id"): NOT_UUID7,
    (REQUEST, "segment_kind"): (ABSENT, None, 1, [], "", "other"),
    **{
        (kind, "schema_hash"): (ABSENT, None, 1, "", "a3" * 31, "A3" * 32, "g" * 64, "a3" * 33)
        for kind in (*BATCHES, OBSERVE)
    },
    **{(kind, "schema_columns"): (1, "x", [], False) for kind in (*BATCHES, OBSERVE)},
    **{
        (kind, "source_table"): (ABSENT, None, 1, "", "x" * 129, "a\nb", "\0", "\x7f", "\x85")
        for kind in (*BATCHES, OBSERVE, REQUEST)
    },
}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(*member, value) for member, values in ENVELOPE_FAULTS.items() for value in values],
)
def test_the_envelope_is_complete_and_typed(kind: MessageKind, name: str, value: Any) -> None:
    verdict = verdict_on(kind, document(kind, **{name: value}))

    assert code_of(verdict) == "invalid_envelope"
    assert path_of(verdict) == f"$.{name}"


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        pytest.param(ROWS, {"source_table": "x" * 128}, id="longest table name"),
        pytest.param(ROWS, {"source_table": "\U0001f600" * 128}, id="code points, not bytes"),
        pytest.param(ROWS, {"source_table": "../ '; drop"}, id="any printable table name"),
        pytest.param(ROWS, {"schema_columns": None}, id="null columns are absent"),
        pytest.param(OBSERVE, {"schema_columns": {"anything": []}}, id="advisory columns"),
        pytest.param(ROWS, {"x": {"rows": [2**70]}}, id="unknown members"),
        pytest.param(ROWS, {"Device_ID": 1}, id="another case"),
        pytest.param(ACK, {"control_id": ""}, id="any text"),
        pytest.param(
            REQUEST,
            {"request_kind": "url_request", "batch_id": 1, "segment_kind": ABSENT},
            id="a URL request names no batch",
        ),
    ],
)
def test_the_envelope_leaves_room(kind: MessageKind, members: dict[str, Any]) -> None:
    assert code_of(verdict_on(kind, document(kind, **members))) is None


@pytest.mark.parametrize(
    ("count", "code", "action"),
    [(0, "empty_batch", "fix"), (4_097, "batch_too_many_rows", "split")],
)
@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch_has_1_to_4096_rows(kind: MessageKind, count: int, code: str, action: str) -> None:
    verdict = verdict_on(kind, document(kind, rows=[0] * count))

    assert isinstance(verdict, Rejection)
    assert (verdict.code, verdict.action, verdict.json_path) == (code, action, "$.rows")
    assert verdict.row_count == count


def test_limits_are_settings() -> None:
    payload = encoded(document(ROWS))

    assert code_of(validate(ROWS, payload, limits=Limits(batch_max_rows=1))) == (
        "batch_too_many_rows"
    )
    assert code_of(validate(ROWS, payload, limits=Limits(payload_max_bytes=99))) == (
        "payload_too_large"
    )


def column(**members: Any) -> dict[str, Any]:
    first, second = columns_of(*COLUMNS)["columns"]
    bent = {name: value for name, value in {**first, **members}.items() if value is not ABSENT}
    return {"table_name": "device_state", "columns": [bent, second]}


@pytest.mark.parametrize(
    ("schema_columns", "path"),
    [
        ({}, "$.schema_columns.table_name"),
        (columns_of(*COLUMNS, table_name="other"), "$.schema_columns.table_name"),
        ({"table_name": "device_state"}, "$.schema_columns.columns"),
        ({"table_name": "device_state", "columns": {}}, "$.schema_columns.columns"),
        ({"table_name": "device_state", "columns": [1]}, "$.schema_columns.columns[0]"),
        (column(name=1), "$.schema_columns.columns[0].name"),
        (column(name="mode"), "$.schema_columns.columns[1].name"),
        (column(decl_type_affinity="integer"), "$.schema_columns.columns[0].decl_type_affinity"),
        (column(decl_type_affinity=[]), "$.schema_columns.columns[0].decl_type_affinity"),
        (column(pk_ordinal=-1), "$.schema_columns.columns[0].pk_ordinal"),
        (column(pk_ordinal=True), "$.schema_columns.columns[0].pk_ordinal"),
        (column(pk_ordinal=1.0), "$.schema_columns.columns[0].pk_ordinal"),
        (column(not_null=1), "$.schema_columns.columns[0].not_null"),
        (column(not_null=ABSENT), "$.schema_columns.columns[0].not_null"),
        (column(pk_ordinal=2), "$.schema_hash"),
        (columns_of(COLUMNS[0]), "$.schema_hash"),
    ],
)
def test_declared_columns_hash_to_the_schema_hash(
    schema_columns: dict[str, Any], path: str
) -> None:
    verdict = verdict_on(ROWS, described(schema_columns=schema_columns))

    assert code_of(verdict) == "schema_hash_mismatch"
    assert path_of(verdict) == path


@pytest.mark.parametrize(
    "schema_columns",
    [
        columns_of(*COLUMNS),
        columns_of(*reversed(COLUMNS)),
        column(comment="kept apart"),
        {**columns_of(*COLUMNS), "comment": [1]},
    ],
)
def test_declared_columns_may_say_more(schema_columns: dict[str, Any]) -> None:
    assert code_of(verdict_on(ROWS, described(schema_columns=schema_columns))) is None
