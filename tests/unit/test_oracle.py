"""The oracle is right where the answer is known: vectors, and small streams worked by hand."""

import base64
import json
from typing import Any

import pytest

from tests.oracle import Event, Oracle
from tests.oracle.canonical import (
    canonical_json,
    datapoint_id,
    datapoint_key,
    instance,
    schema_hash,
    sha256_hex,
)
from tests.oracle.instants import instant, utc_day
from tests.oracle.scanner import NotJson, scan
from tests.oracle.topics import Address, parse_topic
from tests.unit.protocol.vectors import vectors

TOPIC = "acme/dev-0001/sync/rows/batch"
NOON = 1_777_377_600_000_000
EPOCH_A = "019693d0-0000-7000-8000-00000000000a"
EPOCH_B = "019693d0-0000-7000-8000-00000000000b"
COLUMNS = [
    {"name": "id", "decl_type_affinity": "INTEGER", "pk_ordinal": 1, "not_null": True},
    {"name": "mode", "decl_type_affinity": "TEXT", "pk_ordinal": 0, "not_null": False},
]


def change(commit_seq: int, pk: object = 1, op: str = "update", **row: object) -> dict[str, Any]:
    sent = {"commit_seq": commit_seq, "op": op, "pk": {"id": pk}}
    return sent if op == "delete" else {**sent, "row": row}


def batch(*rows: dict[str, Any], epoch: str = EPOCH_A, **members: object) -> bytes:
    numbers = [row["commit_seq"] for row in rows]
    document = {
        "format_version": 1,
        "capture_strategy": "sqlite_row_batch_v1",
        "batch_id": "019693e0-7c1a-7b3e-9f00-0123456789ab",
        "journal_epoch": epoch,
        "source_table": "t",
        "schema_hash": "a3" * 32,
        "first_commit_seq": min(numbers),
        "last_commit_seq": max(numbers),
        "rows": rows,
        **members,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def with_schema() -> dict[str, Any]:
    schema = {"table_name": "t", "columns": COLUMNS}
    return {"schema_hash": schema_hash("t", COLUMNS), "schema_columns": schema}


def fed(*payloads: bytes, topic: str = TOPIC, **options: Any) -> dict[str, list[dict[str, Any]]]:
    oracle = Oracle(**options)
    for number, payload in enumerate(payloads):
        oracle.feed(Event(topic, payload, NOON + number * 1_000_000))
    return oracle.tables()


def picked(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("vector", vectors("validation"))
def test_a_vector_payload_gets_its_code(vector: dict[str, Any]) -> None:
    root = "acme/dev-0001"
    registry = {("acme", "dev-0001"): "d1"} if vector["registered"] else {}
    oracle = Oracle(auto_register=False, registry=registry)
    oracle.feed(Event(f"{root}/{vector['topic']}", base64.b64decode(vector["payload_b64"]), NOON))
    [line] = oracle.tables()["batch_ledger"]
    assert line["code"] == vector["code"]


@pytest.mark.parametrize("vector", vectors("canonical_and_hash"))
def test_a_vector_value_has_its_canonical_text_and_hash(vector: dict[str, Any]) -> None:
    text = canonical_json(scan(vector["input_json"].encode()))
    assert (text, sha256_hex(text)) == (vector["canonical"], vector["sha256"])


@pytest.mark.parametrize("vector", vectors("datapoint_id"))
def test_a_vector_series_has_its_datapoint_id(vector: dict[str, Any]) -> None:
    assert datapoint_id(tuple(vector["series"]), vector["ts_us"]) == vector["datapoint_id"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,-0,1.5,"x",true,null,{}]}', {"a": [1, 0, 1.5, "x", True, None, {}]}),
        (' \r\n\t{ "a" : [ ] , "b" : { } } ', {"a": [], "b": {}}),
        (r'{"\u0061":"\ud83d\ude00\u0000\/\""}', {"a": '\U0001f600\0/"'}),
        ('{"a":1e999,"b":-1e999}', {"a": float("inf"), "b": float("-inf")}),
    ],
)
def test_the_scanner_reads_what_json_allows(text: str, value: dict[str, Any]) -> None:
    assert scan(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}x",
        "{}\0",
        "{'a':1}",
        '{"a":1,}',
        '{"a":01}',
        '{"a":.5}',
        '{"a":1.}',
        '{"a":+1}',
        '{"a":nan}',
        '{"a":-NaN}',
        '{"a":"\t"}',
        r'{"a":"\x"}',
        r'{"a":"\ud800"}',
        r'{"a":1,"\u0061":2}',
        "\ufeff{}",
        '{"a":' + "[" * 32 + "]" * 32 + "}",
    ],
)
def test_the_scanner_refuses_everything_else(text: str) -> None:
    with pytest.raises(NotJson):
        scan(text.encode())


