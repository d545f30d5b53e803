"""Rows that retention has dropped cannot be told from duplicates any more."""

from hashlib import sha256

import pytest

from ilyama_protocol.canonical import pk_hash
from ilyama_protocol.intake.history import History, KnownPayload, RowKey, StoredRow
from ilyama_protocol.intake.state import DeviceState
from tests.unit.intake.traffic import (
    TABLE,
    A,
    B,
    accepted_places,
    batch,
    change,
    counts,
    decided,
    engine,
    last_line,
    state_with,
)

FLOOR = 10


def _state() -> DeviceState:
    return state_with(watermarks={A: 20}, floors={A: FLOOR})


def test_a_batch_of_nothing_but_dropped_rows_is_rejected_with_its_bytes() -> None:
    payload = batch(change(FLOOR - 1), change(FLOOR))

    below = decided([payload], engine(_state(), history=History()))

    (rejected,) = below.decisions.outcomes.rejected
    assert (rejected.rejection.code, rejected.rejection.action) == ("below_floor", "drop")
    assert rejected.arrival.message.payload == payload
    assert counts(last_line(below)) == {"received": 2, "rejected": 2}
    assert last_line(below).source_table == TABLE


def test_dropped_rows_among_others_are_skipped_and_counted() -> None:
    rows = [change(FLOOR), change(FLOOR + 1), change(30)]

    mixed = decided([batch(*rows)], engine(_state(), history=History()))

    assert accepted_places(mixed) == [(A, FLOOR + 1, False), (A, 30, False)]
    assert last_line(mixed).outcome == "accepted"
    assert counts(last_line(mixed)) == {
        "received": 3,
        "new": 2,
        "duplicate": 1,
        "below_floor": 1,
    }


def test_dropped_rows_among_known_ones_make_a_duplicate() -> None:
    key = RowKey(TABLE, A, pk_hash({"id": 1}), FLOOR + 1)
    history = History.of(stored=[StoredRow(key, "update", '{"mode":"idle"}')])

    known = decided([batch(change(FLOOR), change(FLOOR + 1))], engine(_state(), history=history))

    assert last_line(known).outcome == "duplicate"
    assert counts(last_line(known)) == {"received": 2, "duplicate": 2, "below_floor": 1}


@pytest.mark.parametrize(("epoch", "table"), [(B, TABLE), (A, "valves")])
def test_a_floor_holds_for_its_lineage_and_epoch_only(epoch: str, table: str) -> None:
    other = decided(
        [batch(change(1), epoch=epoch, table=table)], engine(_state(), history=History())
    )

    assert accepted_places(other) == [(epoch, 1, False)]


def test_a_repeated_batch_is_measured_against_the_floor_of_today() -> None:
    payload = batch(change(FLOOR), change(FLOOR + 1))
    key = RowKey(TABLE, A, pk_hash({"id": 1}), FLOOR + 1)
    history = History.of(
        stored=[StoredRow(key, "update", '{"mode":"idle"}')],
        payloads=[KnownPayload(sha256(payload).hexdigest(), TABLE, "batch", 2)],
    )

    repeated = decided([payload], engine(_state(), history=history))

    assert counts(last_line(repeated)) == {"received": 2, "duplicate": 2, "below_floor": 1}


def test_conflicts_are_not_looked_for_below_the_floor() -> None:
    met = decided(
        [batch(change(1, row={})), batch(change(30))], engine(_state(), history=History())
    )

    assert not met.decisions.conflicts


def test_a_refused_batch_tells_its_journal_and_numbers_so_that_gaps_name_it() -> None:
    below = decided([batch(change(FLOOR), change(FLOOR - 3))], engine(_state(), history=History()))

    (refused,) = below.decisions.refused
    told = refused.rejected.rejection
    assert (told.journal_epoch, told.numbers) == (A, (FLOOR - 3, FLOOR))
