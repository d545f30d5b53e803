"""Whatever devices and people call things, however long, drains close and go on."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from ilyama_assets.drains import task
from ilyama_assets.drains.deciding import Decider
from ilyama_assets.drains.projection import projected
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake import engine
from ilyama_protocol.intake.datapoints import DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue, Message
from ilyama_protocol.names import MAX_NAME
from ilyama_resources.landing.directory import register
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres import GatewayRefused
from ilyama_resources.postgres.current_values import CurrentValueFilter
from ilyama_resources.postgres.devices import LONGEST_ROOT_BYTES
from ilyama_resources.postgres.rejections import RejectionFilter
from tests.oracle import Event
from tests.platform import Platform
from tests.unit.intake.traffic import NOW, batch, sample, telemetry

BYTES_OF_AN_ENTRY = 2_704
"""Postgres refuses a row of which an index entry would be longer."""
_HEADER, _OF_A_TEXT, _OF_A_NUMBER = 8, 8, 16
_OWN_ID, _TABLE, _NAME = LONGEST_ROOT_BYTES + 1, 4 * 128, 4 * MAX_NAME
_LONGEST = {
    "device_id": _OWN_ID,
    "component_id": _OWN_ID,
    "owner_id": _OWN_ID,
    # Both together are bounded.
    "topic_slug": 0,
    "device_name": LONGEST_ROOT_BYTES,
    "source_table": _TABLE,
    # A journal or a table.
    "name": _TABLE,
    "firmware_version": _NAME,
    "project_id": _NAME,
    "scope_id": _NAME,
    '"left"(family, 128)': 4 * 128,
    # Of a policy: a project and a table.
    "resource": len("policy//") + _NAME + _TABLE,
    "idempotency_key": 255,
    "schema_hash": 64,
    "name_hash": 64,
    "token_hash": 64,
}
_SHORT = {
    *("asset", "code", "kind", "origin", "outcome", "reason", "scope_kind", "segment_id"),
    *("staging_reason", "state", "version_num"),
}
"""Words of the platform's own."""
_LONGEST_SHORT = 40
_INDEXED = """
SELECT found.indexrelid::regclass::text, pg_get_indexdef(found.indexrelid, number, true),
       attribute.atttypid = 'text'::regtype OR attribute.atttypid = 'varchar'::regtype
FROM pg_index AS found
JOIN pg_class AS owner ON owner.oid = found.indrelid
JOIN pg_namespace AS space ON space.oid = owner.relnamespace AND space.nspname = 'public'
CROSS JOIN generate_series(1, found.indnkeyatts) AS number
JOIN pg_attribute AS attribute
  ON attribute.attrelid = found.indexrelid AND attribute.attnum = number
"""


def noise(characters: int, seed: int = 0, *, wide: bool = True) -> str:
    """Random text, which nothing compresses; wide characters have four bytes each."""
    random = Random(f"{characters} {seed}")
    low, high = (0x10000, 0x10FFFD) if wide else (0x61, 0x7B)
    return "".join(chr(random.randrange(low, high)) for _ in range(characters))