@pytest.mark.parametrize(
    ("text", "same_instant"),
    [
        ("2026-04-28t09:00:00z", "2026-04-28T11:00:00+02:00"),
        ("2026-04-28T09:00:00.5-00:00", "2026-04-28T09:00:00.500000000Z"),
        ("0001-01-01T00:00:00Z", "0000-12-31T23:00:00-01:00"),
        ("2024-02-29T23:30:00-00:30", "2024-03-01T00:00:00Z"),
    ],
)
def test_one_instant_has_many_spellings(text: str, same_instant: str) -> None:
    assert instant(text) is not None
    assert instant(text) == instant(same_instant)


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-28 09:00:00Z",
        "2026-04-28T09:00:00",
        "2026-04-28T09:00:60Z",
        "2026-04-28T24:00:00Z",
        "2026-02-29T09:00:00Z",
        "2026-04-28T09:00:00.Z",
        "2026-04-28T09:00:00.0123456789Z",
        "2026-04-28T09:00:00+24:00",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-04-28T09:00:00Z\n",
        1777366800,
    ],
)
def test_no_instant_is_read_from_anything_else(text: object) -> None:
    assert instant(text) is None


@pytest.mark.parametrize(
    ("topic", "address"),
    [
        ("acme/d/sync/rows/batch", Address("rows", ("acme", "d"))),
        ("/d/sync/ingest/ack", Address("ack", ("", "d"))),
        ("a.b/d/sync/ingest/control", Address(None, ("a.b", "d"))),
        ("acme/d/sync/rows/batch/", Address(None, ("acme", "d"))),
        ("devices/d/telemetry", Address("device", ("", "d"))),
        ("devices/d/config/status/mqtt", Address("device", ("", "d"))),
        ("devices/d/config/operation", Address(None, ("", "d"))),
        ("devices/d/sync/rows/batch", Address(None, ("", "d"))),
        ("cdc/d/sync/rows/batch", Address(None, None)),
        ("$SYS/d/sync/rows/batch", Address(None, None)),
        ("acme//sync/rows/batch", Address(None, None)),
        ("acme/+/sync/rows/batch", Address(None, None)),
        ("acme/d/other", Address(None, None)),
        ("acme", Address(None, None)),
    ],
)
def test_a_topic_names_kind_and_device(topic: str, address: Address) -> None:
    assert parse_topic(topic) == address


def test_keys_and_instances_are_percent_encoded() -> None:
    assert datapoint_key("plant.a", "50%") == "plant%2Ea.50%25"
    assert datapoint_key("t", "__deleted") == "t.%5F_deleted"
    assert instance({"b": "x/y%", "a": None, "c": 1.0, "d": True}) == "/x%2Fy%25/1.0/true"


def test_a_redelivered_batch_adds_no_rows() -> None:
    tables = fed(batch(change(1, v=1)), batch(change(1, v=1)))
    assert picked(tables["batch_ledger"], "outcome", "rows_new", "rows_duplicate") == [
        ("accepted", 1, 0),
        ("duplicate", 0, 1),
    ]
    assert len(tables["row_changes"]) == len(tables["metric_datapoint"]) == 1
    assert tables["key_conflicts"] == []


def test_a_respelled_row_is_the_same_row() -> None:
    sent = batch(change(1, a=10.0, b="é"))
    respelled = sent.replace(b'"a":10.0', b' "\\u0061" : 1e1 ')
    tables = fed(sent, respelled)
    assert tables["batch_ledger"][1]["rows_conflict"] == 0
    assert tables["row_changes"][0]["row"] == '{"a":10.0,"b":"\\u00e9"}'


