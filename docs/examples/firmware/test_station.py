"""The tiny firmware against the platform's own rules; `pytest` finds the fixtures by itself."""

import json
import sqlite3

import pytest
from station import Station, affinity, canonical, schema_columns, schema_hash

ROWS = "sync/rows/batch"


@pytest.fixture
def db():
    with sqlite3.connect(":memory:") as connection:
        yield connection


@pytest.fixture
def station(db):
    return Station(db)


def test_a_batch_breaks_no_rule(station, ilyama_check):
    station.set(1, "running", 1450.0)
    station.remove(1)

    ilyama_check(ROWS, station.batch()).assert_accepted()


def test_a_retry_adds_nothing(station, ilyama_device):
    station.set(1, "running", 1450.0)
    batch = station.batch()

    ilyama_device.publish(ROWS, batch).assert_accepted(rows_new=1)
    ilyama_device.publish(ROWS, batch).assert_duplicate()


def test_a_rebuilt_journal_conflicts_with_nothing(station, ilyama_device):
    station.set(1, "running", 1450.0)
    ilyama_device.publish(ROWS, station.batch()).assert_accepted()

    station.rebuild_journal()
    station.set(1, "stopped", 0.0)

    ilyama_device.publish(ROWS, station.batch()).assert_accepted(rows_new=1, rows_conflict=0)


def test_batches_that_overtake_each_other_lose_nothing(station, ilyama_device):
    station.set(1, "running", 1450.0)
    first = station.batch()
    station.set(1, "stopped", 0.0)
    second = station.batch()

    ilyama_device.publish(ROWS, second).assert_accepted(rows_new=1, rows_late=0)
    ilyama_device.publish(ROWS, first).assert_accepted(rows_new=1, rows_late=1)


def test_a_stranger_is_told_so(station, ilyama_devices):
    station.set(1, "running", 1450.0)

    answer = ilyama_devices("acme/unknown", registered=False).publish(ROWS, station.batch())

    answer.assert_rejected("unregistered_device")


def test_our_canonical_json_is_the_platforms(ilyama_canonical_vector):
    vector = ilyama_canonical_vector

    assert canonical(json.loads(vector.input_json)) == vector.canonical


def test_our_affinities_are_those_of_sqlite(ilyama_affinity_vector):
    assert affinity(ilyama_affinity_vector.declared_type) == ilyama_affinity_vector.affinity


def test_our_fingerprints_are_the_platforms(db, ilyama_schema_vector, ilyama_encoding):
    db.execute(ilyama_schema_vector.create_table)
    schema = schema_columns(db, ilyama_schema_vector.table_name)

    assert schema_hash(schema) == ilyama_schema_vector.sha256
    assert ilyama_encoding.schema_hash(schema) == ilyama_schema_vector.sha256
