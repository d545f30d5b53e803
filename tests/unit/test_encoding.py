"""Decisions become rows of the tables, in the shape their contracts promise."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ilyama_assets.drains.columns import repeated
from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.tables import TABLES
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import DeviceState
from tests.tables import Row, plain_rows
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    A,
    B,
    batch,
    change,
    columns,
    engine,
    message,
    sample,
    sampled,
    taken,
    telemetry,
)

DRAIN = 7
MICROSECONDS_PER_DAY = 86_400_000_000


def _encoded(engine: IntakeEngine) -> dict[str, pa.Table]:
    return Encoder(DRAIN, Origin.LIVE).encode(engine.decisions.outcomes)


def _rows(engine: IntakeEngine, table: str) -> list[Row]:
    return plain_rows(_encoded(engine)[table])


def _everything() -> IntakeEngine:
    """A drain that has something for every table."""
    schema = columns(v="REAL", w="TEXT")
    first = change(5, op="insert", row={"v": 1, "w": "on"})
    late = change(4, row={"v": "misfit", "w": None})
    met = taken(batch(first, schema=schema), batch(late, schema=schema, number=1), b"{")
    met.stage(message(b"{}", at=NOW + 9_000_000, position=3), "told to")
    return sampled(telemetry(sample(1), sample(-86_400), table="samples"), engine=met)


def test_every_table_has_the_columns_of_its_contract() -> None:
    encoded = _encoded(_everything())

    assert {*encoded} == {*TABLES} - {"key_conflicts", "sequence_gaps", "current_value"}
    for name, table in encoded.items():
        schema = TABLES[name].schema
        assert table.column_names == schema.names
        assert table.cast(schema).schema.types == schema.types


def test_tables_without_rows_are_left_out() -> None:
    assert {*_encoded(taken(b"{"))} == {"raw_batches", "batch_ledger", "rejected_batches"}
    assert _encoded(engine()) == {}


def test_every_row_names_its_drain_and_the_day_of_its_moment() -> None:
    for table in _encoded(_everything()).values():
        for row in plain_rows(table):
            moment = row["received_at"] if "received_at" in row else row["ts"]
            day = np.datetime64(moment // MICROSECONDS_PER_DAY, "D")
            assert (row["drain_id"], row["day"]) == (DRAIN, str(day))


def test_a_datapoint_belongs_to_the_day_of_its_own_moment() -> None:
    met = engine()
    last_moment = NOW // MICROSECONDS_PER_DAY * MICROSECONDS_PER_DAY + MICROSECONDS_PER_DAY - 1
    met.decide(message(batch(change(1), change(2, pk=2)), at=last_moment))

    assert [row["day"] for row in _rows(met, "row_changes")] == ["2026-04-28", "2026-04-28"]
    assert [row["day"] for row in _rows(met, "state_datapoint")] == ["2026-04-28", "2026-04-29"]


def test_row_changes_keep_the_words_of_the_device() -> None:
    payload = batch(change(1, op="delete"), change(2, row="ROW"), epoch=B)
    spelled = payload.replace(b'"ROW"', b'{ "v" : 1e2,"u":"\\u0041"}')

    deleted, updated = _rows(taken(spelled), "row_changes")

    assert (deleted["op"], deleted["row"], deleted["pk"]) == ("delete", None, '{"id":1}')
    assert updated["row"] == '{ "v" : 1e2,"u":"\\u0041"}'
    assert (updated["row_index"], updated["journal_epoch"]) == (1, B)


def test_only_new_rows_are_written_each_at_its_own_index() -> None:
    met = taken(batch(change(2)), batch(change(2), change(1), change(3)))

    told = [(r["commit_seq"], r["row_index"], r["late"]) for r in _rows(met, "row_changes")]

    assert told == [(2, 0, False), (1, 1, True), (3, 2, False)]


def test_datapoints_carry_their_rows_moment_and_lateness() -> None:
    met = taken(batch(change(5, row={"v": 1})), batch(change(9, pk=2), change(4, row={"v": 2})))

    points = _rows(met, "metric_datapoint")

    at = NOW + 1_000_000
    assert [(p["value"], p["ts"], p["late"]) for p in points] == [
        (1.0, NOW, False),
        (2.0, at + 1, True),
    ]
    assert {p["owner_id"] for p in points} == {p["component_id"] for p in points} == {DEVICE_ID}
    assert {(p["source_rule"], p["source_rule_version"]) for p in points} == {("edge.row_batch", 1)}


def test_a_misfit_is_set_apart_as_canonical_text() -> None:
    (row,) = _rows(_everything(), "quarantined_datapoints")

    assert (row["key"], row["value"], row["kind"]) == ("pumps.v", '"misfit"', "metric")
    assert (row["reason"], row["late"]) == ("kind_mismatch", True)


@pytest.mark.parametrize("table", ["metric_datapoint", "quarantined_datapoints"])
def test_user_properties_land_in_the_columns_of_their_name(table: str) -> None:
    met = engine()
    payload = batch(
        change(1, row={"v": 1}), change(2, row={"v": "misfit"}), schema=columns(v="REAL")
    )
    met.decide(message(payload, correlation_id="c", caused_by_event_id="e", other="é"))
    silent = batch(change(3, row={"v": 1}), change(4, row={"v": ""}), schema=columns(v="REAL"))
    met.decide(message(silent, position=1))

    told = [(p["correlation_id"], p["caused_by_event_id"]) for p in _rows(met, table)]
    properties = [row["user_properties"] for row in _rows(met, "raw_batches")]

    assert told == [("c", "e"), (None, None)]
    assert properties[0] == '{"correlation_id": "c", "caused_by_event_id": "e", "other": "é"}'
    assert properties[1] is None


def test_a_rejection_keeps_its_bytes_and_says_what_to_do() -> None:
    met = engine()
    met.decide(message(b"\xff{", firmware_version="1.2"))

    (row,) = _rows(met, "rejected_batches")

    assert (row["code"], row["action"], row["json_path"]) == ("invalid_json", "fix", "$")
    assert (row["payload"], row["firmware_version"]) == (b"\xff{", "1.2")


def test_a_sender_that_is_no_device_is_told_as_null() -> None:
    unknown = IntakeEngine(Device(None), DeviceState())
    unknown.decide(message(b"{}", topic="nonsense"))

    for table in _encoded(unknown).values():
        assert table["device_id"].to_pylist() == [None]


def test_a_conflict_names_its_key_and_counts_its_arrivals() -> None:
    other = batch(change(1, row={}))
    met = taken(batch(change(1)), other, other)

    table = Encoder(DRAIN, Origin.LIVE).conflicts(
        met.decisions.conflicts, device_id=DEVICE_ID, since=met.decisions.conflicts_since
    )

    (row,) = plain_rows(table)
    assert (row["kind"], row["source_table"], row["arrivals"]) == ("row", TABLE, 2)
    assert row["key"].startswith(f'{{"commit_seq":1,"journal_epoch":"{A}","source_pk_hash":"')
    assert (row["first"], row["other"]) == (
        '{"op":"update","row":{"mode":"idle"}}',
        '{"op":"update","row":{}}',
    )


@pytest.mark.parametrize(
    ("values", "counts", "expected"),
    [
        (["a", "b"], [2, 1], ["a", "a", "b"]),
        (["a", None, "a"], [1, 2, 1], ["a", None, None, "a"]),
        ([None], [2], [None, None]),
        (["a", "b"], [0, 0], []),
        (["a", None], [1, 0], ["a"]),
        ([], [], []),
    ],
)
def test_texts_are_repeated_as_often_as_they_count(
    values: list[Any], counts: list[int], expected: list[Any]
) -> None:
    assert repeated(values, np.array(counts, np.int64)).to_pylist() == expected