def test_other_content_under_a_known_key_is_a_conflict_and_changes_nothing() -> None:
    first, other = batch(change(1, v=1)), batch(change(1, v=2), change(1, v=2))
    tables = fed(first, other, other)
    [conflict] = tables["key_conflicts"]
    assert conflict["first"] == '{"op":"update","row":{"v":1}}'
    assert conflict["other"] == '{"op":"update","row":{"v":2}}'
    assert conflict["arrivals"] == 4
    pk_hash = sha256_hex('{"id":1}')
    assert conflict["key"] == (
        f'{{"commit_seq":1,"journal_epoch":"{EPOCH_A}","source_pk_hash":"{pk_hash}"}}'
    )
    assert [row["value"] for row in tables["metric_datapoint"]] == [1.0]


def test_a_row_is_late_behind_a_higher_number_or_a_newer_epoch() -> None:
    tables = fed(
        batch(change(5, v=5), change(4, v=4), change(4, 2, v=4)),
        batch(change(1, v=1), epoch=EPOCH_B),
        batch(change(6, v=6), change(6, 3, v=6)),
    )
    assert picked(tables["row_changes"], "commit_seq", "late") == [
        (5, False),
        (4, True),
        (4, False),
        (1, False),
        (6, True),
        (6, False),
    ]
    current = {row["instance"]: row["value_double"] for row in tables["current_value"]}
    assert current == {"1": 1.0, "2": 4.0, "3": 6.0}


def test_epochs_rank_by_device_and_not_by_table() -> None:
    tables = fed(
        batch(change(1), epoch=EPOCH_B, source_table="u"),
        batch(change(9), epoch=EPOCH_A.upper()),
        batch(change(1), epoch=EPOCH_B),
    )
    assert [row["late"] for row in tables["row_changes"]] == [False, False, True]
    assert tables["row_changes"][1]["journal_epoch"] == EPOCH_A


def test_received_at_moves_on_by_the_bytes_of_every_message_before() -> None:
    oracle = Oracle()
    for payload in (b"x" * 81, b"", b"y" * 40, b""):
        oracle.feed(Event(TOPIC, payload, NOON))
    oracle.feed(Event("acme/other/sync/rows/batch", b"", NOON))
    oracle.feed(Event("nowhere", b"", NOON))
    received = [row["received_at"] - NOON for row in oracle.tables()["raw_batches"]]
    assert received == [0, 3, 4, 6, 0, 0]


def test_ops_write_their_datapoints() -> None:
    tables = fed(batch(change(1, op="insert", v=1), change(2, v=None), change(3, op="delete")))
    assert picked(tables["metric_datapoint"], "key", "ts", "value") == [("t.v", NOON, 1.0)]
    assert picked(tables["state_datapoint"], "key", "ts", "value") == [
        ("t.__deleted", NOON, "false"),
        ("t.v", NOON + 1, None),
        ("t.__deleted", NOON + 2, "true"),
    ]
    assert picked(tables["current_value"], "key", "kind", "value_double", "value_text") == [
        ("t.v", "state", None, None),
        ("t.__deleted", "state", None, "true"),
    ]


def test_known_affinities_bind_and_quarantine_from_their_first_valid_batch_on() -> None:
    hash_only = {"schema_hash": schema_hash("t", COLUMNS)}
    tables = fed(
        batch(change(1, id="x", other=1), **hash_only),
        batch(change(1, id="x", other=1), **with_schema()),
        batch(change(2, mode=5, other=1), change(3, id=None, mode=None), **hash_only),
    )
    assert picked(tables["metric_datapoint"], "key", "value") == [("t.other", 1.0), ("t.id", None)]
    assert picked(tables["state_datapoint"], "key", "value") == [("t.id", "x"), ("t.mode", None)]
    assert picked(tables["quarantined_datapoints"], "key", "kind", "value", "reason") == [
        ("t.mode", "state", "5", "kind_mismatch"),
    ]


def test_a_misfit_in_a_key_or_not_null_column_sets_the_row_aside() -> None:
    tables = fed(
        batch(change(1, id="x"), change(2, id=None), change(3, id=True), **with_schema()),
    )
    assert picked(tables["row_changes"], "commit_seq") == [(2,)]
    assert picked(tables["staged_rows"], "commit_seq", "staging_reason") == [
        (1, "materialization_failed"),
        (3, "materialization_failed"),
    ]
    assert picked(tables["batch_ledger"], "outcome", "rows_new", "rows_staged") == [
        ("accepted", 1, 2)
    ]


def test_five_misfits_in_a_row_pause_the_lineage_from_the_next_batch_on() -> None:
    misfits = [change(seq, id="x") for seq in range(6)]
    tables = fed(
        batch(*misfits, change(6, id=1), **with_schema()), batch(change(7, id=1), **with_schema())
    )
    assert picked(tables["row_changes"], "commit_seq") == [(6,)]
    assert picked(tables["batch_ledger"], "outcome", "code") == [
        ("accepted", None),
        ("staged", "lineage_paused"),
    ]


