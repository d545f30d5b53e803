"""Streams are reproducible, complete, and wrong exactly where they mean to be."""

import base64
import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ilyama_service.simulator.mutations import BROKEN_TEXTS, Mutation
from ilyama_service.simulator.spelling import compact, respelled
from tests.oracle import Event, Oracle
from tests.oracle.scanner import scan
from tests.oracle.validation import judge
from tests.streams import FAULTS, generate, generate_bulk, write_cloudevents
from tests.streams.generator import DAY_US, arrival_times
from tests.streams.identifiers import START_US
from tests.streams.other_faults import MUTATIONS, VALID
from tests.streams.stream import Stream

Tables = dict[str, list[dict[str, Any]]]
EVERY_CODE = [
    pytest.param(kind, code, mutations, id=f"{kind}-{code}")
    for kind, by_code in MUTATIONS.items()
    for code, mutations in by_code.items()
]
ROW_CODES = {
    "batch_too_many_rows",
    "payload_too_large",
    "invalid_json",
    *MUTATIONS["rows"],
}
STAGING_REASONS = {"schema_review", "lineage_paused"}


def new_stream() -> Stream:
    rng = random.Random(1)
    return Stream(rng, devices=2, tables=2, rows_per_batch=(1, 5), pks_per_table=5)


def fed(events: list[Event], **options: Any) -> Tables:
    oracle = Oracle(**options)
    for event in events:
        oracle.feed(event)
    return oracle.tables()


@pytest.fixture(scope="module")
def tables() -> Tables:
    return fed(generate(42, batches=250, rows_per_batch=(1, 6)))


@pytest.mark.parametrize(("kind", "code", "mutations"), EVERY_CODE)
def test_a_mutation_is_rejected_with_its_code(
    kind: str, code: str, mutations: tuple[Mutation, ...]
) -> None:
    stream = new_stream()
    for mutation in mutations:
        document = VALID[kind](stream)
        mutation(document, stream.rng)
        assert judge(kind, compact(document).encode(), registered=True).code == code, document


@pytest.mark.parametrize("kind", VALID)
def test_a_document_without_a_mutation_is_valid(kind: str) -> None:
    stream = new_stream()
    payloads = [compact(VALID[kind](stream)).encode() for _ in range(20)]
    assert [judge(kind, payload, registered=True).code for payload in payloads] == [None] * 20


def test_a_broken_text_is_no_json() -> None:
    sound = compact(VALID["rows"](new_stream())).encode()
    for spoil in BROKEN_TEXTS:
        assert judge("rows", spoil(sound), registered=True).code == "invalid_json", spoil(sound)


def test_all_faults_together_play_every_outcome_code_and_table() -> None:
    stream = new_stream()
    stream.publish([stream.plain_message()])
    for fault in FAULTS.values():
        stream.publish(fault(stream))
    tables = fed([Event(sent.topic, sent.payload, START_US) for sent in stream.sent])
    lines = [line for line in tables["batch_ledger"] if line["kind"] == "rows"]
    rejected = [line for line in lines if line["outcome"] == "rejected"]
    assert {line["code"] for line in rejected} == {*ROW_CODES}
    assert {line["outcome"] for line in lines} == {"accepted", "duplicate", "rejected", "staged"}
    staged = [line for line in lines if line["outcome"] == "staged"]
    assert {line["code"] for line in staged} >= STAGING_REASONS
    assert {line["kind"] for line in tables["batch_ledger"]} == {*VALID, "device", None}
    assert all(tables.values())


def test_a_respelled_document_says_the_same() -> None:
    stream = new_stream()
    for _ in range(50):
        document = stream.next_batch().document()
        text = respelled(document, stream.rng)
        assert scan(text.encode()) == scan(compact(document).encode())


def test_a_seed_decides_every_byte() -> None:
    assert generate(7, batches=60) == generate(7, batches=60)
    assert generate(7, batches=60) != generate(8, batches=60)


def test_the_ledger_balances(tables: Tables) -> None:
    for line in tables["batch_ledger"]:
        parts = ("rows_new", "rows_duplicate", "rows_rejected", "rows_staged")
        assert line["rows_received"] == sum(line[part] for part in parts)


def test_some_rows_are_late_and_some_keys_in_conflict(
    tables: Tables,
) -> None:
    assert {row["late"] for row in tables["row_changes"]} == {True, False}
    assert tables["key_conflicts"]


def test_arrival_times_never_go_back_but_tie_and_cross_midnight() -> None:
    times = list(islice(arrival_times(random.Random(1), START_US, day_crossings=True), 50_000))
    assert times == sorted(times)
    assert len(set(times)) < len(times)
    assert len({time // DAY_US for time in times}) > 1


def test_a_stream_of_one_day_stays_in_it() -> None:
    times = islice(arrival_times(random.Random(1), START_US, day_crossings=False), 50_000)
    assert len({time // DAY_US for time in times}) == 1


def test_no_two_datapoints_of_a_series_share_a_time(
    tables: Tables,
) -> None:
    for table in ("metric_datapoint", "state_datapoint", "quarantined_datapoints"):
        ids = Counter(point["datapoint_id"] for point in tables[table])
        assert max(ids.values()) == 1


def test_an_unregistered_device_is_turned_away_where_devices_do_not_register_themselves() -> None:
    registry = {(device.slug, device.name): device.name for device in new_stream().devices}
    tables = fed(generate(1, batches=150), auto_register=False, registry=registry)
    codes = Counter(line["code"] for line in tables["batch_ledger"])
    assert codes["unregistered_device"] > codes[None] * 0.1
    assert {row["device_id"] for row in tables["row_changes"]} == set(registry.values())


def test_a_bulk_stream_is_accepted_whole() -> None:
    tables = fed(generate_bulk(1, batches=6, rows_per_batch=40, devices=2, pks=10))
    assert len(tables["row_changes"]) == 240
    assert not any(row["late"] for row in tables["row_changes"])
    assert {line["outcome"] for line in tables["batch_ledger"]} == {"accepted"}


def test_a_stream_survives_as_cloudevents(tmp_path: Path) -> None:
    events = generate(2, batches=60, rows_per_batch=(1, 6))
    write_cloudevents(events, tmp_path / "stream.jsonl")
    lines = (tmp_path / "stream.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    read = [json.loads(line) for line in lines]
    assert [line["subject"] for line in read] == [event.topic for event in events]
    assert [base64.b64decode(line["data_base64"]) for line in read] == [
        event.payload for event in events
    ]
    assert {line["type"] for line in read} == {"MQTT.EventPublished"}
    assert len({line["id"] for line in read}) == 60