TABLE = noise(128)
NAME = noise((LONGEST_ROOT_BYTES - 1) // 4)
DEVICE = f"a/{NAME}"
STRANGER = noise(8_000)
PROPERTIES = {
    "firmware_version": noise(15_000),
    "correlation_id": noise(15_000, 1),
    noise(15_000, 2): "",
}


def test_no_index_entry_can_be_longer_than_postgres_has_room_for(
    platform_without_spark: Platform,
) -> None:
    """A new index on a text says here how long that may be; what has no end is not indexed."""
    made = create_engine(platform_without_spark.settings.postgres_url or "")
    with made.connect() as connection:
        parts = connection.execute(text(_INDEXED)).all()
    made.dispose()
    longest: Counter[str] = Counter()
    for index, part, is_text in parts:
        longest[index] += _longest(part) if is_text else _OF_A_NUMBER
    assert "rejection_by_code" in longest
    too_long = {name: size for name, size in longest.items() if size + _HEADER > BYTES_OF_AN_ENTRY}
    assert not too_long


def _longest(part: str) -> int:
    return _OF_A_TEXT + (_LONGEST_SHORT if part in _SHORT else _LONGEST[part])


def _rows(number: int) -> bytes:
    """Rows whose keys, columns and values are tens of kilobytes long."""
    columns = tuple(
        SchemaColumn(noise(5_000, seed), affinity, pk_ordinal=int(seed == 0), not_null=seed == 0)
        for seed, affinity in enumerate((Affinity.TEXT, Affinity.TEXT, Affinity.REAL))
    )
    pk, word, size = (column.name for column in columns)
    row = {word: noise(10_000, number), size: number / 2}
    key = {pk: noise(10_000, 3)}
    change = {"commit_seq": number, "op": "update", "pk": key, "row": key | row}
    return batch(change, number=number, table=TABLE, schema=columns)


def _samples(number: int) -> bytes:
    fields = {noise(5_000, 1): noise(20_000, number), noise(5_000, 2): number / 2}
    return telemetry(sample(number, **fields), seq=number, number=100 + number, table=noise(128, 7))


def _refused() -> bytes:
    """A batch that nobody takes, with a long word wherever one fits."""
    document = json.loads(_rows(50))
    long = {noise(9_000, 4): noise(9_000, 5), "journal_epoch": noise(9_000, 6)}
    return json.dumps(document | long, ensure_ascii=False).encode()


def _sent(number: int) -> list[tuple[str, bytes]]:
    rows, samples = f"{DEVICE}/sync/rows/batch", f"{DEVICE}/sync/telemetry/batch"
    return [
        (rows, _rows(number)),
        (samples, _samples(number)),
        (rows, _refused()),
        (f"a/{STRANGER}/sync/rows/batch", _rows(number)),
        (f"{DEVICE}/sync/{noise(8_000, 9)}", b"{}"),
        (f"devices/{NAME}/telemetry", noise(50_000).encode()),
    ]


def _land(platform: Platform, intake: Intake, number: int) -> None:
    messages = [
        Message("", place, topic, payload, NOW + number * 1_000 + place, user_properties=PROPERTIES)
        for place, (topic, payload) in enumerate(_sent(number))
    ]
    register(platform.gateway, [intake.landing.write(SegmentIds.fresh()[0], messages)])


def _drain_all(intake: Intake) -> None:
    with intake.alone():
        while intake.drain() is not None:
            pass


def test_the_longest_texts_are_taken_in_served_and_explained(platform: Platform) -> None:
    with platform.intake() as intake:
        _land(platform, intake, 1)
        _drain_all(intake)
        _land(platform, intake, 2)
        _drain_all(intake)
    sent = [Event(topic, payload, NOW + 9_000_000) for topic, payload in _sent(3)]
    platform.import_events(sent)
    platform.drain()

    lines = Counter(line["outcome"] for line in platform.rows("batch_ledger"))
    assert lines == {"accepted": 6, "rejected": 9, "kept": 3}
    with platform.gateway.transaction() as tx:
        drains = tx.drains.page(limit=9)
        values = {value.key: value for value in tx.current_values.of_device(DEVICE)}
        rejected = tx.rejections.newest(RejectionFilter(), limit=99)
        unserved = tx.current_values.unserved_tables(DEVICE)
        entry = tx.devices.entry(DEVICE)
    assert {drain.state for drain in drains} == {"done"}
    assert [v.value_double for v in values.values() if v.kind == "metric"] == [1.5]
    assert [v.value_text for v in values.values() if v.kind == "state"] == [noise(20_000, 3)]
    assert unserved == [TABLE], "instances this long are served from Delta only"
    assert entry is not None
    assert entry.firmware_version is None
    assert {found.firmware_version for found in rejected} == {"unknown"}
    assert {found.code for found in rejected} == {
        "invalid_envelope",
        "unregistered_device",
        "unknown_topic",
    }


def test_a_drain_that_was_sealed_with_firmware_of_any_length_is_closed(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine of an older build decides here, in this process rather than on Spark."""
    long = noise(15_000)
    with platform.intake() as intake:
        _land(platform, intake, 1)
        with monkeypatch.context() as older, intake.alone():
            older.setattr(engine, "told_firmware", lambda told: told.get("firmware_version"))
            older.setattr(Decider, "_products", lambda _, orders: [*map(task.carry_out, orders)])
            assert intake.drain() is not None
        _land(platform, intake, 2)
        _drain_all(intake)
    stored = {row["firmware_version"] for row in platform.rows("rejected_batches")}
    assert long in stored
    with platform.gateway.transaction() as tx:
        rejected = tx.rejections.newest(RejectionFilter(), limit=99)
        entry = tx.devices.entry(DEVICE)
    assert {found.firmware_version for found in rejected} == {"unknown"}
    assert entry is not None
    assert entry.firmware_version is None


def test_a_value_of_the_longest_key_of_the_longest_device_is_served(
    platform_without_spark: Platform,
) -> None:
    """Keys that a person chooses may have no dot: then all of it is their family."""
    keys = [noise(MAX_NAME), noise(MAX_NAME)[:-1] + "x", f"{noise(200)}.b"]
    value = CurrentValue(DatapointKind.METRIC, 1.0, NOW, 1, TABLE, "edge.rows")
    current: Any = {key: {noise(20_000): value, "": value} for key in keys}
    with platform_without_spark.gateway.transaction() as tx:
        tx.current_instances.advance(projected([(DEVICE, current)]), drain_id=1)
        for key in keys:
            wanted = CurrentValueFilter(DEVICE, key)
            found = tx.current_values.page(wanted, after=None, limit=9)
            assert [served.record.key for served in found] == [key, key]
            named = wanted._replace(instance=noise(20_000))
            assert len(tx.current_values.page(named, after=None, limit=9)) == 1


def test_what_postgres_has_no_room_for_is_told_and_is_no_outage(
    platform_without_spark: Platform,
) -> None:
    lineage = (DEVICE, noise(2_000, 8))
    with (
        pytest.raises(GatewayRefused, match=r"refuses .*index row") as refused,
        platform_without_spark.gateway.transaction() as tx,
    ):
        tx.current_instances.stop_serving([lineage])
    assert not refused.value.may_pass