def test_state_values_are_texts_and_metrics_are_doubles() -> None:
    row: dict[str, Any] = {"a": True, "b": {"y": [1, 2.50], "x": "é"}, "c": "s", "d": 2**53 + 1}
    tables = fed(batch(change(1, **row)))
    assert [row["value"] for row in tables["state_datapoint"]] == [
        "true",
        '{"x":"é","y":[1,2.5]}',
        "s",
    ]
    assert [row["value"] for row in tables["metric_datapoint"]] == [float(2**53)]


@pytest.mark.parametrize(
    ("payload", "code", "path", "table", "batch_id", "rows"),
    [
        (b"{", "invalid_json", "$", None, None, 0),
        (
            batch(change(1, v=float("nan"))),
            "invalid_number_encoding",
            "$.rows[0].row.v",
            None,
            None,
            0,
        ),
        (batch(change(1), org_id=1), "envelope_unstripped_tenant_fields", "$.org_id", "t", None, 1),
        (batch(change(1), source_table=""), "invalid_envelope", "$.source_table", None, "id", 1),
        (batch(change(1), change(2, pk=[])), "invalid_row", "$.rows[1].pk.id", "t", "id", 2),
        (
            batch(change(1, v=[{"a b": 2**63}])),
            "invalid_row",
            '$.rows[0].row.v[0]["a b"]',
            "t",
            "id",
            1,
        ),
    ],
)
def test_a_rejection_is_counted_where_it_can_be(
    payload: bytes, code: str, path: str, table: str | None, batch_id: str | None, rows: int
) -> None:
    tables = fed(payload)
    [rejection], [line] = tables["rejected_batches"], tables["batch_ledger"]
    assert (rejection["code"], rejection["json_path"], rejection["payload"]) == (
        code,
        path,
        payload,
    )
    assert rejection["source_table"] == line["source_table"] == table
    assert (line["batch_id"] is not None) == (batch_id is not None)
    assert line["rows_received"] == line["rows_rejected"] == rows
    assert tables["row_changes"] == []


def test_an_unregistered_device_has_no_id_and_no_clock() -> None:
    tables = fed(batch(change(1)), auto_register=False)
    assert picked(tables["rejected_batches"], "code", "device_id", "source_table") == [
        ("unregistered_device", None, "t")
    ]


@pytest.mark.parametrize(
    ("topic", "device_id"),
    [("/d/sync/rows/batch", "d"), ("acme/d/sync/rows/batch", "acme/d")],
)
def test_an_unknown_device_is_named_by_its_topic(topic: str, device_id: str) -> None:
    [row] = fed(batch(change(1)), topic=topic)["row_changes"]
    assert row["device_id"] == device_id


def test_messages_that_are_no_row_batches_are_kept() -> None:
    ack = fed(b'{"format_version":1,"control_id":"c"}', topic="a/d/sync/ingest/ack")
    device = fed(b"anything", topic="devices/d/telemetry")
    assert picked(ack["batch_ledger"], "kind", "outcome", "batch_id") == [("ack", "handled", None)]
    assert picked(device["batch_ledger"], "kind", "device_id") == [("device", "d")]


def test_a_lineage_with_too_many_instances_is_not_served() -> None:
    oracle = Oracle(served_instances=2)
    rows = [change(number, number, v=1) for number in range(3)]
    oracle.feed(Event(TOPIC, batch(*rows), NOON))
    oracle.feed(Event(TOPIC, batch(change(9, v=1), source_table="few"), NOON))
    assert len(oracle.tables()["current_value"]) == 4
    assert picked(oracle.served_current_values(), "key") == [("few.v",)]


def test_days_follow_the_effective_time() -> None:
    midnight = 1_777_420_800_000_000
    oracle = Oracle()
    oracle.feed(Event(TOPIC, batch(change(1, v=1), change(2, v=2)), midnight - 1))
    tables = oracle.tables()
    assert [row["day"] for row in tables["row_changes"]] == ["2026-04-28", "2026-04-28"]
    assert [row["day"] for row in tables["metric_datapoint"]] == ["2026-04-28", "2026-04-29"]
    assert utc_day(-1) == "1969-12-31"
