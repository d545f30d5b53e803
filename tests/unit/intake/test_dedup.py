"""Exactly one row survives per key, and the first arrival wins."""

import json
from hashlib import sha256
from typing import Any

import pytest

from ilyama_protocol.canonical import canonical_json, pk_hash
from ilyama_protocol.intake.history import History, NewestChange, RowKey, StoredRow
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
    taken,
)


def test_a_retried_batch_adds_no_rows() -> None:
    rows = [change(1), change(2)]

    retried = taken(batch(*rows, number=1), batch(*rows, number=2))

    assert accepted_places(retried) == [(A, 1, False), (A, 2, False)]
    assert last_line(retried).outcome == "duplicate"
    assert counts(last_line(retried)) == {"received": 2, "duplicate": 2}


def test_rows_that_are_cut_into_other_batches_are_stored_once() -> None:
    first, second, third = (change(seq) for seq in (1, 2, 3))

    recut = taken(batch(first, second), batch(second, third))

    assert accepted_places(recut) == [(A, 1, False), (A, 2, False), (A, 3, False)]
    assert last_line(recut).outcome == "accepted"
    assert counts(last_line(recut)) == {"received": 2, "new": 1, "duplicate": 1}


def test_a_key_that_comes_twice_in_one_batch_is_stored_once() -> None:
    doubled = taken(batch(change(1), change(1)))

    assert accepted_places(doubled) == [(A, 1, False)]
    assert counts(last_line(doubled)) == {"received": 2, "new": 1, "duplicate": 1}
    assert not doubled.decisions.conflicts


@pytest.mark.parametrize(
    ("other", "table", "epoch"),
    [
        (change(1, pk=2), TABLE, A),
        (change(1, pk=1.0), TABLE, A),
        (change(1, pk="1"), TABLE, A),
        (change(2, pk=1), TABLE, A),
        (change(1, pk=1), "valves", A),
        (change(1, pk=1), TABLE, B),
    ],
    ids=["primary key", "a real is no integer", "a text is no integer", "number", "table", "epoch"],
)
def test_every_part_of_the_key_tells_rows_apart(other: Any, table: str, epoch: str) -> None:
    both = taken(batch(change(1)), batch(other, table=table, epoch=epoch))

    assert len(accepted_places(both)) == 2


@pytest.mark.parametrize(
    ("first", "other", "conflicts"),
    [
        ('{"v":1,"w":2}', '{"w":2,"v":1}', False),
        ('{"v":1}', '{ "v" : 1 }', False),
        ('{"v":100.0}', '{"v":1e2}', False),
        ('{"v":0}', '{"v":-0}', False),
        ('{"v":"\\u0041"}', '{"v":"A"}', False),
        ('{"v":1}', '{"v":1.0}', True),
        ('{"v":0.0}', '{"v":-0.0}', True),
        ('{"v":1}', '{"v":true}', True),
        ('{"v":null}', "{}", True),
        ('{"v":"é"}', '{"v":"e\\u0301"}', True),
    ],
)
def test_only_other_content_is_a_conflict(first: str, other: str, conflicts: bool) -> None:
    def spelled(row: str, number: int) -> bytes:
        return batch(change(1, row="ROW"), number=number).replace(b'"ROW"', row.encode())

    met = taken(spelled(first, 1), spelled(other, 2))

    assert len(accepted_places(met)) == 1
    assert last_line(met).rows_conflict == len(met.decisions.conflicts) == int(conflicts)


def test_another_operation_under_a_key_is_a_conflict() -> None:
    met = taken(batch(change(1)), batch(change(1, op="delete")))

    (conflict,) = met.decisions.conflicts
    assert (conflict.kind, conflict.source_table) == ("row", TABLE)
    assert json.loads(conflict.key) == {
        "commit_seq": 1,
        "journal_epoch": A,
        "source_pk_hash": pk_hash({"id": 1}),
    }
    assert conflict.first == '{"op":"update","row":{"mode":"idle"}}'
    assert conflict.other == '{"op":"delete","row":null}'


def test_the_first_content_stays_and_every_other_arrival_is_counted() -> None:
    other = change(1, row={"mode": "other"})

    met = taken(batch(change(1)), batch(other), batch(other, number=1), batch(other, number=1))

    assert accepted_places(met) == [(A, 1, False)]
    assert [*met.decisions.conflicts.values()] == [3]
    assert counts(last_line(met)) == {"received": 1, "duplicate": 1, "conflict": 1}


def test_twins_in_one_batch_may_quarrel() -> None:
    met = taken(batch(change(1), change(1, row={"mode": "other"})))

    assert counts(last_line(met)) == {"received": 2, "new": 1, "duplicate": 1, "conflict": 1}


def test_a_row_of_an_earlier_drain_is_known_by_history() -> None:
    key = RowKey(TABLE, A, pk_hash({"id": 1}), 1)
    history = History.of(
        stored=[StoredRow(key, "update", '{"mode":"idle"}')],
        newest=[NewestChange(TABLE, key.source_pk_hash, A, 1)],
    )
    told = engine(state_with(watermarks={A: 1}), history=history)

    decided([batch(change(1)), batch(change(1, row={}))], told)

    assert not told.decisions.outcomes.accepted
    assert [line.rows_conflict for line in told.decisions.outcomes.ledger] == [0, 1]


def test_long_content_that_stays_is_not_repeated_beside_all_that_came_under_its_key() -> None:
    stays = change(1, row={"note": "x" * 100_000})
    others = [change(1, row={"note": str(number)}) for number in range(1_000)]

    conflicts = taken(batch(stays, *others)).decisions.conflicts

    digest = sha256(canonical_json({"op": "update", "row": stays["row"]}).encode()).hexdigest()
    assert {conflict.first for conflict in conflicts} == {f"content sha256:{digest}"}
    assert [json.loads(conflict.other)["row"] for conflict in conflicts] == [
        other["row"] for other in others
    ]
